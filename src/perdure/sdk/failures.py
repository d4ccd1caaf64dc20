"""Exceptions to failures: what user code raised, as data that lies in a history and crosses processes.

`to_failure` never raises, whatever the exception's class does, and never makes more than FAILURE_BYTES_MAX; what is too much or cannot be
encoded is left out, tracebacks and arguments first. The way back is `to_exception`, in `exceptions`.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar, get_args

from msgspec import Raw, json, structs

from perdure.core.errors import ActivityError, ApplicationError, ChildWorkflowError, PayloadTooLarge, PerdureError
from perdure.core.failure import Failure, FailureKind
from perdure.core.payload import ABSENT, Payload, is_absent
from perdure.core.retry import DELAY_MAX_S
from perdure.sdk.converter import Converter
from perdure.sdk.exceptions import to_exception
from perdure.sdk.tracebacks import traceback_text

__all__ = ["FAILURE_BYTES_MAX", "to_exception", "to_failure"]

FAILURE_BYTES_MAX: Final = 256 * 1024
"""JSON of one failure with its whole chain."""
LINKS_MAX: Final = 32
"""Exceptions in one failure: causes, contexts and members of groups."""
NAME_CHARS_MAX: Final = 200
ATTEMPTS_MAX: Final = 2**31 - 1
BASES_MAX: Final = 16
NOTES_MAX: Final = 20
MESSAGE_CHARS_MAX: Final = 8 * 1024
PART_BYTES_MAX: Final = 64 * 1024
"""One exception's arguments, one of its fields, its details."""

_T = TypeVar("_T")
_NO_STEP: Final[tuple[FailureKind, str, int]] = ("error", "", 0)
_KINDS: Final[tuple[FailureKind, ...]] = get_args(FailureKind)
_base: Final[Any] = BaseException
"""For its own attributes, past whatever a class put over them."""
_GROUP: Final[Any] = BaseExceptionGroup
_part: Final = Converter(PART_BYTES_MAX)
_C_FIELDS: Final[dict[type[BaseException], tuple[str, ...]]] = {
    ImportError: ("name", "path"),
    NameError: ("name",),
    AttributeError: ("name",),
}
"""Attributes of built-in exceptions that are neither in `args` nor in the instance's dict."""


def to_failure(exc: BaseException) -> Failure:
    """The exception, its notes, traceback text, causes and contexts as data; the last resort is its bare class name."""
    return _guarded(lambda: _bounded(_Links().failure(exc)), None) or Failure(
        type=_name(type(exc)), message="(the exception could not be read)"
    )


class _Links:
    """Turns one exception and those it hangs together with into failures, each once, at most LINKS_MAX of them."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def failure(self, exc: BaseException) -> Failure:
        self.seen.add(id(exc))
        cls = type(exc)
        parts = tuple(self._parts(exc))  # before the context, which is one of them when a task group's body raises
        kind, name, attempts = _guarded(lambda: _step(exc), _NO_STEP)
        return Failure(
            type=_guarded(lambda: _clean(_given_type(exc) or cls.__name__, NAME_CHARS_MAX), "Exception"),
            message=_message(exc),
            module=_guarded(lambda: _clean(str(cls.__module__), NAME_CHARS_MAX), ""),
            qualname=_guarded(lambda: _clean(cls.__qualname__, NAME_CHARS_MAX), ""),
            bases=_guarded(lambda: tuple(_bases(exc)), ()),
            args=_guarded(lambda: _part.encode(_args(exc), "args"), ABSENT),
            fields=_guarded(lambda: _fields(exc), ABSENT),
            details=_guarded(lambda: _details(exc), ABSENT),
            notes=_guarded(lambda: tuple(_notes(exc)), ()),
            traceback=_guarded(lambda: _clean(traceback_text(_base.__traceback__.__get__(exc)), None), ""),
            kind=kind,
            name=name,
            attempts=attempts,
            non_retryable=_guarded(lambda: _non_retryable(exc), False),
            next_retry_delay=_guarded(lambda: _delay(exc), -1),
            cause=self._next(_base.__cause__.__get__(exc)),
            context=self._next(_base.__context__.__get__(exc)),
            suppress_context=_base.__suppress_context__.__get__(exc),
            parts=parts,
        )

    def _next(self, exc: Any) -> Failure | None:
        if exc is None or id(exc) in self.seen or len(self.seen) >= LINKS_MAX:
            return None
        return self.failure(exc)

    def _parts(self, exc: BaseException) -> Iterator[Failure]:
        """A group's members, all of them spoken for before the first is looked at: another one's context may lead to them."""
        members: list[BaseException] = []
        given: tuple[Any, ...] = _guarded(lambda: _members(exc), ())
        for member in given:
            if id(member) not in self.seen and len(self.seen) < LINKS_MAX:
                self.seen.add(id(member))
                members.append(member)
        yield from map(self.failure, members)


def _guarded(look: Callable[[], _T], otherwise: _T) -> _T:
    """What `look` gives, or `otherwise` when the exception's own code raises; only a real Ctrl-C gets through."""
    try:
        return look()
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001  user code may raise anything here
        return otherwise


def _is(exc: Any, cls: Any) -> bool:
    """`isinstance` that asks the type alone; it leaves type checkers with Any."""
    return issubclass(type(exc), cls)


def _clean(text: str, chars_max: int | None) -> str:
    """Text that can be written as UTF-8, not longer than `chars_max`."""
    plain = str.__str__(text)
    if chars_max is not None and len(plain) > chars_max:
        plain = plain[: chars_max - 1] + "…"
    return plain.encode("utf-8", "backslashreplace").decode("utf-8")


def _name(cls: type) -> str:
    return _guarded(lambda: _clean(cls.__name__, NAME_CHARS_MAX), "Exception")


def _message(exc: BaseException) -> str:
    return _guarded(lambda: _clean(str(exc), MESSAGE_CHARS_MAX), "(its text could not be read)")


def _bases(exc: BaseException) -> Iterator[str]:
    """Names of the base classes, nearest first; an application error's own class too when it goes by another name."""
    cls: type[BaseException] = type(exc)
    mro: list[type] = type.mro(cls)[0 if _given_type(exc) else 1 :]
    for base in mro[:BASES_MAX]:
        if base is not object:
            yield _name(base)


def _given_type(exc: Any) -> str | None:
    given: Any = getattr(exc, "type", None) if _is(exc, ApplicationError) else None
    return given if isinstance(given, str) and given else None


def _step(exc: Any) -> tuple[FailureKind, str, int]:
    if _is(exc, (ActivityError, ChildWorkflowError)):
        return _kind(exc.kind), _clean(exc.name, NAME_CHARS_MAX) if isinstance(exc.name, str) else "", _count(exc.attempts)
    return _NO_STEP


def _kind(kind: object) -> FailureKind:
    """One that can be read back: authors may raise these classes with whatever they like."""
    for known in _KINDS:
        if known == kind:
            return known
    return "error"


def _count(attempts: object) -> int:
    if isinstance(attempts, bool) or not isinstance(attempts, int) or not 0 <= attempts <= ATTEMPTS_MAX:
        return 0
    return int.__int__(attempts)


def _members(exc: Any) -> tuple[Any, ...]:
    return exc.exceptions if _is(exc, _GROUP) else ()


def _args(exc: Any) -> list[Any]:
    if _is(exc, _GROUP):
        return [exc.message]
    args = list(_base.args.__get__(exc))
    if _is(exc, OSError) and len(args) == 2 and exc.filename is not None:
        args.append(exc.filename)
        if exc.filename2 is not None:
            args += [None, exc.filename2]
    return args


def _fields(exc: Any) -> Payload:
    """A JSON object of the attributes that can be encoded; perdure's own errors keep most of theirs elsewhere in the failure."""
    left_out = {"type", "details", "non_retryable", "next_retry_delay"} if _is(exc, ApplicationError) else set[str]()
    if _is(exc, (ActivityError, ChildWorkflowError)):
        left_out = {"name", "attempts", "kind"}
    encoded: dict[str, Payload] = {}
    for name, part in _attributes(exc).items():
        if name not in left_out and not name.startswith("__") and not is_absent(payload := _encoded(part)):
            encoded[name] = payload
    return Raw(json.encode(encoded)) if encoded else ABSENT


def _encoded(part: Any) -> Payload:
    return _guarded(lambda: _part.encode(part, "field"), ABSENT)


def _attributes(exc: BaseException) -> dict[str, Any]:
    """Instance dict, slots, and what C keeps."""
    attributes: dict[str, Any] = {}
    for cls in type.mro(type(exc)):
        slots: Any = cls.__dict__.get("__slots__", ())
        names = (slots,) if isinstance(slots, str) else tuple(slots)
        for name in (*names, *_C_FIELDS.get(cls, ())):
            if (part := _attribute(exc, name)) is not None:
                attributes[name] = part
    attributes.update(BaseException.__getattribute__(exc, "__dict__"))
    return attributes


def _attribute(exc: BaseException, name: str) -> Any:
    return _guarded(lambda: BaseException.__getattribute__(exc, name), None)


def _details(exc: Any) -> Payload:
    if not _is(exc, ApplicationError) or exc.details is None:
        return ABSENT
    return _part.encode(exc.details, "details")


def _notes(exc: Any) -> Iterator[str]:
    notes: Any = BaseException.__getattribute__(exc, "__dict__").get("__notes__", ())
    for note in list(notes)[:NOTES_MAX]:
        yield _clean(note if isinstance(note, str) else repr(note), MESSAGE_CHARS_MAX)


def _non_retryable(exc: Any) -> bool:
    return _is(exc, PayloadTooLarge) or (_is(exc, PerdureError) and getattr(exc, "non_retryable", False) is True)


def _delay(exc: Any) -> int:
    seconds = exc.next_retry_delay if _is(exc, ApplicationError) else None
    return -1 if seconds is None or seconds < 0 else round(min(float(seconds), DELAY_MAX_S) * 1_000_000)


# ----------------------------------------------------------------------------------------------------------------- too large


def _bounded(failure: Failure) -> Failure:
    for trim in (_short_tracebacks, _no_parts, _short_texts, _alone):
        if len(json.encode(failure)) <= FAILURE_BYTES_MAX:
            break
        failure = trim(failure)
    return failure


def _everywhere(failure: Failure, trim: Callable[[Failure], Failure]) -> Failure:
    return structs.replace(
        trim(failure),
        cause=failure.cause and _everywhere(failure.cause, trim),
        context=failure.context and _everywhere(failure.context, trim),
        parts=tuple(_everywhere(part, trim) for part in failure.parts),
    )


def _short_tracebacks(failure: Failure) -> Failure:
    return _everywhere(failure, lambda link: structs.replace(link, traceback=link.traceback[-2048:]))


def _no_parts(failure: Failure) -> Failure:
    return _everywhere(failure, lambda link: structs.replace(link, args=ABSENT, fields=ABSENT, details=ABSENT))


def _short_texts(failure: Failure) -> Failure:
    return _everywhere(
        failure,
        lambda link: structs.replace(
            link, message=link.message[:500], notes=(), traceback=link.traceback[-500:], bases=link.bases[:4]
        ),
    )


def _alone(failure: Failure) -> Failure:
    non_retryable = any(link.non_retryable for link in failure.chain())
    return structs.replace(failure, non_retryable=non_retryable, cause=None, context=None, parts=())
