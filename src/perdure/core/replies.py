"""What a shard owner answers. Replies leave only after the commit that covers them."""

from typing import Literal, TypeAlias

from msgspec import Struct

from perdure.core.events import ActivityScheduled, AnyEvent, Started, UpdateBody
from perdure.core.failure import Failure
from perdure.core.payload import ABSENT, Payload

Status = Literal["running", "completed", "failed", "cancelled", "terminated", "timed_out", "continued", "quarantined", "paused"]


class Reply(Struct, kw_only=True, omit_defaults=True, gc=False, tag_field="type"):
    pass


class RunStarted(Reply, kw_only=True, omit_defaults=True, gc=False, tag="run_started"):
    """`attached`: the run was there already."""

    run_id: str
    attached: bool = False
    outcome: "RunResult | None" = None
    """To a parent that asks again: how its child's chain has ended."""
    superseded: bool = False
    """To a parent that asks again: its child's chain has ended and the workflow id is in use for another; how it ended is in the store."""


class Taken(Reply, kw_only=True, omit_defaults=True, gc=False, tag="taken"):
    """The request was carried out, or had been before (`duplicate`)."""

    run_id: str = ""
    duplicate: bool = False


class ActivityClaim(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """All a worker needs to run one attempt."""

    namespace: str
    workflow_id: str
    run_id: str
    scheduled: ActivityScheduled
    attempt: int
    token: str
    queue: str
    idempotency_key: str
    claimed_at: int
    deadline: int = 0
    """First of start-to-close and schedule-to-close; 0 = none."""
    heartbeat_details: Payload = ABSENT


class ActivityClaimed(Reply, kw_only=True, omit_defaults=True, gc=False, tag="activity_claimed"):
    claim: ActivityClaim


class NotWanted(Reply, kw_only=True, omit_defaults=True, gc=False, tag="not_wanted"):
    """The task is stale: done, cancelled, claimed by another, or not for this build."""

    reason: str


class WorkflowClaimed(Reply, kw_only=True, omit_defaults=True, gc=False, tag="workflow_claimed"):
    """`events` are those after the length the worker said it holds. The engine fills them in."""

    token: str
    length: int
    decided: int
    covered: int
    status: Status = "running"
    started: Started | None = None
    history_bytes: int = 0
    events: tuple[AnyEvent, ...] = ()
    updates: tuple[UpdateBody, ...] = ()
    """To be offered to the code once all events are fed."""


class Reported(Reply, kw_only=True, omit_defaults=True, gc=False, tag="reported"):
    """`accepted`: every step was. `events` is everything after the report's `based_on`, its own included.

    Not accepted: the worker throws its runner away. `token` is the workflow claim it still holds, because there is more to feed;
    empty = none. `close_refused`: signals it has not seen are among the events; feed them and close again.
    """

    accepted: bool
    length: int
    decided: int
    covered: int
    token: str = ""
    close_refused: bool = False
    closed: bool = False
    history_bytes: int = 0
    events: tuple[AnyEvent, ...] = ()
    activities: tuple[ActivityClaim, ...] = ()
    facts_dropped: int = 0
    updates: tuple[UpdateBody, ...] = ()
    """With `token`: to be offered to the code once all events are fed."""


class Beaten(Reply, kw_only=True, omit_defaults=True, gc=False, tag="beaten"):
    """Answer to a heartbeat. `wanted` false: the claim is gone, stop; `cancelled`: a cancel was asked for."""

    wanted: bool
    cancelled: bool = False


class RunResult(Reply, kw_only=True, omit_defaults=True, gc=False, tag="run_result"):
    """How a run stands. `result` or `failure` when it is closed; `next_run_id` when it continued."""

    run_id: str
    status: Status
    result: Payload = ABSENT
    failure: Failure | None = None
    reason: str = ""
    next_run_id: str = ""
    attempts: int = 1
    """To a parent: how often its child was tried."""


UpdateStatus = Literal["accepted", "completed", "failed", "rejected"]


class UpdateWaits(Reply, kw_only=True, omit_defaults=True, gc=False, tag="update_waits"):
    """The machine's word for an update that is new: the owner keeps it until the run's code has taken or refused it."""

    run_id: str


class UpdateResult(Reply, kw_only=True, omit_defaults=True, gc=False, tag="update_result"):
    """How an update stands. `command` is the number of its `update_accepted` in run `run_id`; 0 when it was refused.

    `failure` is what the handler raised (failed) or why it was not accepted (rejected).
    """

    run_id: str
    update_id: str
    status: UpdateStatus
    command: int = 0
    result: Payload = ABSENT
    failure: Failure | None = None


AnyReply: TypeAlias = (
    RunStarted
    | Taken
    | ActivityClaimed
    | NotWanted
    | WorkflowClaimed
    | Reported
    | Beaten
    | RunResult
    | UpdateWaits
    | UpdateResult
)


class Rejection(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A request that changes nothing. `code` is that of an error class in `core.errors`; `fields` are its keyword fields."""

    code: str
    message: str
    fields: dict[str, str] = {}
