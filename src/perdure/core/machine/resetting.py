"""Reset: a new run from a point in an old history, in one transition with the end of the open run.

The history up to the point is copied as it is, under the new run's id; behind it stands the input `reset`, and from there on the code sees
the new run's id and seed. Notes are not copied: what was claimed, tried or seen was another run's. What was open at the point is taken up
again: activities are dispatched anew, with the keys they had, timers are due when they were, children and messages are asked about once
more. Signals that came later are delivered again, updates accepted later are owed. The state does not hold the history: whoever brings the
request brings it along.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from perdure.core import events as ev
from perdure.core.machine.apply import apply
from perdure.core.machine.messages import deliveries_of, leave_behind
from perdure.core.machine.outcome import Decided, Draft, only
from perdure.core.machine.runs import cancel_attempts
from perdure.core.machine.targets import not_found
from perdure.core.machine.updates import redelivered
from perdure.core.machine.wakes import tasks_of, wakes_of
from perdure.core.replies import Rejection, Taken
from perdure.core.requests import ResetWorkflow
from perdure.core.state import RunState, WorkflowState


def reset(state: WorkflowState, request: ResetWorkflow, now: int) -> Decided:
    """Begin the new run; the open one ends `terminated` and is followed by it, a closed one stays as it is."""
    known = (state.reset_ids or {}).get(request.request_id)
    if known is not None:
        return only(Taken(run_id=known, duplicate=True))
    run = state.run
    if run is None or not request.events:
        return not_found(state, request.run_id)
    if run.run_id == request.new_run_id:
        return only(Taken(run_id=run.run_id, duplicate=True))
    if (refusal := _refusal(run, request)) is not None:
        return refusal
    draft = Draft(state, run, now)
    draft.time = max(draft.time, request.events[request.event_id - 1].time)
    signals, updates = _later_signals(run, request), _later_updates(run, request)
    if run.is_open:
        _end(draft, request)
    _begin(draft, request, signals, updates)
    return draft.outcome(Taken(run_id=request.new_run_id))


def _refusal(run: RunState, request: ResetWorkflow) -> Rejection | None:
    events, point = request.events, request.event_id
    started = events[0]
    assert isinstance(started, ev.Started), "a history begins with a started event"
    if started.run_id == run.run_id and len(events) != run.length:
        return Rejection(code="UNAVAILABLE", message=f"run {run.run_id} went on while its history was read; reset it again")
    if not 1 <= point <= len(events):
        message = f"run {started.run_id} has events 1 to {len(events)}; it cannot be reset to {point}"
        return Rejection(code="INVALID_ARGUMENT", message=message)
    if type(events[point - 1]) in ev.CLOSING_KINDS:
        message = f"event {point} is the end of run {started.run_id}; reset it to one before"
        return Rejection(code="INVALID_ARGUMENT", message=message)
    limit = started.limits.history_max
    if point + 1 + len(_later_signals(run, request)) >= limit:
        message = f"reset to {point} the history would be too long at once; the limit (history_events_max) is {limit}"
        return Rejection(code="LIMIT_EXCEEDED", message=message)
    return None


def _later_signals(run: RunState, request: ResetWorkflow) -> list[ev.SignalReceived]:
    """Signals behind the point; and, when it is an older run that is reset, those the open one has not seen."""
    later = [event for event in request.events[request.event_id :] if isinstance(event, ev.SignalReceived)]
    if run.is_open and run.run_id != _run_id(request):
        known = {event.signal_id for event in request.events if isinstance(event, ev.SignalReceived)}
        later += [signal for signal in run.unseen_signals if signal.signal_id not in known]
    return later


def _later_updates(run: RunState, request: ResetWorkflow) -> tuple[ev.UpdateBody, ...]:
    """Updates behind the point; and, when it is an older run that is reset, those the open one still owes."""
    later = redelivered(request.events[request.event_id :])
    if not run.owed or run.run_id == _run_id(request):
        return later
    known = {event.update_id for event in request.events if isinstance(event, ev.UpdateAccepted)}
    known |= {update.update_id for update in later}
    return (*later, *(update for update_id, update in run.owed.items() if update_id not in known))


def _run_id(request: ResetWorkflow) -> str:
    started = request.events[0]
    assert isinstance(started, ev.Started)
    return started.run_id


def _end(draft: Draft, request: ResetWorkflow) -> None:
    """End the open run. What it asked for up to the point goes over to the new one, if it is the one that is reset."""
    reason = f"reset to event {request.event_id} in run {request.new_run_id}"
    draft.add(
        ev.Terminated(
            id=draft.next_id,
            time=draft.time,
            reason=f"{reason}: {request.reason}" if request.reason else reason,
            request_id=request.request_id,
            next_run_id=request.new_run_id,
        )
    )
    cancel_attempts(draft)
    if request.events[0].request_id != draft.run.started.request_id:  # type: ignore[union-attr]
        leave_behind(draft, replaced=True)
    elif draft.run.run_id != _run_id(request):
        leave_behind(draft, goes_on=True, point=0, kept=_asked_by_then(request))
    elif draft.run.children is not None or draft.run.externals is not None:
        leave_behind(draft, goes_on=True, point=request.event_id)


def _asked_by_then(request: ResetWorkflow) -> frozenset[str]:
    """Request ids of the children's starts up to the point."""
    scratch = WorkflowState(namespace=request.namespace, workflow_id=request.workflow_id)
    for event in request.events[: request.event_id]:
        apply(scratch, event)
    children = scratch.run.children if scratch.run is not None else None
    return frozenset(child.request_id for child in (children or {}).values())


def _begin(
    draft: Draft, request: ResetWorkflow, signals: Sequence[ev.SignalReceived], updates: tuple[ev.UpdateBody, ...]
) -> None:
    old, state = request.events[0], draft.state
    assert isinstance(old, ev.Started)
    started = replace(
        old,
        run_id=request.new_run_id,
        origin_run_id=old.origin_run_id or old.run_id,
        paused=draft.run.is_open and draft.run.paused,
    )
    draft.succeed(started)
    scratch = WorkflowState(namespace=state.namespace, workflow_id=state.workflow_id, limits=state.limits)
    for event in (started, *request.events[1 : request.event_id], _reset(draft, request, old.run_id, updates)):
        apply(scratch, event)
        if event is not started:
            draft.add(event)
    assert scratch.run is not None
    for activity in list(scratch.run.activities.values()):
        if activity.cancel_requested:  # whoever ran it was told of the old run: nobody is going to answer
            draft.add(ev.ActivityCancelled(id=draft.next_id, time=draft.time, command=activity.event.id))
            apply(scratch, draft.events[-1])
    for signal in signals:
        draft.add(replace(signal, id=draft.next_id, time=draft.time, carried_from=signal.id))
        apply(scratch, draft.events[-1])
    draft.tasks += [task for task in tasks_of(scratch, draft.now) if task.command]
    draft.wakes += wakes_of(scratch)
    for delivery in deliveries_of(scratch, asking=True):
        draft.deliver(delivery)


def _reset(draft: Draft, request: ResetWorkflow, reset_from: str, updates: tuple[ev.UpdateBody, ...]) -> ev.Reset:
    return ev.Reset(
        id=request.event_id + 1,
        time=draft.time,
        run_id=request.new_run_id,
        seed=request.seed,
        reset_from=reset_from,
        event_id=request.event_id,
        reason=request.reason,
        request_id=request.request_id,
        updates=updates,
    )
