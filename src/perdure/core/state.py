"""State: the fold of what is written under one workflow id. Written only by `core.machine.apply`.

Fields marked *volatile* are not part of the fold: they live in the owner's memory, are set by volatile entries (`core.volatile`) and
may be forgotten at any time; nothing that is true of a run depends on them. Empty containers as defaults are made anew for each object.
"""

from msgspec import Struct

from perdure.core.events import (
    CLOSING_KINDS,
    ActivityScheduled,
    AnyEvent,
    Attribute,
    CancelRequested,
    ChildCancelRequested,
    ChildRequested,
    ClosingEvent,
    ExternalCancelRequested,
    ExternalSignalRequested,
    SignalReceived,
    Started,
    Terminated,
    TimedOut,
    TimerStarted,
    UpdateBody,
)
from perdure.core.failure import Failure
from perdure.core.limits import LIMITS, Limits
from perdure.core.notes import ActivityClaimed, AttemptFailed, Quarantined
from perdure.core.payload import ABSENT, Payload
from perdure.core.replies import Status
from perdure.core.transition import Message

CHILDREN = ""
"""Where `RunState.ordinals` counts the children a run asked for: no activity has this name."""


class ActivityState(Struct, kw_only=True):
    """An activity that is scheduled and has no answer yet."""

    event: ActivityScheduled
    attempt: int = 1
    """Number of the attempt that is claimed, or may be claimed next."""
    attempts_failed: int = 0
    retry_at: int = 0
    """Instant before which `attempt` may not be claimed; 0 = at once. Stays as it is while that attempt runs."""
    claim: ActivityClaimed | None = None
    """The live claim's note; it may be applied before it is written (see `claim_noted`)."""
    claim_noted: bool = False
    """The claim's note is part of what is written."""
    last_failure: Failure | None = None
    failures: list[AttemptFailed] = []
    """First and last failed attempts, bounded by the limits."""
    heartbeat: Payload = ABSENT
    cancel_requested: bool = False
    again_at: int = 0
    """When a reset dispatched it again: from then its bounds count."""
    beat_at: int = 0
    """Volatile: instant of the last heartbeat of the claim's function."""
    alive_at: int = 0
    """Volatile: instant of the last sign of life of the claim's worker."""
    spared_until: int = 0
    """Volatile: the owner has just taken the run over; no bound passes before, so that workers can present their claims."""
    beat_details: Payload = ABSENT
    """Volatile: details newer than the last note."""
    noted_beat_at: int = 0
    lives_for: int = 0
    """Volatile: the claim is lost after so many microseconds without a sign of life; 0 = never while the owner lives."""

    @property
    def since(self) -> int:
        """From when its bounds count."""
        return self.again_at or self.event.time


class ChildState(Struct, kw_only=True):
    """A child that was asked for and has not closed, as far as its parent knows."""

    event: ChildRequested
    request_id: str
    """Of its start: names the child's chain over continuations and resets, on either side."""
    run_id: str = ""
    """Of the run that was started; empty until that is known."""
    cancel: ChildCancelRequested | None = None


class ExternalState(Struct, frozen=True, kw_only=True, gc=False):
    """A signal or cancel to another run that has no answer yet."""

    event: ExternalSignalRequested | ExternalCancelRequested
    request_id: str


class WorkflowClaim(Struct, frozen=True, kw_only=True, gc=False):
    """Volatile: the right of one worker to decide."""

    token: str
    worker: str
    build_id: str
    since: int
    lives_for: int = 0
    beat_at: int = 0

    @property
    def dies_at(self) -> int:
        """The instant at which it is lost without another sign of life, if it can be."""
        return (self.beat_at or self.since) + self.lives_for


class RunState(Struct, kw_only=True):
    """One run. Open while `closing` is None."""

    started: Started
    status: Status = "running"
    length: int = 0
    """Number of the last event."""
    notes: int = 0
    """Number of the last note written."""
    bytes: int = 0
    """Payload bytes of the history, roughly."""
    last_time: int = 0
    """Time of the last event: no later one is below it."""
    last_input: int = 0
    decided: int = 0
    """`based_on` of the last accepted decision that had commands; strictly rising, so it serves as the decision fence."""
    covered: int = 0
    """Every event up to here was seen by an accepted decision."""
    activities: dict[int, ActivityState] = {}
    timers: dict[int, TimerStarted] = {}
    ordinals: dict[str, int] = {}
    """How many activities of each name were scheduled."""
    unseen_signals: list[SignalReceived] = []
    unseen_cancels: list[CancelRequested] = []
    attributes: dict[str, Attribute] = {}
    """As set so far; never changed in place, it may be the start's own."""
    datetimes: tuple[str, ...] = ()
    """Names of the attributes that are datetimes."""
    details: str = ""
    closing: ClosingEvent | Terminated | TimedOut | None = None
    quarantine: Quarantined | None = None
    failed_builds: list[str] = []
    refused_builds: dict[str, str] = {}
    """Builds too old for the run, and the change id each lacks."""
    build_id: str = ""
    delayed_until: int = 0
    """Instant before which the code does not begin. Volatile insofar as the owner sets it to 0 when that has passed."""
    paused: bool = False
    pause_reason: str = ""
    updates: dict[int, str] | None = None
    """Updates accepted and not finished: number of `update_accepted` → update id. None while there was none."""
    owed: dict[str, UpdateBody] | None = None
    """Updates accepted before a reset that the code of this run has not taken again yet, by update id."""
    children: dict[int, ChildState] | None = None
    """By number of the command; None when there is none, as with `externals`."""
    externals: dict[int, ExternalState] | None = None
    reset_at: int = 0
    """When it was last reset: from then its time limit counts."""
    reset_to: str = ""
    """Run id that the last reset gave; commands before that event were asked for by another run."""
    awaits: tuple[str, ...] = ()
    """What the code waits for that no event tells, as of the last accepted decision; see the note `Seen`."""

    claim: WorkflowClaim | None = None
    """Volatile."""
    close_refusals: int = 0
    """Volatile."""
    seen: int = 0
    """Volatile: like `covered`, of decisions without commands whose note is not written yet."""
    sticky: str = ""
    """Volatile: the worker that holds the run warm."""
    unnoted: list[int] = []
    """Volatile: activities whose claim is not written yet; it is, with the run's next transition, if it still lives then."""
    awaits_unnoted: tuple[str, ...] | None = None
    """Volatile: `awaits`, of a decision without commands whose note is not written yet."""

    @property
    def awaits_now(self) -> tuple[str, ...]:
        """`awaits`, its note written or not."""
        return self.awaits if self.awaits_unnoted is None else self.awaits_unnoted

    @property
    def run_id(self) -> str:
        return self.started.run_id

    def message_id(self, command: int) -> str:
        """Request id of what the command now being recorded asks of another run; the same when its event is copied by a reset."""
        started = self.started
        return f"{self.reset_to or started.origin_run_id or started.run_id}/{command}"

    @property
    def is_open(self) -> bool:
        return self.closing is None

    @property
    def seen_to(self) -> int:
        """Every event up to here was seen by an accepted decision, its note written or not."""
        return self.covered if self.covered > self.seen else self.seen

    @property
    def wants_decision(self) -> bool:
        """There is an input no accepted decision has seen."""
        return (
            self.closing is None
            and self.last_input > self.covered
            and self.last_input > self.seen
            and not self.paused
            and not self.delayed_until
        )


class AcceptedUpdate(Struct, frozen=True, kw_only=True, gc=False):
    """A remembered update: when, in which run and as which event it was accepted."""

    time: int
    run_id: str
    command: int


class WorkflowState(Struct, kw_only=True):
    """Everything under one workflow id: the current or last run, and the ids remembered over all of them."""

    namespace: str
    workflow_id: str
    limits: Limits = LIMITS
    """The bounds it is kept under: those of its owner, not part of the fold."""
    run: RunState | None = None
    start_request_id: str = ""
    """Request id of the start that made the current or last run's chain."""
    signal_ids: dict[str, int] = {}
    """Remembered signal ids and when each was received, oldest first."""
    cancel_ids: dict[str, int] = {}
    update_ids: dict[str, AcceptedUpdate] = {}
    """Remembered updates by id, oldest first. One whose run ended before its handler did is forgotten: it may be sent again."""
    terminate_ids: dict[str, int] = {}
    reset_ids: dict[str, str] | None = None
    """Remembered request ids of resets, and the run each made. None while there was none."""
    child_starts: dict[str, str] | None = None
    """By request id of a start as somebody's child: the run it began. As many are remembered as ids are."""
    kin: dict[str, ChildState] | None = None
    """By request id of its start: children that earlier runs of the chain asked for, for whom its last close is the parent's."""
    outgoing: dict[str, Message] | None = None
    """By request id, in order: what closed runs left to be delivered."""


def is_closing(event: AnyEvent) -> bool:
    """True for an event after which a history has no other."""
    return type(event) in CLOSING_KINDS
