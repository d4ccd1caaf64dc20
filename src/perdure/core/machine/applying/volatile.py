"""Volatile entries: they touch volatile fields only."""

from collections.abc import Callable
from typing import Any, Final

from perdure.core import volatile as vo
from perdure.core.machine.applying.claim import claim, unclaim
from perdure.core.machine.applying.places import run_of
from perdure.core.state import WorkflowState


def _claim_held(state: WorkflowState, entry: vo.WorkflowClaimHeld) -> None:
    run_of(state).claim = entry.claim


def _claim_ended(state: WorkflowState, _entry: vo.WorkflowClaimEnded) -> None:
    run_of(state).claim = None


def _close_refused(state: WorkflowState, _entry: vo.CloseRefused) -> None:
    run_of(state).close_refusals += 1


def _seen_to(state: WorkflowState, entry: vo.SeenTo) -> None:
    run = run_of(state)
    run.seen = max(run.seen, entry.based_on)
    if entry.awaits is not None:
        run.awaits_unnoted = entry.awaits


def _claim_unnoted(state: WorkflowState, entry: vo.ClaimUnnoted) -> None:
    run = run_of(state)
    activity = run.activities[entry.note.command]
    claim(activity, entry.note)
    activity.lives_for = entry.lives_for
    run.unnoted.append(entry.note.command)


def _claim_life(state: WorkflowState, entry: vo.ClaimLife) -> None:
    activity = run_of(state).activities.get(entry.command)
    if activity is not None:
        activity.lives_for = entry.lives_for


def _claim_released(state: WorkflowState, entry: vo.ClaimReleased) -> None:
    run = run_of(state)
    unclaim(run.activities[entry.command])
    if entry.command in run.unnoted:
        run.unnoted.remove(entry.command)


def _beat(state: WorkflowState, entry: vo.Beat) -> None:
    activity = run_of(state).activities[entry.command]
    activity.beat_at = entry.at
    if bytes(entry.details):
        activity.beat_details = entry.details


def _alive(state: WorkflowState, entry: vo.Alive) -> None:
    run_of(state).activities[entry.command].alive_at = entry.at


def _taken_over(state: WorkflowState, entry: vo.TakenOver) -> None:
    for activity in run_of(state).activities.values():
        activity.spared_until = entry.at + entry.lives_for
        claim = activity.claim
        if claim is None:
            continue
        activity.beat_at = entry.at  # while there was no owner nobody could be heard
        if not claim.outside and not claim.incarnation:
            activity.lives_for = entry.lives_for


def _delay_over(state: WorkflowState, _entry: vo.DelayOver) -> None:
    run_of(state).delayed_until = 0


def _held_warm(state: WorkflowState, entry: vo.HeldWarm) -> None:
    run_of(state).sticky = entry.worker


VOLATILE: Final[dict[type, Callable[[WorkflowState, Any], None]]] = {
    vo.WorkflowClaimHeld: _claim_held,
    vo.WorkflowClaimEnded: _claim_ended,
    vo.CloseRefused: _close_refused,
    vo.SeenTo: _seen_to,
    vo.ClaimUnnoted: _claim_unnoted,
    vo.ClaimLife: _claim_life,
    vo.ClaimReleased: _claim_released,
    vo.Beat: _beat,
    vo.Alive: _alive,
    vo.TakenOver: _taken_over,
    vo.HeldWarm: _held_warm,
    vo.DelayOver: _delay_over,
}
