"""How a run ended, as the caller of `result` learns it: a value, or the exception its status stands for."""

from typing import TYPE_CHECKING, Any

from perdure.core.errors import WorkflowCancelled, WorkflowFailed, WorkflowTerminated, WorkflowTimedOut
from perdure.core.payload import is_absent
from perdure.core.replies import RunResult
from perdure.sdk.failures import to_exception
from perdure.sdk.payloads import CONVERTER

if TYPE_CHECKING:
    from perdure.sdk.workflow import Workflow


def outcome_of(workflow_id: str, found: RunResult, workflow: "Workflow[..., Any] | None") -> Any:
    """The result by the workflow's return hint (plain JSON when the workflow is not known here), or raise what it ended with."""
    if found.status == "completed":
        if is_absent(found.result):
            return None
        if workflow is not None:
            return workflow.signature.result(found.result)
        return CONVERTER.decode(found.result, Any, f"result of {workflow_id}")
    about = f": {found.reason}" if found.reason else ""
    if found.status == "failed":
        cause = to_exception(found.failure) if found.failure is not None else None
        raise WorkflowFailed(f"workflow {workflow_id!r} failed: {type(cause).__name__}: {cause}") from cause
    if found.status == "cancelled":
        raise WorkflowCancelled(f"workflow {workflow_id!r} was cancelled{about}")
    if found.status == "terminated":
        raise WorkflowTerminated(f"workflow {workflow_id!r} was terminated{about}")
    raise WorkflowTimedOut(f"workflow {workflow_id!r} passed its timeout")
