"""Notes: attempts, claims, how the run stands with builds and people."""

from collections.abc import Callable
from typing import Any, Final

from perdure.core import notes as nt
from perdure.core.machine.applying.claim import claim, unclaim
from perdure.core.machine.applying.places import cover, run_of
from perdure.core.payload import ABSENT
from perdure.core.state import RunState, WorkflowState


def _noted(state: WorkflowState, note: nt.Note) -> RunState:
    run = run_of(state)
    run.notes = note.id
    return run


def _activity_claimed(state: WorkflowState, note: nt.ActivityClaimed) -> None:
    run = _noted(state, note)
    activity = run.activities.get(note.command)
    if activity is None:
        return
    if note.token:
        claim(activity, note)
    else:
        unclaim(activity)  # a claim that was written was given back
    activity.claim_noted = bool(note.token)
    if note.command in run.unnoted:
        run.unnoted.remove(note.command)


def _attempt_failed(state: WorkflowState, note: nt.AttemptFailed) -> None:
    run = _noted(state, note)
    activity = run.activities.get(note.command)
    if activity is None:
        return
    activity.attempts_failed = note.attempt
    activity.attempt = note.attempt + 1
    activity.retry_at = note.retry_at
    activity.last_failure = note.failure or activity.last_failure
    unclaim(activity)
    activity.beat_details = ABSENT
    activity.failures.append(note)
    limits = state.limits
    if len(activity.failures) > limits.attempt_notes_first + limits.attempt_notes_last:
        del activity.failures[limits.attempt_notes_first]
    if note.command in run.unnoted:
        run.unnoted.remove(note.command)


def _heartbeat_noted(state: WorkflowState, note: nt.HeartbeatNoted) -> None:
    activity = _noted(state, note).activities.get(note.command)
    if activity is not None:
        activity.heartbeat = note.details
        activity.noted_beat_at = note.time


def _seen(state: WorkflowState, note: nt.Seen) -> None:
    run = _noted(state, note)
    cover(run, note.based_on)
    if note.awaits is not None:
        run.awaits, run.awaits_unnoted = note.awaits, None


def _quarantined(state: WorkflowState, note: nt.Quarantined) -> None:
    run = _noted(state, note)
    run.quarantine = note
    run.status = "quarantined"
    if note.build_id and note.build_id not in run.failed_builds:
        run.failed_builds.append(note.build_id)


def _build_refused(state: WorkflowState, note: nt.BuildRefused) -> None:
    _noted(state, note).refused_builds[note.build_id] = note.change_id


def _resumed(state: WorkflowState, note: nt.Resumed) -> None:
    run = _noted(state, note)
    run.quarantine = None
    if not note.by_build:
        run.paused = False
        run.pause_reason = ""
    run.status = "paused" if run.paused else "running"
    if not note.by_build:
        run.failed_builds = []
        run.refused_builds = {}


def _paused(state: WorkflowState, note: nt.Paused) -> None:
    run = _noted(state, note)
    run.paused = True
    run.pause_reason = note.reason
    if run.quarantine is None:
        run.status = "paused"


def _decided_by(state: WorkflowState, note: nt.DecidedBy) -> None:
    _noted(state, note).build_id = note.build_id


def _delivered(state: WorkflowState, note: nt.Delivered) -> None:
    _noted(state, note)
    if state.outgoing is not None:
        for request_id in note.messages:
            state.outgoing.pop(request_id, None)
        state.outgoing = state.outgoing or None
    if state.kin is not None:
        for request_id in note.children:
            state.kin.pop(request_id, None)
        state.kin = state.kin or None


def _plain_note(state: WorkflowState, note: nt.Note) -> None:
    _noted(state, note)


NOTES: Final[dict[type, Callable[[WorkflowState, Any], None]]] = {
    nt.ActivityClaimed: _activity_claimed,
    nt.AttemptFailed: _attempt_failed,
    nt.HeartbeatNoted: _heartbeat_noted,
    nt.Seen: _seen,
    nt.Quarantined: _quarantined,
    nt.BuildRefused: _build_refused,
    nt.Resumed: _resumed,
    nt.Paused: _paused,
    nt.SignalSetAside: _plain_note,
    nt.DecidedBy: _decided_by,
    nt.Delivered: _delivered,
}
