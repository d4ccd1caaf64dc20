"""What is due when: one heap for every wake of every run, one timer of the clock for the earliest.

A wake that no longer matters is not taken out at once; bringing it is harmless, the machine says so. When the heap has grown to twice
what still mattered the last time, it is looked through, so it stays in proportion. Nothing here is durable: at start-up it is rebuilt
from state, and the sweeper proves from state that nothing is missing.

When the clock calls late, this process was asleep (a suspended machine, a blocked loop) and could hear nobody: what judges workers elsewhere
by their silence then waits until they have had the time to be heard.
"""

import heapq
from collections.abc import Callable
from itertools import count
from typing import Final

from perdure.core.requests import ActivityDue, AnyRequest, WorkflowClaimDue
from perdure.core.tasks import Task
from perdure.ports import Clock, Wake

SMALL: Final = 500
"""A heap up to this size is left as it is."""
LATE: Final = 100_000
"""Microseconds. A clock that calls later than that was asleep."""


class TimerQueue:
    """Brings each request or task to `bring` at or after its instant, never before, ties in the order they were added.

    `is_live` says whether bringing it could still matter. `spare` is how long workers have, in microseconds, to be heard after a sleep.
    """

    def __init__(
        self,
        clock: Clock,
        bring: Callable[[AnyRequest | Task], None],
        is_live: Callable[[AnyRequest | Task], bool],
        spare: int = 0,
    ) -> None:
        self._clock = clock
        self._bring = bring
        self._is_live = is_live
        self._spare = spare
        self._spared_until = -spare
        self._full_at = SMALL
        self._heap: list[tuple[int, int, AnyRequest | Task]] = []
        self._serial = count()
        self._wake: Wake | None = None
        self._wake_at = 0
        self._armed_at = 0
        self._stopped = False

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, instant: int, target: AnyRequest | Task) -> None:
        heapq.heappush(self._heap, (instant, next(self._serial), target))
        if len(self._heap) > self._full_at:
            self._drop_dead()
            if not self._heap:
                return
        if not self._stopped and (self._wake is None or instant < self._wake_at):
            self._arm()

    def bring_overdue(self, target: AnyRequest | Task) -> None:
        """Bring what somebody else found overdue: its wake was lost, or this process was asleep."""
        now = self._clock.now()
        if _judges_silence(target):
            self._has_slept(now)
            if now < self._spared_until:
                self.add(self._spared_until, target)
                return
        self._bring(target)

    def _has_slept(self, now: int) -> None:
        # After each period that spares comes one that does not: a node that is always late finds the dead too.
        if now >= self._spared_until + self._spare:
            self._spared_until = now + self._spare

    def stop(self) -> None:
        self._stopped = True
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None

    def _drop_dead(self) -> None:
        self._heap = [entry for entry in self._heap if self._is_live(entry[2])]
        heapq.heapify(self._heap)
        self._full_at = max(SMALL, 2 * len(self._heap))

    def _arm(self) -> None:
        if self._wake is not None:
            self._wake.cancel()
        self._wake_at = self._heap[0][0]
        self._armed_at = self._clock.now()
        self._wake = self._clock.call_at(self._wake_at, self._due)

    def _due(self) -> None:
        self._wake = None
        now = self._clock.now()
        if now - max(self._wake_at, self._armed_at) > LATE:
            self._has_slept(now)
        while self._heap and self._heap[0][0] <= now and not self._stopped:
            _, serial, target = heapq.heappop(self._heap)
            if now < self._spared_until and _judges_silence(target):
                heapq.heappush(self._heap, (self._spared_until, serial, target))
            else:
                self._bring(target)
        if self._heap and not self._stopped and self._wake is None:
            self._arm()


def _judges_silence(target: AnyRequest | Task) -> bool:
    """True for what takes a claim from a worker elsewhere that shows no sign of life."""
    return isinstance(target, WorkflowClaimDue) or (isinstance(target, ActivityDue) and target.kind == "lost")
