"""Every entry a history can hold. The vocabulary of the house: read this file first.

A history is numbered 1…n without gaps. Entries are *inputs* (what workflow code is fed), *commands recorded* (what it asked for) or made
by the engine alone. Tags and field names are on disk for ever: they are never renamed, reused or given another meaning; new fields come
last, with a default. Tags whose behaviour is not built yet are here all the same, so that histories stay readable in both directions.

All instants and durations are integer microseconds (instants since the epoch, UTC).
"""

from typing import Final, Literal, TypeAlias

from msgspec import Struct

from perdure.core.failure import Failure, FailureKind
from perdure.core.payload import ABSENT, NULL, Payload
from perdure.core.retry import RetryPolicy

OnCancel = Literal["try", "wait", "abandon"]
OnParentClose = Literal["terminate", "cancel", "abandon"]
ClosedStatus = Literal["completed", "failed", "cancelled", "terminated", "timed_out"]
Attribute: TypeAlias = str | int | float | bool | list[str] | None
"""Attribute values; datetimes travel as ISO 8601 text with offset and are told apart by `AttributesSet.datetimes`."""


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type"):
    """One entry of a history. `id` is its number, `time` the owner's stamp, never below that of the entry before."""

    id: int
    time: int

    @property
    def type(self) -> str:
        """The tag: `activity_scheduled`, `timer_fired` …"""
        return str(self.__struct_config__.tag)


class CommandEvent(Event, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A command recorded: `at` is the input that was being fed when it was asked for, `based_on` the last event its worker had fed."""

    at: int
    based_on: int


class AnswerEvent(Event, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An input that answers a command: `command` is that event's number."""

    command: int


# ---------------------------------------------------------------------------------------------------------------------- inputs


class ParentLink(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Which run asked for a child, and by which of its commands."""

    workflow_id: str
    run_id: str
    command: int
    on_parent_close: OnParentClose = "terminate"


class RunLimits(Struct, frozen=True, kw_only=True, gc=False):
    """Limits that workflow code can see; fixed at the start so that replay sees the same ones."""

    history_warn: int = 10_000
    history_max: int = 50_000
    payload_bytes_max: int = 2 * 1024 * 1024
    attributes_max: int = 100
    attribute_bytes_max: int = 4_096


class UpdateBody(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An update as it is offered to the run's code."""

    update_id: str
    name: str
    input: tuple[Payload, ...] = ()
    keywords: dict[str, Payload] = {}
    accepted: bool = False
    """A run before a reset accepted it: its handler runs, no validator is asked again."""


class Started(Event, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="started"):
    """First event of every run."""

    workflow_type: str
    queue: str
    run_id: str
    seed: int
    input: tuple[Payload, ...] = ()
    keywords: dict[str, Payload] = {}
    request_id: str = ""
    timeout: int = 0
    """Bound on the run, from its start to its close; 0 = none."""
    retry: RetryPolicy | None = None
    attempt: int = 1
    parent: ParentLink | None = None
    memo: dict[str, Payload] = {}
    attributes: dict[str, Attribute] = {}
    attribute_datetimes: tuple[str, ...] = ()
    origin: str = "default"
    priority: int = 0
    start_delay: int = 0
    continued_from: str = ""
    """Run id of the run this one continues (continue-as-new or retry)."""
    first_run_id: str = ""
    """Run id of the first run of the chain; empty when this is it."""
    origin_run_id: str = ""
    """The run's own id, or after a reset that of the run it came from; idempotency keys are made of it."""
    paused: bool = False
    limits: RunLimits = RunLimits()
    encoded: Payload = ABSENT
    """A `null` as the starter's codec encodes it: payloads of the run are encoded, and a worker that cannot decode this one gives it back."""
    updates: tuple[UpdateBody, ...] = ()
    """Updates a reset owed to the run before, which ended without taking them: this run's code takes them, without asking a validator."""


class ActivityCompleted(AnswerEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="activity_completed"):
    result: Payload = NULL
    attempt: int = 1


class ActivityFailed(AnswerEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="activity_failed"):
    """The last attempt failed and no more will follow."""

    failure: Failure
    attempt: int = 1


class ActivityTimedOut(AnswerEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="activity_timed_out"):
    """`kind` says which bound was passed; `failure` is that of the last attempt that failed, if any."""

    kind: FailureKind
    attempt: int = 1
    failure: Failure | None = None


class ActivityCancelled(AnswerEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="activity_cancelled"):
    attempt: int = 1
    failure: Failure | None = None


class TimerFired(AnswerEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="timer_fired"):
    pass


class SignalReceived(Event, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="signal_received"):
    name: str
    input: tuple[Payload, ...] = ()
    keywords: dict[str, Payload] = {}
    signal_id: str = ""
    carried_from: int = 0
    """Number it had in the run before, when a continue-as-new or reset carried it over."""


class ChildStarted(AnswerEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="child_started"):
    workflow_id: str
    run_id: str


class ChildStartFailed(AnswerEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="child_start_failed"):
    workflow_id: str
    failure: Failure


class ChildClosed(AnswerEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="child_closed"):
    status: ClosedStatus
    workflow_id: str
    run_id: str
    result: Payload = ABSENT
    failure: Failure | None = None
    attempts: int = 1


class ExternalSignalDelivered(
    AnswerEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="external_signal_delivered"
):
    pass


class ExternalSignalFailed(AnswerEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="external_signal_failed"):
    failure: Failure


class ExternalCancelDelivered(
    AnswerEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="external_cancel_delivered"
):
    pass


class ExternalCancelFailed(AnswerEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="external_cancel_failed"):
    failure: Failure


class CancelRequested(Event, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="cancel_requested"):
    reason: str = ""
    request_id: str = ""


class Reset(Event, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="reset"):
    """First event after a reset's copied prefix; from here on the code sees the new run's id and seed."""

    run_id: str
    seed: int
    reset_from: str
    event_id: int
    reason: str = ""
    request_id: str = ""
    updates: tuple[UpdateBody, ...] = ()
    """Updates the run before accepted after `event_id`: the new run's code takes them again, without asking a validator."""


# ----------------------------------------------------------------------------------------------------------- commands recorded


class ActivityScheduled(CommandEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="activity_scheduled"):
    name: str
    ordinal: int
    """1 for the run's first activity of this name, 2 for the second …; part of the idempotency key."""
    input: tuple[Payload, ...] = ()
    keywords: dict[str, Payload] = {}
    queue: str = ""
    """Empty: the run's own queue."""
    retry: RetryPolicy = RetryPolicy()
    start_to_close: int = 0
    schedule_to_close: int = 0
    schedule_to_start: int = 0
    heartbeat: int = 0
    local: bool = False
    process: bool = False
    priority: int = 0
    summary: str = ""
    idempotency_key: str = ""
    """Empty: derived (see `core.ids.idempotency_key`)."""
    on_cancel: OnCancel = "try"


class ActivityCancelRequested(
    CommandEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="activity_cancel_requested"
):
    command: int


class TimerStarted(CommandEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="timer_started"):
    delay: int
    due: int
    """`time` of this event + `delay`."""
    summary: str = ""


class TimerCancelled(CommandEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="timer_cancelled"):
    command: int


class VersionMarked(CommandEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="version_marked"):
    change_id: str
    version: int


class SideEffectRecorded(CommandEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="side_effect_recorded"):
    result: Payload = NULL
    failure: Failure | None = None
    """What the function raised; then there is no result."""


class ChildRequested(CommandEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="child_requested"):
    workflow_type: str
    workflow_id: str
    input: tuple[Payload, ...] = ()
    keywords: dict[str, Payload] = {}
    queue: str = ""
    timeout: int = 0
    retry: RetryPolicy | None = None
    on_parent_close: OnParentClose = "terminate"
    memo: dict[str, Payload] = {}
    attributes: dict[str, Attribute] = {}
    attribute_datetimes: tuple[str, ...] = ()
    priority: int = 0
    summary: str = ""


class ChildCancelRequested(CommandEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="child_cancel_requested"):
    command: int
    reason: str = ""


class ExternalSignalRequested(
    CommandEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="external_signal_requested"
):
    workflow_id: str
    name: str
    input: tuple[Payload, ...] = ()
    keywords: dict[str, Payload] = {}
    child: int = 0
    """Number of the `child_requested` event when the target is a child, else 0."""


class ExternalCancelRequested(
    CommandEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="external_cancel_requested"
):
    workflow_id: str
    reason: str = ""


class AttributesSet(CommandEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="attributes_set"):
    attributes: dict[str, Attribute]
    datetimes: tuple[str, ...] = ()


class DetailsSet(CommandEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="details_set"):
    details: str


class UpdateAccepted(CommandEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="update_accepted"):
    name: str
    update_id: str
    fed_at: int
    """The time the handler sees as `now()`."""
    input: tuple[Payload, ...] = ()
    keywords: dict[str, Payload] = {}


class UpdateCompleted(CommandEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="update_completed"):
    update_id: str
    command: int
    result: Payload = NULL


class UpdateFailed(CommandEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="update_failed"):
    update_id: str
    command: int
    failure: Failure


class ClosingEvent(CommandEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What workflow code ends its run with; always the last event of a history."""

    unseen_signals: int = 0


class Completed(ClosingEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="completed"):
    result: Payload = NULL


class Failed(ClosingEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="failed"):
    failure: Failure
    next_run_id: str = ""
    """The run that tries again; empty when none does."""


class Cancelled(ClosingEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="cancelled"):
    reason: str = ""


class ContinuedAsNew(ClosingEvent, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="continued_as_new"):
    next_run_id: str
    workflow_type: str
    input: tuple[Payload, ...] = ()
    keywords: dict[str, Payload] = {}
    untaken: tuple[int, ...] = ()
    """Numbers of the signals up to `at` that no code took; they become the successor's first inputs."""


# --------------------------------------------------------------------------------------------------------- made by the engine


class Terminated(Event, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="terminated"):
    reason: str = ""
    request_id: str = ""
    unseen_signals: int = 0
    next_run_id: str = ""
    """The run it was reset to; empty when it was not."""


class TimedOut(Event, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="timed_out"):
    unseen_signals: int = 0


InputEvent: TypeAlias = (
    Started
    | ActivityCompleted
    | ActivityFailed
    | ActivityTimedOut
    | ActivityCancelled
    | TimerFired
    | SignalReceived
    | ChildStarted
    | ChildStartFailed
    | ChildClosed
    | ExternalSignalDelivered
    | ExternalSignalFailed
    | ExternalCancelDelivered
    | ExternalCancelFailed
    | CancelRequested
    | Reset
)

RecordedCommand: TypeAlias = (
    ActivityScheduled
    | ActivityCancelRequested
    | TimerStarted
    | TimerCancelled
    | VersionMarked
    | SideEffectRecorded
    | ChildRequested
    | ChildCancelRequested
    | ExternalSignalRequested
    | ExternalCancelRequested
    | AttributesSet
    | DetailsSet
    | UpdateAccepted
    | UpdateCompleted
    | UpdateFailed
    | Completed
    | Failed
    | Cancelled
    | ContinuedAsNew
)

EngineEvent: TypeAlias = Terminated | TimedOut

AnyEvent: TypeAlias = InputEvent | RecordedCommand | EngineEvent

CLOSING: Final = (Completed, Failed, Cancelled, ContinuedAsNew, Terminated, TimedOut)
CLOSING_KINDS: Final = frozenset[type](CLOSING)
"""Kinds of events after which a history has no other."""


def is_input(event: AnyEvent) -> bool:
    """True for what workflow code is fed, false for commands recorded and for events made by the engine."""
    return not isinstance(event, (CommandEvent, Terminated, TimedOut))
