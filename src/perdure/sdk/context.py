"""The doors through which the author API reaches whatever is running it.

`replay` implements `WorkflowContext` (one per run), the worker implements `ActivityContext` (one per attempt). Outside both, the verbs
of `workflow` and `activity` raise a clear error, and calls simply run their function.
"""

import random
from asyncio.events import _get_running_loop
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypeAlias

from msgspec import Struct

from perdure.core.commands import CancelExternal, ContinueAsNew, RequestChild, ScheduleActivity, SignalExternal
from perdure.core.events import (
    ActivityCancelled,
    ActivityCompleted,
    ActivityFailed,
    ActivityTimedOut,
    Attribute,
    ChildClosed,
    ChildStarted,
    ChildStartFailed,
    ExternalCancelDelivered,
    ExternalCancelFailed,
    ExternalSignalDelivered,
    ExternalSignalFailed,
    SignalReceived,
)
from perdure.core.payload import Payload

if TYPE_CHECKING:
    from asyncio import Future

ActivityAnswer: TypeAlias = ActivityCompleted | ActivityFailed | ActivityTimedOut | ActivityCancelled
ExternalAnswer: TypeAlias = ExternalSignalDelivered | ExternalSignalFailed | ExternalCancelDelivered | ExternalCancelFailed


class WorkflowInfo(Struct, frozen=True, kw_only=True):
    """What a run knows of itself. `history_length` is the number of the input being fed; instants are microseconds since the epoch."""

    namespace: str
    workflow_id: str
    run_id: str
    type: str
    queue: str
    attempt: int
    started_at: int
    parent: tuple[str, str] | None
    """Workflow id and run id of the parent, if any."""
    memo: dict[str, Payload]
    attributes: dict[str, Attribute]
    datetimes: tuple[str, ...]
    """Names of the attributes that are datetimes."""
    history_length: int
    history_bytes: int
    continue_as_new_suggested: bool


class ChildRun(Protocol):
    """A child that was asked for."""

    @property
    def number(self) -> int:
        """Of the event that asked for it; 0 before that is recorded."""
        ...

    async def started(self) -> ChildStarted | ChildStartFailed | ChildClosed:
        """Wait until it has started or cannot be. Cancelling the awaiting task asks it to stop, as with `over`."""
        ...

    async def over(self) -> ChildClosed | ChildStartFailed:
        """Wait until it has ended."""
        ...

    def cancel(self, reason: str) -> None:
        """Ask it to stop, once; nothing happens when it is over."""
        ...


class WorkflowContext(Protocol):
    """A running workflow, as the author API sees it. All methods must be called from workflow code on its own loop."""

    @property
    def at(self) -> int:
        """Number of the input being fed; every command built by the sdk carries it."""
        ...

    def info(self) -> WorkflowInfo: ...

    def now(self) -> int:
        """Recorded time of the input being fed, microseconds since the epoch."""
        ...

    def random(self) -> random.Random:
        """The run's own seeded generator, always the same object."""
        ...

    async def activity(self, command: ScheduleActivity) -> ActivityAnswer:
        """Schedule an activity and wait for the input that answers it. Cancelling the awaiting task follows `command.on_cancel`."""
        ...

    def child(self, command: RequestChild) -> ChildRun:
        """Ask for a child workflow."""
        ...

    async def external(self, command: SignalExternal | CancelExternal) -> ExternalAnswer:
        """Send a message to another run and wait for the input that answers it. Once it is recorded it is sent, whoever stops waiting."""
        ...

    async def sleep(self, delay: int, summary: str = "") -> None:
        """A durable timer of `delay` microseconds; zero or less only yields."""
        ...

    def receive(self, name: str) -> "Future[SignalReceived]":
        """A future of the next signal of that name that nobody took; cancelling it gives up the place in line."""
        ...

    async def wait_until(self, predicate: Callable[[], object]) -> None:
        """Return when `predicate` holds, tried now and after each input; it may ask nothing of the run."""
        ...

    @property
    def handlers_running(self) -> int:
        """Handlers of signals and updates that have begun and not ended."""
        ...

    def version(self, change_id: str, lowest: int, highest: int) -> int:
        """The version this run takes for `change_id`; 0 = code from before any version."""
        ...

    def side_effect(self, produce: Callable[[], Payload]) -> Payload:
        """Call `produce` the first time, record its payload, and give the recorded one on every replay."""
        ...

    def set_attributes(self, attributes: dict[str, Attribute], datetimes: tuple[str, ...]) -> None:
        """Merge into the run's attributes; None takes one away. Raises `LimitExceeded` when there would be too many."""
        ...

    def set_details(self, details: str) -> None:
        """What the run says of itself from here on."""
        ...

    def continue_as_new(self, command: ContinueAsNew) -> NoReturn:
        """End this run here and let its successor start with the command's input. Raises a BaseException no user code should catch."""
        ...

    def is_replaying(self) -> bool: ...


class ActivityContext(Protocol):
    """A running attempt of an activity, as the author API sees it. Methods may be called from any thread."""

    @property
    def workflow_id(self) -> str: ...

    @property
    def run_id(self) -> str: ...

    @property
    def activity_id(self) -> int: ...

    @property
    def attempt(self) -> int: ...

    @property
    def queue(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def idempotency_key(self) -> str: ...

    @property
    def heartbeat_details(self) -> Payload:
        """JSON list, or absent."""
        ...

    @property
    def task_token(self) -> str: ...

    @property
    def deadline(self) -> int | None:
        """Instant (microseconds since the epoch) at which this attempt or the activity runs out of time, whichever is first."""
        ...

    def heartbeat(self, details: Payload) -> None:
        """Report a sign of life; `details` is a JSON list kept for the next attempt."""
        ...

    def is_cancelled(self) -> bool: ...

    def is_stopping(self) -> bool: ...


class CompletesLater(BaseException):
    """The function ends here, the attempt does not: it is completed from outside."""


activity_context: Final[ContextVar[ActivityContext | None]] = ContextVar("perdure_activity", default=None)


def current_workflow() -> WorkflowContext | None:
    """The workflow whose code is running on this thread right now, or None.

    The workflow loop carries its context in the attribute `workflow_context`; reading the running loop is per thread, so sync
    activities on other threads never see a workflow that happens to run at the same time.
    """
    loop: Any = _get_running_loop()
    return getattr(loop, "workflow_context", None)


def refuse_in_workflow(call: str) -> None:
    """Raise `NondeterminismError` when workflow code makes this call: its effect would not be part of the run, and its answer would never come.

    The run's loop keeps the violation, so that the run is quarantined even when its code catches the error.
    """
    loop: Any = _get_running_loop()
    if getattr(loop, "workflow_context", None) is not None:
        raise loop.refuse(call)
