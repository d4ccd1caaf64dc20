"""Workflow claims: who may decide for a run. Volatile: the decision fence is what keeps histories right, claims only spare work."""

from typing import Final

from msgspec.structs import replace

from perdure.core.machine.outcome import Decided, Draft, only
from perdure.core.machine.targets import current_run
from perdure.core.machine.updates import wants_code
from perdure.core.notes import BuildRefused, Quarantined
from perdure.core.replies import Beaten, NotWanted, Taken, WorkflowClaimed
from perdure.core.requests import (
    ClaimWorkflow,
    HeartbeatWorkflow,
    QuarantineRun,
    ReleaseWorkflow,
    WorkflowClaimDue,
    WriteDown,
)
from perdure.core.state import RunState, WorkflowClaim, WorkflowState
from perdure.core.tasks import Task
from perdure.core.volatile import HeldWarm, WorkflowClaimEnded, WorkflowClaimHeld

UNKNOWN_TYPE_PAUSE: Final = 1_000_000
"""A run no worker knows the code of is offered again after so many microseconds; a worker that registers more asks at once."""


def claim_workflow(state: WorkflowState, request: ClaimWorkflow, now: int) -> Decided:
    run = current_run(state, request)
    reason = _why_not(run, request)
    if run is None or reason:
        return only(NotWanted(reason=reason))
    draft = Draft(state, run, now)
    hold(draft, request.token, request.worker, request.build_id, request.lives_for)
    return draft.outcome(
        WorkflowClaimed(
            token=request.token,
            length=run.length,
            decided=run.decided,
            covered=run.seen_to,
            status=run.status,
            started=run.started,
            history_bytes=run.bytes,
            updates=request.waiting,
        )
    )


def _why_not(run: RunState | None, request: ClaimWorkflow) -> str:
    if run is None:
        return "the run is closed or gone"
    if run.claim is not None and run.claim.token == request.token:
        return ""  # the same claim once more: its reply was lost
    if not run.wants_decision and not (request.waiting and wants_code(run)):
        return "paused" if run.paused else "nothing new to decide"
    if run.claim is not None:
        return "claimed by another worker"
    return build_fault(run, request.build_id)


def build_fault(run: RunState, build_id: str) -> str:
    """Why a build is not offered the run, or nothing."""
    if build_id in run.failed_builds:
        return f"build {build_id} failed on this run"
    if build_id in run.refused_builds:
        return f"build {build_id} is older than this run"
    return ""


def hold(draft: Draft, token: str, worker: str, build_id: str, lives_for: int) -> None:
    """Give `worker` the claim, and wake the owner when it could be lost."""
    claim = WorkflowClaim(token=token, worker=worker, build_id=build_id, since=draft.now, lives_for=lives_for)
    draft.volatile.append(WorkflowClaimHeld(claim))
    if lives_for:
        run = draft.run
        due = WorkflowClaimDue(
            namespace=draft.state.namespace, workflow_id=draft.state.workflow_id, run_id=run.run_id, token=token
        )
        draft.wake(draft.now + lives_for, due)


def beat(state: WorkflowState, request: HeartbeatWorkflow, now: int) -> Decided:
    """The worker that has the claim is still at work. Writes nothing; a token that is not (or no longer) the claim's is told so."""
    run = current_run(state, request)
    if run is None or run.claim is None or run.claim.token != request.token:
        return only(Beaten(wanted=False))
    draft = Draft(state, run, now)
    draft.volatile.append(WorkflowClaimHeld(replace(run.claim, beat_at=now)))
    return draft.outcome(Beaten(wanted=True))


def claim_due(state: WorkflowState, request: WorkflowClaimDue, now: int) -> Decided:
    """A workflow claim that showed no sign of life for its period is lost; the run is offered again."""
    run = current_run(state, request)
    if run is None or run.claim is None or run.claim.token != request.token or not run.claim.lives_for:
        return only(Taken(duplicate=True))
    draft = Draft(state, run, now)
    if now < run.claim.dies_at:
        draft.wake(run.claim.dies_at, request)
    else:
        draft.volatile += [WorkflowClaimEnded(), HeldWarm("")]
    return draft.outcome(Taken(run_id=run.run_id))


def write_down(state: WorkflowState, request: WriteDown, now: int) -> Decided:
    """Write what decisions without commands have seen, and claims that live, as the run's next transition would."""
    run = current_run(state, request)
    if run is None:
        return only(Taken(duplicate=True))
    draft = Draft(state, run, now)
    draft.write_what_waits()
    return draft.outcome(Taken(run_id=run.run_id))


def quarantine(state: WorkflowState, request: QuarantineRun, now: int) -> Decided:
    """Keep the run from the build whose decision could not be written, and say why; its facts go on being taken."""
    run = current_run(state, request)
    if run is None:
        return only(Taken(duplicate=True))
    note = run.quarantine
    if note is not None and (note.build_id, note.reason) == (request.build_id, request.reason):
        return only(Taken(duplicate=True))
    draft = Draft(state, run, now)
    draft.volatile += [WorkflowClaimEnded(), HeldWarm("")]
    draft.note(
        Quarantined(id=draft.next_note, time=draft.time, after=draft.length, reason=request.reason, build_id=request.build_id)
    )
    return draft.outcome(Taken(run_id=run.run_id))


def release_workflow(state: WorkflowState, request: ReleaseWorkflow, now: int) -> Decided:
    run = current_run(state, request)
    if run is None or run.claim is None or run.claim.token != request.token:
        return only(Taken(duplicate=True))
    draft = Draft(state, run, now)
    draft.volatile += [WorkflowClaimEnded(), HeldWarm("")]
    if request.why == "nondeterminism":
        draft.note(
            Quarantined(
                id=draft.next_note,
                time=draft.time,
                after=draft.length,
                reason=request.reason,
                build_id=request.build_id,
                expected=request.expected,
                found=request.found,
            )
        )
    elif request.why == "old_build":
        draft.note(
            BuildRefused(
                id=draft.next_note,
                time=draft.time,
                after=draft.length,
                build_id=request.build_id,
                change_id=request.change_id,
            )
        )
    elif request.why == "unknown_type":
        draft.wake(now + UNKNOWN_TYPE_PAUSE, workflow_task(state, run))
    return draft.outcome(Taken(run_id=run.run_id))


def workflow_task(state: WorkflowState, run: RunState) -> Task:
    """The pointer to a run that has something to decide."""
    return Task(
        namespace=state.namespace,
        workflow_id=state.workflow_id,
        run_id=run.started.run_id,
        queue=run.started.queue,
        sticky=run.sticky,
        priority=run.started.priority,
    )
