"""Was it this request that ended the attempt? Asked of the history when a completion by task token is told again and its token is not known.

The node may have carried it out and died before it could say so; the token is used up then, by the very request that is told again.
"""

from collections.abc import Iterable

from perdure.core.events import ActivityCancelled, ActivityCompleted, ActivityFailed, AnyEvent
from perdure.core.notes import AnyNote, AttemptFailed
from perdure.core.requests import FinishActivity


def has_told(request: FinishActivity, entries: Iterable[AnyEvent | AnyNote]) -> bool:
    """True when a run's events or notes hold what the request says of its attempt."""
    return any(_tells(entry, request) for entry in entries)


def _tells(entry: AnyEvent | AnyNote, request: FinishActivity) -> bool:
    if isinstance(entry, ActivityCompleted):
        same = request.failure is None and bytes(entry.result) == bytes(request.result)
    elif isinstance(entry, (ActivityFailed, ActivityCancelled, AttemptFailed)):
        same = request.failure is not None and entry.failure == request.failure
    else:
        return False
    return same and entry.command == request.command and entry.attempt == request.attempt
