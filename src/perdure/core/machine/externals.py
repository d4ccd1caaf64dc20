"""Signals and cancels to other runs: what whoever sent them hears."""

from perdure.core.events import (
    ExternalCancelDelivered,
    ExternalCancelFailed,
    ExternalSignalDelivered,
    ExternalSignalFailed,
    ExternalSignalRequested,
)
from perdure.core.machine.limiting import fail_if_too_long
from perdure.core.machine.messages import settle, settled
from perdure.core.machine.outcome import Decided, Draft
from perdure.core.replies import Taken
from perdure.core.requests import ExternalAnswered
from perdure.core.state import WorkflowState


def answered(state: WorkflowState, request: ExternalAnswered, now: int) -> Decided:
    """A signal or cancel was delivered, or cannot be."""
    run = state.run
    external = (run.externals or {}).get(request.command) if run is not None else None
    if run is None or external is None or external.request_id != request.request_id:
        return settled(state, now, messages=(request.request_id,))
    draft, failure = Draft(state, run, now), request.failure
    settle(draft, request.request_id)
    number, time, command = draft.next_id, draft.time, request.command
    if isinstance(external.event, ExternalSignalRequested):
        if failure is None:
            draft.add(ExternalSignalDelivered(id=number, time=time, command=command))
        else:
            draft.add(ExternalSignalFailed(id=number, time=time, command=command, failure=failure))
    elif failure is None:
        draft.add(ExternalCancelDelivered(id=number, time=time, command=command))
    else:
        draft.add(ExternalCancelFailed(id=number, time=time, command=command, failure=failure))
    fail_if_too_long(draft)
    return draft.outcome(Taken(run_id=run.run_id))
