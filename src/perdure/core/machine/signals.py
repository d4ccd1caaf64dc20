"""Signals and cancel requests: remembered by id, never lost, never refused for the length of a history."""

from perdure.core.events import CancelRequested
from perdure.core.machine.outcome import Decided, Draft, only
from perdure.core.machine.runs import received, unread_limit
from perdure.core.machine.targets import open_run
from perdure.core.replies import Rejection, Taken
from perdure.core.requests import RequestCancel, SignalWorkflow
from perdure.core.state import WorkflowState


def signal(state: WorkflowState, request: SignalWorkflow, now: int) -> Decided:
    body = request.signal
    if state.run is not None and body.signal_id in state.signal_ids:
        return only(Taken(run_id=state.run.run_id, duplicate=True))
    found = open_run(state, request.run_id, request.started_by)
    if isinstance(found, Rejection):
        return found
    if len(found.unseen_signals) >= state.limits.signals_unread_max:
        return unread_limit(state)
    draft = Draft(state, found, now)
    draft.add(received(body, draft.next_id, draft.time))
    return draft.outcome(Taken(run_id=found.run_id))


def cancel(state: WorkflowState, request: RequestCancel, now: int) -> Decided:
    if state.run is not None and request.request_id and request.request_id in state.cancel_ids:
        return only(Taken(run_id=state.run.run_id, duplicate=True))
    found = open_run(state, request.run_id, request.started_by)
    if isinstance(found, Rejection):
        return found
    draft = Draft(state, found, now)
    draft.add(CancelRequested(id=draft.next_id, time=draft.time, reason=request.reason, request_id=request.request_id))
    return draft.outcome(Taken(run_id=found.run_id))
