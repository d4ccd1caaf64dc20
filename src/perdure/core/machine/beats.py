"""Signs of life of activity claims, and claims presented to an owner that has just taken the run over and does not know them.

A beat writes nothing but the heartbeat details, now and then, and once the claim itself, if that is not written yet: a claim that
outlives its first beat outlives its owner too.
"""

from perdure.core.machine.activities import MICRO, granted
from perdure.core.machine.outcome import Decided, Draft, only
from perdure.core.machine.targets import current_run
from perdure.core.notes import ActivityClaimed, HeartbeatNoted
from perdure.core.payload import is_absent
from perdure.core.replies import Beaten
from perdure.core.requests import HeartbeatActivity
from perdure.core.state import ActivityState, WorkflowState
from perdure.core.volatile import Alive, Beat, ClaimLife


def heartbeat(state: WorkflowState, request: HeartbeatActivity, now: int) -> Decided:
    """Keep the claim, if it is the claim; else say that nobody wants what its worker does."""
    run = current_run(state, request)
    activity = run.activities.get(request.command) if run is not None else None
    if run is None or activity is None:
        return only(Beaten(wanted=False))
    claim, draft = activity.claim, Draft(state, run, now)
    if claim is None and request.worker and may_be_adopted(activity, request.attempt, now):
        claim = _adopt(draft, activity, request)
    elif claim is None or claim.token != request.token:
        return only(Beaten(wanted=False))
    elif activity.lives_for and not activity.claim_noted:
        draft.note(_written(draft, claim))
    if is_absent(request.details) and not claim.outside:
        draft.volatile.append(Alive(request.command, now))
    else:
        draft.volatile.append(Beat(request.command, now, request.details))
        _note_details(draft, activity, request)
    return draft.outcome(Beaten(wanted=True, cancelled=activity.cancel_requested))


def may_be_adopted(activity: ActivityState, attempt: int, now: int) -> bool:
    """True when a claim the owner does not know may be one of before it took the run over, that was never written.

    Every end of a claim but its being given back unused is written and makes the next attempt another number. So whoever has something
    to say of this attempt had its claim; the first to say it is believed, while nobody has claimed the attempt anew.
    """
    return activity.claim is None and attempt == activity.attempt and now < activity.spared_until


def _adopt(draft: Draft, activity: ActivityState, request: HeartbeatActivity) -> ActivityClaimed:
    """Take a claim over, and write it: this owner may not be the last the worker outlives."""
    since = activity.retry_at or activity.since
    note = ActivityClaimed(
        id=draft.next_note,
        time=min(max(request.claimed_at, since), draft.now) if request.claimed_at else draft.now,
        after=draft.length,
        command=request.command,
        attempt=activity.attempt,
        worker=request.worker,
        token=request.token,
    )
    draft.note(note)
    lives_for = request.lives_for or int(draft.state.limits.claim_lives_s * MICRO)
    draft.volatile.append(ClaimLife(request.command, lives_for))
    granted(draft, activity.event, note, activity, lives_for)
    return note


def _written(draft: Draft, claim: ActivityClaimed) -> ActivityClaimed:
    """A claim that only memory holds, as a note."""
    return ActivityClaimed(
        id=draft.next_note,
        time=claim.time,
        after=draft.length,
        command=claim.command,
        attempt=claim.attempt,
        worker=claim.worker,
        token=claim.token,
        incarnation=claim.incarnation,
    )


def _note_details(draft: Draft, activity: ActivityState, request: HeartbeatActivity) -> None:
    interval = int(draft.state.limits.heartbeat_note_s * MICRO)
    if is_absent(request.details) or draft.now - activity.noted_beat_at < interval:
        return
    draft.note(
        HeartbeatNoted(
            id=draft.next_note,
            time=draft.time,
            after=draft.length,
            command=request.command,
            attempt=activity.attempt,
            details=request.details,
        )
    )
