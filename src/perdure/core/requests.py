"""Everything that can reach a shard owner to move a run. Requests are values; what they mean is decided in `core.machine`.

Ids and seeds that a request may need for something new (a run id, a claim's token) come with it: the machine makes up nothing.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from perdure.core.commands import AnyCommand, ClosingCommand
from perdure.core.events import AnyEvent, Attribute, ParentLink, SignalReceived, UpdateBody
from perdure.core.failure import Failure, FailureKind
from perdure.core.payload import ABSENT, NULL, Payload
from perdure.core.replies import RunResult
from perdure.core.retry import RetryPolicy

OnConflict = Literal["fail", "attach", "terminate"]
Reuse = Literal["always", "failed", "never"]


class Request(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type"):
    """Reaches the owner of (`namespace`, `workflow_id`)."""

    namespace: str = "default"
    workflow_id: str


# -------------------------------------------------------------------------------------------------------- of clients


class SignalBody(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    name: str
    input: tuple[Payload, ...] = ()
    keywords: dict[str, Payload] = {}
    signal_id: str = ""
    """Never empty once past the frontend, which gives a fresh one."""


class StartWorkflow(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="start_workflow"):
    """Start a run, or find that there is one. `run_id` and `seed` are used only when a run is started."""

    workflow_type: str
    run_id: str
    seed: int
    request_id: str
    queue: str = "default"
    input: tuple[Payload, ...] = ()
    keywords: dict[str, Payload] = {}
    on_conflict: OnConflict = "fail"
    reuse: Reuse = "always"
    timeout: int = 0
    memo: dict[str, Payload] = {}
    attributes: dict[str, Attribute] = {}
    attribute_datetimes: tuple[str, ...] = ()
    origin: str = "default"
    priority: int = 0
    signal: SignalBody | None = None
    """Signal-with-start: delivered to the open run, or the first thing after `started`."""
    parent: ParentLink | None = None
    """The run that asks for this one as its child."""
    start_delay: int = 0
    """So long after the start the code begins."""
    retry: RetryPolicy | None = None
    """How a run that failed is tried again; None: not at all."""
    encoded: Payload = ABSENT
    """A `null` as the client's codec encodes it: payloads of the run are encoded, and who cannot decode this one cannot run it."""


class SignalWorkflow(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="signal_workflow"):
    signal: SignalBody
    run_id: str = ""
    started_by: str = ""
    """Speaks of the chain that the start of this request id began, over its continuations and resets; empty: of whichever is current."""


class RequestCancel(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="request_cancel"):
    run_id: str = ""
    reason: str = ""
    request_id: str = ""
    started_by: str = ""


class TerminateWorkflow(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="terminate_workflow"):
    run_id: str = ""
    reason: str = ""
    request_id: str = ""
    started_by: str = ""


class ResumeWorkflow(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="resume_workflow"):
    """Forget which builds failed on the run or were too old for it, and offer it again."""

    run_id: str = ""
    reason: str = ""


class PauseWorkflow(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="pause_workflow"):
    run_id: str = ""
    reason: str = ""


class UpdateWorkflow(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="update_workflow"):
    """Ask the run's code for something. Answered once it is accepted or refused; see `machine.updates`."""

    update_id: str
    """Never empty once past the door."""
    name: str
    run_id: str = ""
    input: tuple[Payload, ...] = ()
    keywords: dict[str, Payload] = {}


class ResetWorkflow(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="reset_workflow"):
    """Begin a new run from the history of another, up to `event_id`. Without `run_id` it is the id's current or last run."""

    event_id: int
    new_run_id: str
    seed: int
    run_id: str = ""
    reason: str = ""
    request_id: str = ""
    events: tuple[AnyEvent, ...] = ()
    """That history, whole. The engine fills it in."""


class FinishActivity(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="finish_activity"):
    """How an attempt ended, told by whoever holds its task token: with `failure`, else with `result`."""

    run_id: str
    command: int
    attempt: int
    token: str
    result: Payload = NULL
    failure: Failure | None = None
    cancelled: bool = False
    """With `failure`: it ended because its cancel was asked for."""


# -------------------------------------------------------------------------------------------------------- of workers


class ClaimWorkflow(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="claim_workflow"):
    """Take the run's workflow task. `held` is the length of history the worker holds warm; 0 = nothing."""

    run_id: str
    worker: str
    token: str
    build_id: str
    held: int = 0
    lives_for: int = 0
    """Microseconds without a sign of life after which the claim is lost; 0 = it lives as long as the owner's process."""
    waiting: tuple[UpdateBody, ...] = ()
    """Updates that wait for the run's code. Filled in by the owner, whatever a worker sent."""


class ClaimActivity(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="claim_activity"):
    run_id: str
    command: int
    attempt: int
    worker: str
    token: str
    incarnation: str = ""
    lives_for: int = 0


class Commands(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="commands"):
    """A step of a report: what the code asked for after the step before. May be empty: everything fed was seen."""

    commands: tuple[AnyCommand, ...] = ()


class ActivitySucceeded(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="succeeded"):
    """A fact: an activity's result. `fed_at` is the time at which the worker fed it to the code; 0 = not fed (unfused)."""

    command: int
    attempt: int
    token: str
    result: Payload = NULL
    fed_at: int = 0


class ActivityErred(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="erred"):
    """A fact: an attempt failed. Never fused: whether there is another attempt is the owner's to decide."""

    command: int
    attempt: int
    token: str
    failure: Failure
    kind: FailureKind = "error"
    cancelled: bool = False
    """The attempt ended because its cancel was asked for."""


Fact: TypeAlias = ActivitySucceeded | ActivityErred
Step: TypeAlias = Commands | ActivitySucceeded | ActivityErred


class RefusedUpdate(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An update the code did not accept: what its validator raised, or why there is nobody to take it."""

    update_id: str
    failure: Failure


class Report(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="report"):
    """What a worker sends: facts and the decisions that followed them, in order.

    `based_on` is the length of history the worker holds, all of whose inputs it has fed (0: it holds none and reports facts only);
    `decided` the `based_on` of the last decision it has seen in it: the decision fence. `token` is its workflow claim's, empty when it reports only by right of its activity claims. `closing` is always the
    last command; `closing.at` says at which input main ended.
    """

    run_id: str
    worker: str
    build_id: str
    based_on: int
    decided: int
    nonce: str
    """Fresh per report; tokens of eager claims are made of it."""
    token: str = ""
    steps: tuple[Step, ...] = ()
    closing: ClosingCommand | None = None
    untaken: int = 0
    """With a closing command: signals fed that no code took."""
    carried: tuple[SignalReceived, ...] = ()
    """With continue-as-new: the signals named in `closing.untaken`. With a failure that may be tried again: those no code took."""
    next_run_id: str = ""
    next_seed: int = 0
    notes: tuple["SetAside", ...] = ()
    room: int = 0
    """Activities the worker can start at once; they are handed over with the reply."""
    queues: tuple[str, ...] = ()
    incarnation: str = ""
    lives_for: int = 0
    refused: tuple[RefusedUpdate, ...] = ()
    """Updates that were offered and not accepted; they stand with the decision before the first fact."""
    waiting: tuple[UpdateBody, ...] = ()
    """Updates that wait for the run's code. Filled in by the owner, whatever a worker sent."""
    parts: int = 0
    """So many `ReportPart`s of the same nonce came before it, with steps that stand before its own."""
    awaits: tuple[str, ...] = ()
    """What the code waits for, behind all of this, that no event tells; see the note `Seen`. Said with every decision."""


class ReportPart(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="report_part"):
    """A part, counted from 1, of a report with more commands than one message may hold. Answered with `Taken`; decides nothing."""

    run_id: str
    nonce: str
    part: int
    steps: tuple[Step, ...]


class SetAside(Struct, frozen=True, kw_only=True, gc=False):
    """A signal whose payload did not fit its handler."""

    command: int
    message: str


class ReleaseWorkflow(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="release_workflow"):
    """Give a workflow claim back without a decision, and why."""

    run_id: str
    token: str
    build_id: str
    why: Literal["nondeterminism", "old_build", "unknown_type", "draining"]
    reason: str = ""
    expected: str = ""
    found: str = ""
    change_id: str = ""
    worker: str = ""


class CompleteLater(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="complete_later"):
    """The attempt's function has ended without a result: that comes from outside, under the same claim, whatever becomes of the worker."""

    run_id: str
    command: int
    attempt: int
    token: str


class ReleaseActivity(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="release_activity"):
    """Give an activity claim back untouched: the attempt did not run."""

    run_id: str
    command: int
    attempt: int
    token: str
    worker: str = ""
    unknown: str = ""
    """The activity's name, when that is why: the worker does not know it."""


class HeartbeatActivity(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="heartbeat_activity"):
    run_id: str
    command: int
    attempt: int
    token: str
    details: Payload = ABSENT
    """JSON list; absent = only a sign of life of the worker, which says nothing of what the function does."""
    worker: str = ""
    """With the three below a worker presents its claim to an owner that may not know of it, having just taken the run over."""
    claimed_at: int = 0
    """When the claim was granted, as its reply said."""
    lives_for: int = 0


class HeartbeatWorkflow(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="heartbeat_workflow"):
    """A sign of life of the worker that has a workflow claim: it is still at work on its decision. Answered with `Beaten`."""

    run_id: str
    token: str


# ------------------------------------------------------------------------------------------- of the engine itself


class TimerDue(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="timer_due"):
    run_id: str
    command: int


class ActivityDue(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="activity_due"):
    """One of an activity's bounds has passed (`kind`), or its claim was lost."""

    run_id: str
    command: int
    attempt: int
    kind: Literal["start_to_close", "schedule_to_start", "schedule_to_close", "heartbeat", "lost"]
    token: str = ""
    """With `lost`: the claim in question."""


class WorkflowClaimDue(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="workflow_claim_due"):
    """A workflow claim has shown no sign of life for its period."""

    run_id: str
    token: str


class StartDue(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="start_due"):
    """The run's start delay has passed."""

    run_id: str


class RunDue(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="run_due"):
    """The run's own timeout has passed."""

    run_id: str


class WriteDown(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="write_down"):
    """The owner is about to stop: write what was only remembered until the run's next transition."""

    run_id: str


class QuarantineRun(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="quarantine_run"):
    """What the run's code asked for cannot be written down: whoever runs that code would only ask for it again."""

    run_id: str
    reason: str
    build_id: str = ""


class ChildStands(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="child_stands"):
    """To a parent: its child has started, or closed (`outcome`).

    Addressed to the workflow id and the number of the command, so that a run reset from the one that asked hears of it too; `request_id`,
    that of the child's start, says which child is meant.
    """

    command: int
    request_id: str
    child_id: str
    run_id: str
    """First run of the child's chain, or the one that closed."""
    outcome: RunResult | None = None


class ChildRefused(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="child_refused"):
    """To a parent: its child could not be started."""

    command: int
    request_id: str
    failure: Failure


class ExternalAnswered(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="external_answered"):
    """To whoever sent a signal or cancel to another run: it is delivered, or why it cannot be."""

    command: int
    request_id: str
    failure: Failure | None = None


class MessagesDelivered(Request, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="messages_delivered"):
    """To whoever left messages behind: these were answered."""

    request_ids: tuple[str, ...]


ClientRequest: TypeAlias = (
    StartWorkflow
    | SignalWorkflow
    | RequestCancel
    | TerminateWorkflow
    | ResumeWorkflow
    | PauseWorkflow
    | UpdateWorkflow
    | ResetWorkflow
    | FinishActivity
    | HeartbeatActivity
)
WorkerRequest: TypeAlias = (
    ClaimWorkflow
    | ClaimActivity
    | ReportPart
    | Report
    | ReleaseWorkflow
    | ReleaseActivity
    | CompleteLater
    | HeartbeatActivity
    | HeartbeatWorkflow
)
EngineRequest: TypeAlias = TimerDue | ActivityDue | WorkflowClaimDue | StartDue | RunDue | WriteDown | QuarantineRun
MessageRequest: TypeAlias = ChildStands | ChildRefused | ExternalAnswered | MessagesDelivered
"""What whoever asked something of another run hears of it. These speak to a workflow id, not to one run."""
AnyRequest: TypeAlias = ClientRequest | WorkerRequest | EngineRequest | MessageRequest
