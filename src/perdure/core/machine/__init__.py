"""The machine: what a request means for a run. `(WorkflowState, Request, now)` in, an `Outcome` or a `Rejection` out.

Pure: no clock, no chance, no I/O, and no change of state (that is `apply`'s alone). One file per subject; this one is the table.
"""

from collections.abc import Callable
from typing import Any

from perdure.core import requests as rq
from perdure.core.machine import (
    activities,
    beats,
    children,
    claims,
    externals,
    messages,
    outside,
    pausing,
    reports,
    resetting,
    runs,
    signals,
    timers,
    updates,
)
from perdure.core.machine.apply import apply, apply_transition
from perdure.core.machine.outcome import Decided, Outcome
from perdure.core.replies import Rejection
from perdure.core.state import WorkflowState

__all__ = ["Decided", "Outcome", "apply", "apply_transition", "decide"]


def decide(state: WorkflowState, request: rq.AnyRequest, now: int) -> Decided:
    """What `request` means for the workflow id whose state this is, at `now` (microseconds). Total: every request has an answer."""
    return _DECIDE[type(request)](state, request, now)


def _in_parts(_state: WorkflowState, _request: Any, _now: int) -> Decided:
    return Rejection(code="INVALID_ARGUMENT", message="a part of a report is nothing to decide: the whole report is")


_DECIDE: dict[type, Callable[[WorkflowState, Any, int], Decided]] = {
    rq.StartWorkflow: runs.start,
    rq.TerminateWorkflow: runs.terminate,
    rq.ResumeWorkflow: pausing.resume,
    rq.StartDue: runs.delay_over,
    rq.RunDue: runs.time_out,
    rq.SignalWorkflow: signals.signal,
    rq.RequestCancel: signals.cancel,
    rq.UpdateWorkflow: updates.update,
    rq.ClaimWorkflow: claims.claim_workflow,
    rq.ReleaseWorkflow: claims.release_workflow,
    rq.HeartbeatWorkflow: claims.beat,
    rq.WorkflowClaimDue: claims.claim_due,
    rq.WriteDown: claims.write_down,
    rq.QuarantineRun: claims.quarantine,
    rq.ClaimActivity: activities.claim_activity,
    rq.ReleaseActivity: activities.release_activity,
    rq.HeartbeatActivity: beats.heartbeat,
    rq.CompleteLater: outside.complete_later,
    rq.FinishActivity: outside.finish,
    rq.ActivityDue: activities.activity_due,
    rq.TimerDue: timers.timer_due,
    rq.ChildStands: children.stands,
    rq.ChildRefused: children.refused,
    rq.ExternalAnswered: externals.answered,
    rq.MessagesDelivered: messages.delivered,
    rq.Report: reports.report,
    rq.ReportPart: _in_parts,
    rq.PauseWorkflow: pausing.pause,
    rq.ResetWorkflow: resetting.reset,
}
