"""How a run stands, in words and numbers: what `describe` answers, read off state alone."""

from msgspec import Struct

from perdure.core import events as ev
from perdure.core.failure import Failure
from perdure.core.payload import ABSENT, Payload
from perdure.core.replies import RunResult, Status
from perdure.core.standstill import Served, reasons
from perdure.core.state import ActivityState, ChildState, ExternalState, RunState, WorkflowState


class Pending(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing a run waits for. Instants are microseconds; 0 = none.

    `kind`: activity, start, timer, update (`name`: the id of an accepted one, the name of one that waits), child, external_signal,
    external_cancel, decision, build, resume; signal (`name`: of the one the code receives), condition (`name`: where its `wait_until`
    is written); of a closed run: delivery.
    """

    kind: str
    command: int = 0
    name: str = ""
    state: str = ""
    attempt: int = 0
    worker: str = ""
    until: int = 0
    failure: Failure | None = None
    summary: str = ""
    workflow_id: str = ""
    """Of a child or of whom a message is for."""
    since: int = 0
    """When it began: an activity was scheduled, a timer started, a claim taken, a run set aside."""
    attempts_max: int = 0
    """0 = unlimited."""
    deadline: int = 0
    """When an activity runs out of time, or its attempt does, whichever is first; 0 = never."""
    queue: str = ""
    build_id: str = ""
    """Of the worker that holds it, or that failed on the run."""


class Description(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run as of now. `closed_at` 0 = open."""

    workflow_id: str
    run_id: str
    type: str
    status: Status
    queue: str
    started_at: int
    closed_at: int = 0
    result: Payload = ABSENT
    failure: Failure | None = None
    reason: str = ""
    pending: tuple[Pending, ...] = ()
    attributes: dict[str, ev.Attribute] = {}
    memo: dict[str, Payload] = {}
    details: str = ""
    build_id: str = ""
    parent: ev.ParentLink | None = None
    history_length: int = 0
    next_run_id: str = ""
    attribute_datetimes: tuple[str, ...] = ()
    last_event_at: int = 0
    covered: int = 0
    """What it waits for is as its code said when it had seen the history up to here."""
    standstill: tuple[str, ...] = ()
    """Why nobody moves it, in words; empty while somebody does, or something it waits for will."""


def describe(state: WorkflowState, run: RunState, now: int, served: Served = lambda _queue, _kind: True) -> Description:
    """The current run of a workflow id. `served` says whether anybody takes tasks of a queue."""
    started = run.started
    pending = (*_pending(run, now), *_undelivered(state))
    ended = result_of(run.run_id, run.closing) if run.closing is not None else RunResult(run_id=run.run_id, status=run.status)
    return Description(
        workflow_id=state.workflow_id,
        run_id=run.run_id,
        type=started.workflow_type,
        status=run.status,
        queue=started.queue,
        started_at=run.reset_at or started.time,
        closed_at=run.closing.time if run.closing is not None else 0,
        result=ended.result,
        failure=ended.failure,
        reason=ended.reason,
        next_run_id=ended.next_run_id,
        pending=pending,
        last_event_at=run.last_time,
        covered=run.seen_to,
        standstill=() if run.closing is not None else reasons(run, now, pending, served),
        attributes=run.attributes,
        attribute_datetimes=run.datetimes,
        memo=started.memo,
        details=run.details,
        build_id=run.build_id,
        parent=started.parent,
        history_length=run.length,
    )


def _pending(run: RunState, now: int) -> list[Pending]:
    pending = [_activity(run, activity, now) for activity in run.activities.values()]
    pending += [
        Pending(kind="timer", command=command, until=timer.due, summary=timer.summary, since=timer.time)
        for command, timer in run.timers.items()
    ]
    if run.updates:
        pending += [
            Pending(kind="update", command=command, name=name, state="running") for command, name in run.updates.items()
        ]
    pending += [_child(child) for child in (run.children or {}).values()]
    pending += [_external(external) for external in (run.externals or {}).values()]
    if run.quarantine is not None:
        note = run.quarantine
        words = "; ".join(f"{label} {text}" for label, text in (("expected", note.expected), ("found", note.found)) if text)
        why = f"{note.reason}: {words}" if words else note.reason
        pending.append(Pending(kind="resume", name=note.build_id, state=why, since=note.time, build_id=note.build_id))
    if run.delayed_until > now:
        pending.append(Pending(kind="start", state=_why_later(run), until=run.delayed_until))
    if run.paused:
        pending.append(Pending(kind="resume", state=f"paused: {run.pause_reason}" if run.pause_reason else "paused"))
    pending += [
        Pending(kind="build", name=change, state=f"build {build} does not know the change {change!r}")
        for build, change in run.refused_builds.items()
    ]
    if run.wants_decision:
        pending.append(_decision(run))
    elif run.closing is None and run.last_input <= run.seen_to:  # else it may wait for something else by now
        pending += _awaited(run)
    return pending


def _awaited(run: RunState) -> list[Pending]:
    """What only the code knows of, as it said with its last decision."""
    told = [entry.partition(" ") for entry in run.awaits_now]
    return [Pending(kind=kind, name=name) for kind, _, name in told]


def _child(child: ChildState) -> Pending:
    event = child.event
    stands = "running" if child.run_id else "starting"
    return Pending(
        kind="child",
        command=event.id,
        name=event.workflow_type,
        state=f"{stands}, asked to stop" if child.cancel is not None else stands,
        summary=event.summary,
        workflow_id=event.workflow_id,
        since=event.time,
    )


def _external(external: ExternalState) -> Pending:
    event = external.event
    signal = isinstance(event, ev.ExternalSignalRequested)
    return Pending(
        kind="external_signal" if signal else "external_cancel",
        command=event.id,
        name=event.name if isinstance(event, ev.ExternalSignalRequested) else "",
        state="on its way",
        workflow_id=event.workflow_id,
        since=event.time,
    )


def _undelivered(state: WorkflowState) -> list[Pending]:
    """What closed runs of the id left for others and is not delivered yet."""
    left = (state.outgoing or {}).values()
    return [
        Pending(kind="delivery", name=message.kind, state="on its way", workflow_id=message.workflow_id) for message in left
    ]


def _why_later(run: RunState) -> str:
    attempt = run.started.attempt
    return f"attempt {attempt} of the run begins then" if attempt > 1 else "its code begins then"


def _decision(run: RunState) -> Pending:
    if run.claim is not None:
        claim = run.claim
        return Pending(kind="decision", state="claimed", worker=claim.worker, since=claim.since, build_id=claim.build_id)
    build = " of another build" if run.failed_builds or run.refused_builds else ""
    started = run.started
    return Pending(
        kind="decision",
        state=f"waiting for a worker{build} that knows workflow type {started.workflow_type!r} on queue {started.queue!r}",
        queue=started.queue,
        since=run.last_time,
    )


def _activity(run: RunState, activity: ActivityState, now: int) -> Pending:
    scheduled, claim = activity.event, activity.claim
    queue = scheduled.queue or run.started.queue
    if claim is not None:
        state = "to be completed from outside" if claim.outside else "running"
    elif activity.retry_at > now:
        state = "waiting to retry"
    else:
        state = f"waiting for a worker that knows activity {scheduled.name!r} on queue {queue!r}"
    return Pending(
        kind="activity",
        command=scheduled.id,
        name=scheduled.name,
        state=state,
        attempt=activity.attempt,
        worker=claim.worker if claim is not None else "",
        until=activity.retry_at if claim is None and activity.retry_at > now else 0,
        failure=activity.last_failure,
        summary=scheduled.summary,
        since=claim.time if claim is not None else activity.since,
        attempts_max=scheduled.retry.max_attempts,
        deadline=_deadline(activity),
        queue=queue,
    )


def _deadline(activity: ActivityState) -> int:
    scheduled, claim = activity.event, activity.claim
    bounds = [activity.since + scheduled.schedule_to_close] if scheduled.schedule_to_close else []
    if claim is not None and scheduled.start_to_close:
        bounds.append(claim.time + scheduled.start_to_close)
    if claim is None and activity.attempt == 1 and scheduled.schedule_to_start:
        bounds.append(activity.since + scheduled.schedule_to_start)
    return min(bounds, default=0)


def result_of(run_id: str, closing: object) -> RunResult:
    """How a run ended, from its closing event."""
    if isinstance(closing, ev.Completed):
        return RunResult(run_id=run_id, status="completed", result=closing.result)
    if isinstance(closing, ev.Failed):
        return RunResult(run_id=run_id, status="failed", failure=closing.failure, next_run_id=closing.next_run_id)
    if isinstance(closing, ev.ContinuedAsNew):
        return RunResult(run_id=run_id, status="continued", next_run_id=closing.next_run_id)
    if isinstance(closing, ev.Cancelled):
        return RunResult(run_id=run_id, status="cancelled", reason=closing.reason)
    if isinstance(closing, ev.Terminated):
        return RunResult(run_id=run_id, status="terminated", reason=closing.reason, next_run_id=closing.next_run_id)
    assert isinstance(closing, ev.TimedOut)
    return RunResult(run_id=run_id, status="timed_out")
