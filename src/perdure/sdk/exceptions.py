"""Failures to exceptions: what was raised elsewhere, raised again here, as the same class when it can be.

Classes are only looked up among modules already imported, never imported because data names them. An instance is made past `__init__`, then
given its arguments and fields; of its own code only `__str__` is run, to see that it can be. Reading never fails because of a class.
"""

import asyncio
import builtins
import sys
import typing
from types import ModuleType
from typing import Any, Final

from msgspec import Raw, json

from perdure.core.errors import ActivityError, ApplicationError, ChildWorkflowError
from perdure.core.failure import Failure
from perdure.core.payload import Payload, is_absent
from perdure.sdk.converter import CONVERTER
from perdure.sdk.tracebacks import traceback_from

_GROUP: Final[Any] = BaseExceptionGroup
_NEVER: Final = (SystemExit, KeyboardInterrupt, GeneratorExit)
"""They would end the process or the coroutine that reads a result."""
_ARGUMENT_TYPES: Final[dict[type[BaseException], tuple[Any, ...]]] = {UnicodeDecodeError: (str, bytes, int, int, str)}
"""Of built-in exceptions whose arguments plain JSON values do not stand for."""


def to_exception(failure: Failure) -> BaseException:
    """The exception a failure stands for: same class, arguments, fields, notes, cause, context and traceback entries.

    When its class is not known here or does not take back what it had, an `ApplicationError` whose `type` is the class name. A
    `CancelledError` becomes that too: raised again it would cancel whoever reads the result.
    """
    return _exception(failure, outermost=True)


def to_raisable(failure: Failure) -> Exception:
    """Like `to_exception`, for code that goes on: `SystemExit`, `CancelledError` and their like mean something to the loop they are raised
    in, and are only news here."""
    error = to_exception(failure)
    if isinstance(error, Exception):
        return error
    return ApplicationError(failure.message, type=failure.type, non_retryable=failure.non_retryable)


def _exception(failure: Failure, *, outermost: bool = False) -> BaseException:
    try:
        exc = _rebuilt(failure, outermost=outermost)
    except Exception:  # noqa: BLE001  a class that cannot be rebuilt must not hide what happened
        exc = None
    if exc is None:
        exc = _stand_in(failure)
    _dress(exc, failure)
    return exc


def _rebuilt(failure: Failure, *, outermost: bool) -> BaseException | None:
    cls: Any = find_class(failure.module, failure.qualname)
    if cls is None or (outermost and issubclass(cls, asyncio.CancelledError)):
        return None
    if issubclass(cls, _GROUP):
        parts = [_exception(part) for part in failure.parts]
        message = (_plain_args(failure) or [failure.message])[0]
        exc: Any = _GROUP.__new__(cls, message, parts) if parts else None
    else:
        base: Any = next(parent for parent in cls.__mro__ if parent.__module__ == builtins.__name__)
        args = _typed_args(failure, cls, base)
        exc = base.__new__(cls, *args)
        base.__init__(exc, *args)
    if exc is None:
        return None
    _set_fields(exc, failure)
    return typing.cast("BaseException", exc) if _can_be_shown(exc) else None


def _can_be_shown(exc: Any) -> bool:
    """False when its own text is made of something that did not travel: it would fail whoever prints it."""
    try:
        str(exc)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001  user code may raise anything here
        return False
    return True


def find_class(module: str, qualname: str) -> type[BaseException] | None:
    """The exception class of that name in a module that is already imported; None for anything else and for what must not be raised."""
    found: Any = sys.modules.get(module)
    for name in qualname.split("."):
        # Past any `__getattr__`: looking a name up must not run code or import.
        found = _own(found, name)
    if not isinstance(found, type) or not issubclass(found, BaseException) or issubclass(found, _NEVER):
        return None
    return found


def _own(holder: Any, name: str) -> Any:
    return vars(holder).get(name) if isinstance(holder, (type, ModuleType)) else None


def _plain_args(failure: Failure) -> list[Any]:
    if is_absent(failure.args):
        return []
    args: list[Any] = CONVERTER.decode(failure.args, list[Any])
    return args


def _typed_args(failure: Failure, cls: type[BaseException], base: Any) -> list[Any]:
    """Its arguments; without any, its message in their place. They are read by the hints of `__init__` where those fit."""
    if is_absent(failure.args):
        return [failure.message] if failure.message else []
    payloads: list[Raw] = json.decode(failure.args, type=list[Raw])
    hints = _ARGUMENT_TYPES.get(base) or _hints_of_init(cls)
    return [_by_hint(payload, hints[n] if n < len(hints) else Any) for n, payload in enumerate(payloads)]


def _hints_of_init(cls: type[BaseException]) -> tuple[Any, ...]:
    init: Any = getattr(cls, "__init__", None)
    code: Any = getattr(init, "__code__", None)
    if code is None:
        return ()
    hints = _hints(init)
    names: tuple[str, ...] = code.co_varnames[1 : code.co_argcount]
    return tuple(hints.get(name, Any) for name in names)


def _hints(holder: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(holder, include_extras=True)
    except Exception:  # noqa: BLE001  hints that cannot be evaluated are no hints
        return {}


def _by_hint(payload: Payload, hint: Any) -> Any:
    """A custom `__init__` may hand other things to its base than it was given; what does not fit its hint is read plainly."""
    try:
        return CONVERTER.decode(payload, hint)
    except Exception:  # noqa: BLE001
        return CONVERTER.decode(payload)


def _set_fields(exc: BaseException, failure: Failure) -> None:
    known: dict[str, Any] = {}
    if issubclass(type(exc), ApplicationError):
        known = {
            "type": failure.type if failure.type != type(exc).__name__ else None,
            "details": None if is_absent(failure.details) else CONVERTER.decode(failure.details),
            "non_retryable": failure.non_retryable,
            "next_retry_delay": None if failure.next_retry_delay < 0 else failure.next_retry_delay / 1_000_000,
        }
    elif issubclass(type(exc), (ActivityError, ChildWorkflowError)):
        known = {"name": failure.name, "attempts": failure.attempts, "kind": failure.kind}
    for name, part in known.items():
        _set(exc, name, part)
    if is_absent(failure.fields):
        return
    fields: dict[str, Raw] = json.decode(failure.fields, type=dict[str, Raw])
    hints = _hints(type(exc)) | _init_hints_by_name(type(exc))
    for name, payload in fields.items():
        if not name.startswith("__"):
            _set(exc, name, _by_hint(payload, hints.get(name, Any)))


def _init_hints_by_name(cls: type[BaseException]) -> dict[str, Any]:
    """An attribute called like an argument of `__init__` is taken to be of its type, unless the class says so itself."""
    own: dict[str, Any] = getattr(cls, "__annotations__", {})
    init = _hints(getattr(cls, "__init__", None)) if hasattr(getattr(cls, "__init__", None), "__code__") else {}
    return {name: hint for name, hint in init.items() if name not in own}


def _set(exc: BaseException, name: str, part: Any) -> None:
    """Past the class's own `__setattr__` and properties; what cannot be set is left out."""
    try:
        BaseException.__setattr__(exc, name, part)
    except (AttributeError, TypeError, ValueError):
        _dict_of(exc).setdefault(name, part)


def _dict_of(exc: BaseException) -> dict[str, Any]:
    attributes: dict[str, Any] = BaseException.__getattribute__(exc, "__dict__")
    return attributes


def _stand_in(failure: Failure) -> ApplicationError:
    delay = None if failure.next_retry_delay < 0 else failure.next_retry_delay / 1_000_000
    details = None if is_absent(failure.details) else _plain(failure.details)
    return ApplicationError(
        failure.message,
        type=failure.type,
        details=details,
        non_retryable=failure.non_retryable,
        next_retry_delay=delay,
    )


def _plain(payload: Payload) -> Any:
    try:
        return CONVERTER.decode(payload)
    except Exception:  # noqa: BLE001  details that are no JSON are no reason to lose the failure
        return None


def _dress(exc: BaseException, failure: Failure) -> None:
    """Notes, chain and traceback: what Python itself keeps beside any exception. Past the class's own attributes."""
    plain: Any = BaseException
    if failure.notes:
        _dict_of(exc)["__notes__"] = list(failure.notes)
    cause = None if failure.cause is None else _exception(failure.cause)
    context = cause if failure.context is None else _exception(failure.context)
    plain.__cause__.__set__(exc, cause)
    plain.__context__.__set__(exc, context)
    plain.__suppress_context__.__set__(exc, failure.suppress_context)
    plain.__traceback__.__set__(exc, traceback_from(failure.traceback))
