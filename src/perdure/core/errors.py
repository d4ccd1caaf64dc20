"""Every exception perdure raises, each with a stable `code` that travels over HTTP, the command line and into logs.

    PerdureError                PERDURE_ERROR
    ├── ApplicationError        APPLICATION_ERROR         raised by authors, or an exception whose class cannot be rebuilt
    ├── ActivityError           ACTIVITY_ERROR            why an activity ended without a result
    ├── ChildWorkflowError      CHILD_WORKFLOW_ERROR      why a child ended without a result
    ├── WorkflowFailed          WORKFLOW_FAILED           ┐
    ├── WorkflowCancelled       WORKFLOW_CANCELLED        │ how a run ended that was asked for its result
    ├── WorkflowTerminated      WORKFLOW_TERMINATED       │
    ├── WorkflowTimedOut        WORKFLOW_TIMED_OUT        ┘
    ├── WorkflowClosed          WORKFLOW_CLOSED           the run takes no more messages
    ├── WorkflowAlreadyStarted  WORKFLOW_ALREADY_STARTED  `run_id` holds that workflow id
    ├── AlreadyExists           ALREADY_EXISTS            any other name that is taken
    ├── NotFound                NOT_FOUND
    ├── ResourceExhausted       RESOURCE_EXHAUSTED        overloaded: come back after `retry_after` seconds
    ├── LimitExceeded           LIMIT_EXCEEDED            a bound that waiting does not lift
    ├── Unavailable             UNAVAILABLE               nobody answered; the request may or may not have been taken
    ├── PermissionDenied        PERMISSION_DENIED         the caller may not do this
    │   └── Unauthenticated     UNAUTHENTICATED           nobody knows who the caller is: no API key, or one that is not known
    ├── HistoryDamaged          HISTORY_DAMAGED           part of the run's history is lost; `run_id` is quarantined
    ├── NondeterminismError     NONDETERMINISM            workflow code did what replay cannot repeat
    ├── CodecError              CODEC_ERROR               a payload cannot be encoded or decoded by the codec given here
    ├── InvalidArgument         INVALID_ARGUMENT
    │   └── PayloadTooLarge     PAYLOAD_TOO_LARGE
    └── OutsideContext          OUTSIDE_CONTEXT           a verb of `workflow` or `activity` with nothing running

Codes are never renamed. Every class is built from its message and keyword fields that all have defaults, and keeps those fields under
the same names, so an error can be built again from (message, fields) wherever it arrives.
"""

import math
from datetime import timedelta
from typing import ClassVar, Final

from perdure.core.failure import FailureKind


class PerdureError(Exception):
    """Base of all; catching it catches everything perdure raises on its own account."""

    code: ClassVar[str] = "PERDURE_ERROR"

    def __init__(self, message: str = "") -> None:
        super().__init__(message)

    @property
    def message(self) -> str:
        """The text the error was made with."""
        return str(self.args[0]) if self.args else ""


class ApplicationError(PerdureError):
    """An error authors raise when their own class would not say enough, and what an exception becomes whose class cannot be rebuilt.

    `type` is the name that `Retry.non_retryable` compares with (None: the class name), `details` any value that can be a payload,
    `non_retryable` ends the activity at this attempt, `next_retry_delay` (seconds or timedelta, kept as seconds) replaces the delay the
    retry policy would give. Raises `InvalidArgument` for a delay that is negative or not finite.
    """

    code: ClassVar[str] = "APPLICATION_ERROR"

    def __init__(
        self,
        message: str = "",
        *,
        type: str | None = None,
        details: object = None,
        non_retryable: bool = False,
        next_retry_delay: float | timedelta | None = None,
    ) -> None:
        super().__init__(message)
        self.type: str | None = type
        self.details: object = details
        self.non_retryable: bool = non_retryable
        self.next_retry_delay: float | None = _seconds(next_retry_delay)


class ActivityError(PerdureError):
    """An activity ended without a result: `name` is its type name, `attempts` how often it was tried, `kind` what ended it.

    Raised itself where no exception of the activity's own says why: a bound was passed (`kind` start_to_close, schedule_to_close,
    schedule_to_start or heartbeat) or the last attempt's worker was lost (`lost`). Otherwise the activity's own exception is raised,
    with this error as its `__cause__`: catch `ValueError`, read attempts from `error.__cause__`.
    """

    code: ClassVar[str] = "ACTIVITY_ERROR"

    def __init__(self, message: str = "", *, name: str = "", attempts: int = 0, kind: FailureKind = "error") -> None:
        super().__init__(message)
        self.name: str = name
        self.attempts: int = attempts
        self.kind: FailureKind = kind


class ChildWorkflowError(PerdureError):
    """A child workflow ended without a result: `name` is its type name, `attempts` how often it was tried, `kind` what ended it."""

    code: ClassVar[str] = "CHILD_WORKFLOW_ERROR"

    def __init__(self, message: str = "", *, name: str = "", attempts: int = 0, kind: FailureKind = "error") -> None:
        super().__init__(message)
        self.name: str = name
        self.attempts: int = attempts
        self.kind: FailureKind = kind


class WorkflowFailed(PerdureError):
    """The run failed; the exception that left the workflow is the `__cause__`."""

    code: ClassVar[str] = "WORKFLOW_FAILED"


class WorkflowCancelled(PerdureError):
    """The run ended because it was asked to stop."""

    code: ClassVar[str] = "WORKFLOW_CANCELLED"


class WorkflowTerminated(PerdureError):
    """The run was ended from outside without a chance to clean up."""

    code: ClassVar[str] = "WORKFLOW_TERMINATED"


class WorkflowTimedOut(PerdureError):
    """The run passed the bound it was started with."""

    code: ClassVar[str] = "WORKFLOW_TIMED_OUT"


class WorkflowClosed(PerdureError):
    """The run has ended and takes no more signals, updates or cancels: `run_id` names the one the workflow id is at."""

    code: ClassVar[str] = "WORKFLOW_CLOSED"

    def __init__(self, message: str = "", *, run_id: str = "") -> None:
        super().__init__(message)
        self.run_id: str = run_id


class WorkflowAlreadyStarted(PerdureError):
    """A run holds that workflow id (or the reuse rule forbids another): `run_id` names it."""

    code: ClassVar[str] = "WORKFLOW_ALREADY_STARTED"

    def __init__(self, message: str = "", *, run_id: str = "") -> None:
        super().__init__(message)
        self.run_id: str = run_id


class AlreadyExists(PerdureError):
    """The id of a schedule, channel or other definition is taken."""

    code: ClassVar[str] = "ALREADY_EXISTS"


class NotFound(PerdureError):
    """There is no such workflow, run, definition or claim (any more)."""

    code: ClassVar[str] = "NOT_FOUND"


class ResourceExhausted(PerdureError):
    """Overloaded or over quota; nothing was done. The same request is worth sending again after `retry_after` seconds."""

    code: ClassVar[str] = "RESOURCE_EXHAUSTED"

    def __init__(self, message: str = "", *, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after: float = retry_after


class LimitExceeded(PerdureError):
    """A fixed bound was passed (such as the length of a history); waiting does not help."""

    code: ClassVar[str] = "LIMIT_EXCEEDED"


class Unavailable(PerdureError):
    """Nobody could answer in time. Whether the request was taken is unknown: send it again under the same request id."""

    code: ClassVar[str] = "UNAVAILABLE"


class PermissionDenied(PerdureError):
    """The caller may not do this."""

    code: ClassVar[str] = "PERMISSION_DENIED"


class Unauthenticated(PermissionDenied):
    """The caller showed no API key, or one the node does not know."""

    code: ClassVar[str] = "UNAUTHENTICATED"


class HistoryDamaged(PerdureError):
    """Part of a run's history is lost (damaged on the disk), so it must not go on: `run_id` is quarantined.

    It can be read as far as it is whole, and terminated, so that its workflow id can be used again.
    """

    code: ClassVar[str] = "HISTORY_DAMAGED"

    def __init__(self, message: str = "", *, run_id: str = "") -> None:
        super().__init__(message)
        self.run_id: str = run_id


class NondeterminismError(PerdureError):
    """Workflow code asked for something its history does not hold, or touched what replay cannot repeat; the run is quarantined."""

    code: ClassVar[str] = "NONDETERMINISM"


class CodecError(PerdureError):
    """A payload cannot be encoded or decoded by the codec this process was given: another key, another codec, or bytes that were changed."""

    code: ClassVar[str] = "CODEC_ERROR"


class InvalidArgument(PerdureError):
    """A value perdure was given is not one it can take; the message names it.

    `column` is where text that was to be read goes wrong, counted in characters from 1; 0 where there is no such place.
    """

    code: ClassVar[str] = "INVALID_ARGUMENT"

    def __init__(self, message: str = "", *, column: int = 0) -> None:
        super().__init__(message)
        self.column: int = int(column)


class PayloadTooLarge(InvalidArgument):
    """An argument or result passes the bound on payloads; never retried."""

    code: ClassVar[str] = "PAYLOAD_TOO_LARGE"


class OutsideContext(PerdureError, RuntimeError):
    """A verb of `workflow` was called outside workflow code, or one of `activity` outside an activity."""

    code: ClassVar[str] = "OUTSIDE_CONTEXT"


def _seconds(delay: float | timedelta | None) -> float | None:
    if delay is None:
        return None
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else float(delay)
    if not math.isfinite(seconds) or seconds < 0:
        raise InvalidArgument(f"next_retry_delay must be zero or more seconds, not {delay!r}")
    return seconds


ERRORS: Final[tuple[type[PerdureError], ...]] = (
    PerdureError,
    ApplicationError,
    ActivityError,
    ChildWorkflowError,
    WorkflowFailed,
    WorkflowCancelled,
    WorkflowTerminated,
    WorkflowTimedOut,
    WorkflowClosed,
    WorkflowAlreadyStarted,
    AlreadyExists,
    NotFound,
    ResourceExhausted,
    LimitExceeded,
    Unavailable,
    PermissionDenied,
    Unauthenticated,
    HistoryDamaged,
    NondeterminismError,
    CodecError,
    InvalidArgument,
    PayloadTooLarge,
    OutsideContext,
)
"""All of them, base first."""

BY_CODE: Final[dict[str, type[PerdureError]]] = {error.code: error for error in ERRORS}
"""Which class a code stands for; how an error that arrived as data finds its class again."""
