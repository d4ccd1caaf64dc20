"""Ids a workflow id remembers, so that what comes again is known; oldest first, bounded by number and age."""

from perdure.core.limits import Limits
from perdure.core.state import AcceptedUpdate


def remember(limits: Limits, ids: dict[str, int], key: str, time: int) -> None:
    """Remember an id, and forget what is too old or too much; oldest first."""
    ids.setdefault(key, time)
    oldest_allowed = time - limits.remembered_ids_age_s * 1_000_000
    while ids:
        oldest = next(iter(ids))
        if len(ids) <= limits.remembered_ids_max and ids[oldest] >= oldest_allowed:
            break
        del ids[oldest]


def remember_update(limits: Limits, ids: dict[str, AcceptedUpdate], key: str, accepted: AcceptedUpdate) -> None:
    """As `remember`, for updates. One accepted again (after a reset) counts from then, and its last outcome is the one that is told."""
    ids.pop(key, None)
    ids[key] = accepted
    oldest_allowed = accepted.time - limits.remembered_ids_age_s * 1_000_000
    while ids:
        oldest = next(iter(ids))
        if len(ids) <= limits.remembered_ids_max and ids[oldest].time >= oldest_allowed:
            break
        del ids[oldest]
