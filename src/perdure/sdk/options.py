"""What authors may set on activities and workflows, checked where it is written and turned into what commands carry.

Authors write seconds, timedeltas and exception classes; commands hold integer microseconds and names.
"""

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypedDict, TypeVar, cast

from perdure.core.commands import ScheduleActivity
from perdure.core.errors import InvalidArgument
from perdure.core.events import OnCancel
from perdure.core.ids import fault_of_id, is_plain
from perdure.core.retry import RetryPolicy, retry_delay
from perdure.core.tasks import PRIORITY_MAX
from perdure.core.texts import REASON_CHARS_MAX, fault_of_text
from perdure.sdk.duration import Duration, bound, length

_Choice = TypeVar("_Choice", bound=str)

SUMMARY_CHARS_MAX: Final = 1_000
CLASS_CHARS_MAX: Final = 1_000
FLOAT_MAX: Final = sys.float_info.max


@dataclass(frozen=True, slots=True)
class Retry:
    """How an activity or workflow is tried again after a failure.

    The delay is `initial` (seconds or timedelta, kept as seconds) after the first attempt and grows by `factor` (1 or more) up to
    `max_interval`; `jitter` (0 to 1) lengthens it by up to that fraction, never shortens it. `max_attempts` counts the first one too;
    0 = unlimited. `non_retryable` holds exception classes (subclasses count) or class names that end the attempts at once.
    Raises `InvalidArgument` for a field out of its bounds.
    """

    initial: Duration = 1.0
    factor: float = 2.0
    max_interval: Duration = 100.0
    max_attempts: int = 0
    jitter: float = 0.2
    non_retryable: Iterable[type[BaseException] | str] = ()
    _policy: RetryPolicy = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        initial = length(self.initial, "Retry.initial") / 1_000_000
        max_interval = length(self.max_interval, "Retry.max_interval") / 1_000_000
        classes = _classes(self.non_retryable)
        policy = RetryPolicy(
            initial=initial,
            factor=_number(self.factor, "Retry.factor", 1.0, math.inf),
            max_interval=max_interval,
            max_attempts=whole(self.max_attempts, "Retry.max_attempts", 0, 2**31 - 1),
            jitter=_number(self.jitter, "Retry.jitter", 0.0, 1.0),
            non_retryable=tuple(item if isinstance(item, str) else item.__name__ for item in classes),
        )
        settled = {"initial": initial, "max_interval": max_interval, "non_retryable": classes, "_policy": policy}
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    def delay(self, attempt: int) -> float:
        """Seconds to wait after attempt number `attempt` (1-based) failed, before jitter; pure, and finite for any attempt."""
        return retry_delay(self._policy, attempt)

    def policy(self) -> RetryPolicy:
        """The same as commands carry it: classes by name."""
        return self._policy


class CallOptions(TypedDict, total=False):
    """What one call of an activity may set, as `charge.options(…)`. A key left out keeps its value, None takes it away."""

    queue: str | None
    """The line of workers to run on; None: the run's own."""
    retry: Retry | None
    """None: the default `Retry()`. For one attempt only say `Retry(max_attempts=1)`."""
    start_to_close: Duration | None
    """Bound on one attempt."""
    schedule_to_close: Duration | None
    """Bound on all attempts together, waiting included."""
    schedule_to_start: Duration | None
    """Bound on waiting for a worker."""
    heartbeat: Duration | None
    """Bound on the time between two `activity.heartbeat()`; an activity that sets it must call that."""
    process: bool
    """Run in a child process of the worker: for what uses the processor. The function must be found by its module and name."""
    local: bool
    """Run on the worker that runs the workflow, as soon as its schedule is written; on another one only when that worker has no slot or is gone."""
    priority: int
    """-1,000 to 1,000; higher goes first, 0 is the run's own."""
    summary: str | None
    """A few words for people (up to 1,000 characters), never compared on replay."""
    idempotency_key: str | None
    """Instead of the derived key."""
    on_cancel: OnCancel
    """`try`: ask it to stop and go on at once; `wait`: go on when it has ended; `abandon`: do not even ask."""


class ActivityOptions(CallOptions, total=False):
    """What `@activity(…)` takes: all that a call may set, and the name."""

    name: str | None
    """The type name; None: the function's."""


class WorkflowCallOptions(TypedDict, total=False):
    """What one call of a workflow may set, as `fulfil.options(…)`. A key left out keeps its value, None takes it away."""

    queue: str | None
    """Where runs start unless the start says otherwise; of a child, None: its parent's queue."""
    timeout: Duration | None
    """Bound on a run from start to close."""
    retry: Retry | None
    """How a failed run is tried again; None: not at all."""


class WorkflowOptions(WorkflowCallOptions, total=False):
    """What `@workflow(…)` takes."""

    name: str | None
    """The type name; None: the function's."""


def identifier(value: str, what: str) -> str:
    """`value`, as plain `str`, if it can be an id or a name: 1 to 255 bytes of UTF-8 without control characters; else raises `InvalidArgument`."""
    if type(value) is str and is_plain(value):
        return value
    if fault := fault_of_id(value):
        raise InvalidArgument(f"{what} {fault}: {_shown(value)}")
    return str.__str__(value)


def free_text(value: object, what: str, chars_max: int) -> str:
    """`value` as plain `str`, empty for None. Raises `InvalidArgument` for what is no text, too long, or cannot be written as UTF-8."""
    if value is None:
        return ""
    if fault := fault_of_text(value, chars_max):
        raise InvalidArgument(f"{what} {fault}: {_shown(value)}")
    return str.__str__(cast("str", value))


def reason(value: object) -> str:
    """Why somebody stops or resumes a run, empty for None; raises `InvalidArgument` past 10,000 characters."""
    return free_text(value, "reason", REASON_CHARS_MAX)


def command_fields(options: CallOptions, base: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The fields of `ScheduleActivity` that `options` set on top of `base`, without those that only repeat a default.

    Raises `InvalidArgument` for a value out of its bounds and `TypeError` for a name that is no option.
    """
    refuse_unknown(options, CallOptions.__optional_keys__, "an activity")
    fields = dict(base or {})
    for name, given in options.items():
        value = _field(name, given)
        if value == _DEFAULTS[name]:
            fields.pop(name, None)
        else:
            fields[name] = value
    return fields


def refuse_unknown(options: CallOptions | WorkflowCallOptions, known: frozenset[str], what: str) -> None:
    """Raise the `TypeError` Python itself would, had the names been spelt out."""
    for name in options:
        if name not in known:
            raise TypeError(f"{what} has no option {name!r}")


def retry_policy(value: object) -> RetryPolicy | None:
    """What a command carries for `retry=`."""
    if value is None:
        return None
    if not isinstance(value, Retry):
        raise InvalidArgument(f"retry must be a Retry, not {value!r}")
    return value.policy()


_DEFAULTS: Final[dict[str, Any]] = {
    name: getattr(ScheduleActivity(at=0, name=""), name) for name in CallOptions.__annotations__
}


def _field(name: str, value: Any) -> Any:
    match name:
        case "start_to_close" | "schedule_to_close" | "schedule_to_start" | "heartbeat":
            return bound(value, name)
        case "queue" | "idempotency_key":
            return "" if value is None else identifier(value, name)
        case "retry":
            return retry_policy(value) or RetryPolicy()
        case "summary":
            return summary(value)
        case "priority":
            return whole(value, name, -PRIORITY_MAX, PRIORITY_MAX)
        case "on_cancel":
            return choice(value, name, ("try", "wait", "abandon"))
        case _:  # process, local
            return flag(value, name)


def summary(value: object) -> str:
    """A few words for people, empty for None; raises `InvalidArgument` past 1,000 characters."""
    return free_text(value, "summary", SUMMARY_CHARS_MAX)


def flag(value: object, what: str) -> bool:
    """`value`, if it is True or False; else raises `InvalidArgument`."""
    if not isinstance(value, bool):
        raise InvalidArgument(f"{what} must be True or False, not {_shown(value)}")
    return value


def choice(value: object, what: str, choices: tuple[_Choice, ...]) -> _Choice:
    """The one of `choices` that `value` equals; raises `InvalidArgument` when none does."""
    for known in choices:
        if value == known:
            return known
    raise InvalidArgument(f"{what} must be one of {', '.join(choices)}, not {_shown(value)}")


def whole(value: object, what: str, lowest: int, highest: int) -> int:
    """`value`, as plain `int`, if it is one (no bool) within these bounds; else raises `InvalidArgument`."""
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise InvalidArgument(f"{what} must be a whole number from {lowest:,} to {highest:,}, not {_shown(value)}")
    return int.__int__(value)


def positive(name: str, value: object) -> int:
    """`value`, as plain `int`, if it is one (no bool) from 1; else raises `InvalidArgument`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidArgument(f"{name} must be a whole number from 1, not {_shown(value)}")
    return int.__int__(value)


def _shown(value: object) -> str:
    """The start of a value's repr, for an error; a class that has none to show must not hide what is wrong with it."""
    try:
        return repr(value)[:100]
    except Exception:  # noqa: BLE001  user code may raise anything here
        return f"a {type(value).__name__}"


def _number(value: object, what: str, lowest: float, highest: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= FLOAT_MAX:  # NaN is not
        raise InvalidArgument(f"{what} must be a finite number, not {value!r}")
    if not lowest <= value <= highest:
        raise InvalidArgument(
            f"{what} must be at least {lowest:g}" + (f" and at most {highest:g}" * (highest < math.inf)) + f", not {value!r}"
        )
    return float(value)


def _classes(given: object) -> tuple[type[BaseException] | str, ...]:
    # One class or name alone is taken as such: a bare string would otherwise be read letter by letter.
    if isinstance(given, (str, type)):
        given = (given,)
    if not isinstance(given, Iterable):
        raise InvalidArgument(f"Retry.non_retryable takes exception classes and names, not {given!r}")
    return tuple(_class(item) for item in cast("Iterable[object]", given))


def _class(item: object) -> type[BaseException] | str:
    if isinstance(item, str) and item:
        return free_text(item, "Retry.non_retryable", CLASS_CHARS_MAX)
    if isinstance(item, type) and issubclass(item, BaseException):
        return item
    raise InvalidArgument(f"Retry.non_retryable takes exception classes and names, not {item!r}")
