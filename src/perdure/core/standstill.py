"""Why an open run does not move, in words: what stands in its way, or that only somebody outside can move it. Reads state alone."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from perdure.core.state import RunState

if TYPE_CHECKING:
    from perdure.core.description import Pending

Served: TypeAlias = Callable[[str, Literal["workflow", "activity"]], bool]
"""Whether anybody takes tasks of a kind from a queue."""

_MOVES_BY_ITSELF = frozenset({"activity", "timer", "child", "external_signal", "external_cancel", "decision", "start"})
_MOVED_FROM_OUTSIDE = frozenset({"signal", "condition", "update"})


def reasons(run: RunState, now: int, pending: Sequence["Pending"], served: Served) -> tuple[str, ...]:
    """Why nobody moves the run; nothing while somebody does, or while what it waits for comes by itself."""
    return tuple(_reasons(run, now, pending, served))


def _reasons(run: RunState, now: int, pending: Sequence["Pending"], served: Served) -> Iterator[str]:
    if run.quarantine is not None:
        build = run.quarantine.build_id
        other = f"a build other than {build}" if build else "another build"
        yield f"it is quarantined: {other} goes on with it, or the same one after `perdure workflow resume`"
    if run.paused:
        why = f" ({run.pause_reason})" if run.pause_reason else ""
        yield f"it is paused{why}: `perdure workflow resume` ends that"
    yield from _undecided(run, served)
    yield from _unclaimed(run, now, served)
    kinds = {item.kind for item in pending}
    if not kinds & _MOVES_BY_ITSELF and run.quarantine is None and not run.paused:
        yield _from_outside(run, pending, kinds)


def _undecided(run: RunState, served: Served) -> Iterator[str]:
    """There is an input, and nobody has the claim to decide on it."""
    if not run.wants_decision or run.claim is not None:
        return
    queue = run.started.queue
    for build, change in run.refused_builds.items():
        lacks = f"does not know the change {change!r}" if change else "lacks its code"
        yield f"build {build} {lacks}: a newer build goes on with it"
    if not served(queue, "workflow"):
        yield f"no worker takes workflow tasks of queue {queue!r}"


def _unclaimed(run: RunState, now: int, served: Served) -> Iterator[str]:
    waiting = [activity for activity in run.activities.values() if activity.claim is None and activity.retry_at <= now]
    queues = {activity.event.queue or run.started.queue: activity.event for activity in waiting}
    for queue, event in queues.items():
        if not served(queue, "activity"):
            yield f"no worker takes activity tasks of queue {queue!r}, on which {event.name!r} (event {event.id}) waits"


def _from_outside(run: RunState, pending: Sequence["Pending"], kinds: set[str]) -> str:
    if not kinds & _MOVED_FROM_OUTSIDE:
        return "no activity, timer or child is pending: only a signal, an update or a cancel moves it"
    names = [f"{item.name!r}" for item in pending if item.kind == "signal"]
    waits = f"nobody has sent the signal {' or '.join(names)}" if names else "only a signal, an update or a cancel moves it"
    return f"{waits} since event {run.seen_to}"
