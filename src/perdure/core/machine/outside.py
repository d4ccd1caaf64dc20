"""Attempts completed from outside: their function has ended, whoever holds the task token says how the attempt does."""

from perdure.core.events import ActivityCompleted
from perdure.core.machine.activities import attempt_failed
from perdure.core.machine.beats import may_be_adopted
from perdure.core.machine.limiting import fail_if_too_long
from perdure.core.machine.outcome import Decided, Draft, only
from perdure.core.machine.targets import current_run
from perdure.core.notes import ActivityClaimed
from perdure.core.replies import Beaten, Rejection, Taken
from perdure.core.requests import CompleteLater, FinishActivity
from perdure.core.state import ActivityState, RunState, WorkflowState
from perdure.core.volatile import Beat


def _claimed(state: WorkflowState, request: FinishActivity) -> tuple[RunState, ActivityState] | None:
    run = current_run(state, request)
    activity = run.activities.get(request.command) if run is not None else None
    if run is None or activity is None or activity.claim is None or activity.claim.token != request.token:
        return None
    return run, activity


def complete_later(state: WorkflowState, request: CompleteLater, now: int) -> Decided:
    """Write the claim down as one that no worker holds any more. Its bounds go on running."""
    run = current_run(state, request)
    activity = run.activities.get(request.command) if run is not None else None
    if run is None or activity is None:
        return only(Beaten(wanted=False))
    claim = activity.claim
    if claim is None and may_be_adopted(activity, request.attempt, now):
        claim = ActivityClaimed(
            id=0, time=now, command=request.command, attempt=request.attempt, worker="", token=request.token
        )
    elif claim is None or claim.token != request.token:
        return only(Beaten(wanted=False))
    reply = Beaten(wanted=True, cancelled=activity.cancel_requested)
    if claim.outside:
        return only(reply)
    draft = Draft(state, run, now)
    draft.note(
        ActivityClaimed(
            id=draft.next_note,
            time=claim.time,  # start-to-close goes on from the claim
            after=draft.length,
            command=request.command,
            attempt=claim.attempt,
            worker=claim.worker,
            token=claim.token,
            outside=True,
        )
    )
    draft.volatile.append(Beat(request.command, now))
    return draft.outcome(reply)


def finish(state: WorkflowState, request: FinishActivity, now: int) -> Decided:
    """The attempt has ended, says whoever holds its task token. A token that was used, or whose claim is gone, is not found."""
    held = _claimed(state, request)
    if held is None:
        return Rejection(
            code="NOT_FOUND",
            message=f"the task token of activity {request.command} (attempt {request.attempt}) of workflow "
            f"{state.workflow_id!r} names a claim that is gone: it was used, or the attempt has ended otherwise",
        )
    run, activity = held
    draft = Draft(state, run, now)
    if request.failure is not None:
        attempt_failed(draft, activity, request.failure, "error", cancelled=request.cancelled)
    else:
        draft.add(
            ActivityCompleted(
                id=draft.next_id, time=draft.time, command=request.command, result=request.result, attempt=activity.attempt
            )
        )
    fail_if_too_long(draft)
    return draft.outcome(Taken(run_id=run.run_id))
