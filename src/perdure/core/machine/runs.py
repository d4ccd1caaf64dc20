"""How runs begin, and how they end from outside: start, terminate, run timeout."""

from typing import Final

from perdure.core.events import CancelRequested, RunLimits, SignalReceived, Started, Terminated, TimedOut
from perdure.core.limits import Limits
from perdure.core.machine.attributes import beyond
from perdure.core.machine.messages import ended, leave_behind
from perdure.core.machine.outcome import Decided, Draft, Outcome, Waker, only
from perdure.core.machine.targets import current_run, open_run
from perdure.core.replies import Rejection, RunStarted, Taken
from perdure.core.requests import RunDue, SignalBody, StartDue, StartWorkflow, TerminateWorkflow
from perdure.core.state import RunState, WorkflowState
from perdure.core.tasks import CancelNotice
from perdure.core.transition import RunChange, Transition
from perdure.core.volatile import DelayOver


def start(state: WorkflowState, request: StartWorkflow, now: int) -> Decided:
    """Start a run, or find that the id's run answers the request already."""
    run = state.run
    if request.parent is not None and (known := _known_child(state, request)) is not None:
        return known
    if run is not None and request.request_id and state.start_request_id == request.request_id:
        return only(RunStarted(run_id=run.run_id))
    signal = request.signal
    if run is not None and signal is not None and signal.signal_id in state.signal_ids:
        return only(RunStarted(run_id=run.run_id, attached=True))
    limits = state.limits
    if request.attributes and (fault := beyond(request.attributes, limits.attributes_max, limits.attribute_bytes_max)):
        return Rejection(code="LIMIT_EXCEEDED", message=f"the start has {fault}")
    if run is not None and run.is_open:
        return _meet_open(state, run, request, now)
    if run is not None and (refusal := _refuse_reuse(state, run, request)) is not None:
        return refusal
    if run is None:
        return _first(state, request, now)
    draft = Draft(state, run, now)
    begin(draft, _started(state, request, draft.time), request)
    return draft.outcome(RunStarted(run_id=request.run_id))


def _known_child(state: WorkflowState, request: StartWorkflow) -> Outcome | None:
    """How the child stands that this very start began before; None when it did not."""
    run, begun = state.run, (state.child_starts or {}).get(request.request_id)
    if run is None or begun is None:
        return None
    if state.start_request_id != request.request_id:
        return only(RunStarted(run_id=begun, attached=True, superseded=True))
    outcome = None if run.closing is None else ended(run.started, run.closing)
    return only(RunStarted(run_id=begun, attached=True, outcome=outcome))


def _first(state: WorkflowState, request: StartWorkflow, now: int) -> Outcome:
    """The first run of a workflow id: nothing to draft against."""
    started = _started(state, request, now)
    events: tuple[Started, ...] | tuple[Started, SignalReceived] = (started,)
    if request.signal is not None:
        events = (started, received(request.signal, 2, now))
    change = RunChange(run_id=request.run_id, events=events)
    transition = Transition(workflow_id=state.workflow_id, namespace=state.namespace, runs=(change,))
    wakes = wakes_of_start(state, started) if started.timeout or started.start_delay else []
    return Outcome(RunStarted(run_id=request.run_id), transition, wakes=wakes)


def received(signal: SignalBody, number: int, time: int) -> SignalReceived:
    """A signal as it is written down."""
    return SignalReceived(
        id=number,
        time=time,
        name=signal.name,
        input=signal.input,
        keywords=signal.keywords,
        signal_id=signal.signal_id,
    )


def wakes_of_start(state: WorkflowState, started: Started, reset_at: int = 0) -> list[Waker]:
    """When a run that is to begin later begins, and when its time is up. The time of a run that was reset counts from then."""
    begins = started.time + started.start_delay
    head = {"namespace": state.namespace, "workflow_id": state.workflow_id, "run_id": started.run_id}
    wakes: list[Waker] = [(begins, StartDue(**head))] if started.start_delay else []
    if started.timeout:
        wakes.append(((reset_at or begins) + started.timeout, RunDue(**head)))
    return wakes


def _meet_open(state: WorkflowState, run: RunState, request: StartWorkflow, now: int) -> Decided:
    if request.on_conflict == "attach":
        if request.signal is None:
            return only(RunStarted(run_id=run.run_id, attached=True))
        if len(run.unseen_signals) >= state.limits.signals_unread_max:
            return unread_limit(state)
        draft = Draft(state, run, now)
        signal = request.signal
        draft.add(received(signal, draft.next_id, draft.time))
        return draft.outcome(RunStarted(run_id=run.run_id, attached=True))
    if request.on_conflict == "terminate":
        draft = Draft(state, run, now)
        reason = f"replaced by a start of run {request.run_id}"
        _end(draft, Terminated(id=draft.next_id, time=draft.time, reason=reason, unseen_signals=len(run.unseen_signals)))
        begin(draft, _started(state, request, draft.time), request)
        return draft.outcome(RunStarted(run_id=request.run_id))
    return _already(state, run, "is running", "; on_conflict='attach' gives its handle, 'terminate' ends it first")


def unread_limit(state: WorkflowState) -> Rejection:
    limit = state.limits.signals_unread_max
    return Rejection(
        code="LIMIT_EXCEEDED",
        message=f"workflow {state.workflow_id!r} has {limit} unread signals; the limit (signals_unread_max) is {limit}",
    )


def _already(state: WorkflowState, run: RunState, how: str, advice: str = "") -> Rejection:
    return Rejection(
        code="WORKFLOW_ALREADY_STARTED",
        message=f"workflow {state.workflow_id!r} {how} (run {run.run_id}){advice}",
        fields={"run_id": run.run_id},
    )


def _refuse_reuse(state: WorkflowState, run: RunState, request: StartWorkflow) -> Rejection | None:
    if request.reuse == "never":
        return _already(state, run, f"has {run.status} and its id may not be used again (reuse='never')")
    if request.reuse == "failed" and run.status in {"completed", "continued"}:
        return _already(state, run, f"has {run.status} and its id may only be used again after a failure (reuse='failed')")
    return None


_USUAL: Final = Started(id=1, time=0, workflow_type="", queue="", run_id="", seed=0).limits
"""The very object that is left out where an event is written."""


def _run_limits(set_limits: Limits) -> RunLimits:
    """Limits that workflow code can see, as they are at the start."""
    limits = RunLimits(
        history_warn=set_limits.history_events_warn,
        history_max=set_limits.history_events_max,
        payload_bytes_max=set_limits.payload_bytes_max,
        attributes_max=set_limits.attributes_max,
        attribute_bytes_max=set_limits.attribute_bytes_max,
    )
    return _USUAL if limits == _USUAL else limits


def _started(state: WorkflowState, request: StartWorkflow, time: int) -> Started:
    return Started(
        id=1,
        time=time,
        workflow_type=request.workflow_type,
        queue=request.queue,
        run_id=request.run_id,
        seed=request.seed,
        input=request.input,
        keywords=request.keywords,
        request_id=request.request_id,
        timeout=request.timeout,
        parent=request.parent,
        memo=request.memo,
        attributes=request.attributes,
        attribute_datetimes=request.attribute_datetimes,
        origin=request.origin,
        priority=request.priority,
        start_delay=request.start_delay,
        retry=request.retry,
        limits=_run_limits(state.limits),
        encoded=request.encoded,
    )


def begin(
    draft: Draft,
    started: Started,
    request: StartWorkflow | None = None,
    carried: "list[SignalReceived | CancelRequested] | None" = None,
) -> None:
    """Open a run in `draft`: its first event, and the first things it is told."""
    draft.succeed(started)
    if request is not None and request.signal is not None:
        signal = request.signal
        draft.add(received(signal, 2, started.time))
    for event in carried or ():
        draft.add(event)
    if started.timeout or started.start_delay:
        draft.wakes += wakes_of_start(draft.state, started)


def _end(draft: Draft, event: Terminated | TimedOut) -> None:
    draft.add(event)
    notify_closed(draft)


def notify_closed(draft: Draft, *, by_code: bool = False, goes_on: bool = False) -> None:
    """Tell whom the end concerns: workers whose activities nobody waits for any more, children, the parent, others still unanswered.

    Code that ends by itself (`by_code`) leaves alone what it would not have cancelled. `goes_on`: another run of the chain follows in the
    same transition.
    """
    run = draft.run
    cancel_attempts(draft, by_code=by_code)
    if (
        run.children is not None
        or run.externals is not None
        or run.started.parent is not None
        or draft.deliveries is not None
        or draft.state.kin is not None
    ):
        leave_behind(draft, goes_on=goes_on)


def cancel_attempts(draft: Draft, *, by_code: bool = False) -> None:
    """Tell workers whose activities nobody waits for any more."""
    for activity in draft.run.activities.values():
        if activity.claim is not None and not (by_code and activity.event.on_cancel == "abandon"):
            draft.cancels.append((activity.claim.worker, CancelNotice(token=activity.claim.token)))


def terminate(state: WorkflowState, request: TerminateWorkflow, now: int) -> Decided:
    run = state.run
    if run is not None and request.request_id in state.terminate_ids:
        return only(Taken(run_id=run.run_id, duplicate=True))
    found = open_run(state, request.run_id, request.started_by)
    if isinstance(found, Rejection):
        return found
    draft = Draft(state, found, now)
    _end(
        draft,
        Terminated(
            id=draft.next_id,
            time=draft.time,
            reason=request.reason,
            request_id=request.request_id,
            unseen_signals=len(found.unseen_signals),
        ),
    )
    return draft.outcome(Taken(run_id=found.run_id))


def delay_over(state: WorkflowState, request: StartDue, now: int) -> Decided:
    """A run that was to begin later begins, if it is time. Nothing is written: the start says when that is."""
    run = current_run(state, request)
    if run is None or not run.delayed_until:
        return only(Taken(duplicate=True))
    draft = Draft(state, run, now)
    if now < run.delayed_until:
        draft.wake(run.delayed_until, request)
    else:
        draft.volatile.append(DelayOver())
    return draft.outcome(Taken(run_id=run.run_id))


def time_out(state: WorkflowState, request: RunDue, now: int) -> Decided:
    run = current_run(state, request)
    if run is None or not run.started.timeout:
        return only(Taken(duplicate=True))
    due = (run.reset_at or run.started.time + run.started.start_delay) + run.started.timeout
    draft = Draft(state, run, now)
    if now < due:
        draft.wake(due, request)
        return draft.outcome(Taken(run_id=run.run_id))
    _end(draft, TimedOut(id=draft.next_id, time=draft.time, unseen_signals=len(run.unseen_signals)))
    return draft.outcome(Taken(run_id=run.run_id))
