"""Children, as their parent hears of them. How they are started is said in `runs`, how messages travel in `messages`."""

from perdure.core.events import ChildClosed, ChildStarted, ChildStartFailed
from perdure.core.machine.limiting import fail_if_too_long
from perdure.core.machine.messages import settle, settled
from perdure.core.machine.outcome import Decided, Draft
from perdure.core.replies import Taken
from perdure.core.requests import ChildRefused, ChildStands
from perdure.core.state import ChildState, WorkflowState


def stands(state: WorkflowState, request: ChildStands, now: int) -> Decided:
    """A child has started, or closed, or both."""
    outcome = request.outcome
    child = _child(state, request)
    if child is None:
        return settled(state, now, messages=(request.request_id,), children=(request.request_id,) if outcome else ())
    run = state.run
    if run is None or (child.run_id and outcome is None):
        return settled(state, now, messages=(request.request_id,))
    draft = Draft(state, run, now)
    settle(draft, request.request_id)
    if not child.run_id:
        draft.add(
            ChildStarted(
                id=draft.next_id,
                time=draft.time,
                command=request.command,
                workflow_id=request.child_id,
                run_id=request.run_id,
            )
        )
    if outcome is not None:
        draft.add(
            ChildClosed(
                id=draft.next_id,
                time=draft.time,
                command=request.command,
                status=outcome.status,  # type: ignore[arg-type]
                workflow_id=request.child_id,
                run_id=outcome.run_id,
                result=outcome.result,
                failure=outcome.failure,
                attempts=outcome.attempts,
            )
        )
    fail_if_too_long(draft)
    return draft.outcome(Taken(run_id=run.run_id))


def refused(state: WorkflowState, request: ChildRefused, now: int) -> Decided:
    """A child could not be started."""
    child, run = _child(state, request), state.run
    if child is None:
        return settled(state, now, messages=(request.request_id,), children=(request.request_id,))
    if run is None or child.run_id:
        return settled(state, now, messages=(request.request_id,))
    draft = Draft(state, run, now)
    settle(draft, request.request_id)
    draft.add(
        ChildStartFailed(
            id=draft.next_id,
            time=draft.time,
            command=request.command,
            workflow_id=child.event.workflow_id,
            failure=request.failure,
        )
    )
    fail_if_too_long(draft)
    return draft.outcome(Taken(run_id=run.run_id))


def _child(state: WorkflowState, request: ChildStands | ChildRefused) -> ChildState | None:
    """The open child a message speaks of: found by the command's number, known by the request id of its start."""
    run = state.run
    child = (run.children or {}).get(request.command) if run is not None else None
    return child if child is not None and child.request_id == request.request_id else None
