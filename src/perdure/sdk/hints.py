"""Type hints of an author's function, evaluated one by one when not all of them can be. Never fails for a hint nobody asks about."""

import functools
import inspect
import typing
from collections.abc import Awaitable, Coroutine, Generator
from types import SimpleNamespace
from typing import Any

from perdure.core.errors import InvalidArgument


class Unresolved:
    """A hint that could not be evaluated, and why."""

    __slots__ = ("reason", "text")

    def __init__(self, text: str, reason: str) -> None:
        self.text = text
        self.reason = reason


def resolved(hint: Any, path: str) -> Any:
    """The hint itself; raises `InvalidArgument` naming `path` when it could not be evaluated."""
    if isinstance(hint, Unresolved):
        raise InvalidArgument(f"the hint `{hint.text}` of {path} cannot be resolved: {hint.reason}")
    return hint


def find_hints(fn: Any) -> dict[str, Any]:
    """The hints of a function, partial, class or callable object by parameter, and `return`; `Unresolved` for those that name nothing."""
    while isinstance(fn, functools.partial):
        fn = fn.func  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if isinstance(fn, type):
        fn = vars(fn).get("__init__", fn.__new__)
    elif not hasattr(fn, "__annotations__") or not hasattr(fn, "__name__"):
        fn = type(fn).__call__
    try:
        return typing.get_type_hints(fn, include_extras=True)
    except Exception:  # noqa: BLE001  one by one then: the others may still be good
        fn = inspect.unwrap(fn)
        return {name: _find_hint(fn, hint) for name, hint in getattr(fn, "__annotations__", {}).items()}


def _find_hint(fn: Any, hint: Any) -> Any:
    names = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=False)) if hasattr(fn, "__code__") else {}
    local = {name: cell.cell_contents for name, cell in names.items() if _is_filled(cell)}
    try:
        alone: Any = SimpleNamespace(__annotations__={"hint": hint})
        return typing.get_type_hints(alone, getattr(fn, "__globals__", {}), local, include_extras=True)["hint"]
    except Exception as error:  # noqa: BLE001  an annotation may hold any expression
        return Unresolved(str(hint), str(error))


def _is_filled(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def awaited(hint: Any) -> Any:
    """What awaiting gives, when the return hint names the awaitable itself."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in {Awaitable, Coroutine, Generator} and args:
        return args[-1]
    return hint
