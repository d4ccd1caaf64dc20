"""Finding the run a request speaks of, and the words with which it is told that there is none."""

from perdure.core.replies import Rejection
from perdure.core.requests import EngineRequest, FinishActivity, WorkerRequest
from perdure.core.state import RunState, WorkflowState


def not_found(state: WorkflowState, run_id: str = "") -> Rejection:
    which = f"run {run_id} of workflow {state.workflow_id!r}" if run_id else f"workflow {state.workflow_id!r}"
    return Rejection(code="NOT_FOUND", message=f"{which} does not exist in namespace {state.namespace!r}")


def closed(run: RunState, workflow_id: str) -> Rejection:
    return Rejection(
        code="WORKFLOW_CLOSED",
        message=f"workflow {workflow_id!r} is closed (run {run.run_id}, {run.status})",
        fields={"run_id": run.run_id},
    )


def open_run(state: WorkflowState, run_id: str, started_by: str = "") -> RunState | Rejection:
    """The open run a client means; with no `run_id`, the current one. A message to a child means the chain of that start alone."""
    run = state.run
    if run is None:
        return not_found(state)
    if run_id and run_id != run.run_id:
        return Rejection(
            code="WORKFLOW_CLOSED",
            message=f"run {run_id} of workflow {state.workflow_id!r} is not its current run ({run.run_id})",
            fields={"run_id": run.run_id},
        )
    if run.closing is not None:
        return closed(run, state.workflow_id)
    if started_by and started_by != state.start_request_id:
        return Rejection(
            code="WORKFLOW_CLOSED",
            message=f"the child {state.workflow_id!r} is closed; the id is in use for another run ({run.run_id})",
            fields={"run_id": run.run_id},
        )
    return run


def current_run(state: WorkflowState, request: WorkerRequest | EngineRequest | FinishActivity) -> RunState | None:
    """The open run a worker or the engine means, or None when it is gone."""
    run = state.run
    if run is None or run.closing is not None or run.started.run_id != request.run_id:
        return None
    return run
