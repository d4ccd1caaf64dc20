"""Who is at an activity: set by a note, or ahead of it by a volatile entry."""

from perdure.core import notes as nt
from perdure.core.state import ActivityState


def claim(activity: ActivityState, note: nt.ActivityClaimed) -> None:
    """A worker has taken an attempt."""
    activity.attempt = note.attempt
    activity.claim = note
    activity.beat_at = max(activity.beat_at, note.time)
    if note.outside:
        activity.lives_for = 0  # its worker gives no more signs of life for it


def unclaim(activity: ActivityState) -> None:
    """Nobody is at it any more."""
    activity.claim = None
    activity.claim_noted = False
    activity.beat_at = activity.alive_at = activity.lives_for = activity.spared_until = 0
