"""Slots of a worker: one count of all it has taken on, so that `max_activities` holds whatever way an activity comes.

A slot is taken when an activity task is delivered, or kept for a claim that a report may bring back; it is freed when the attempt has
ended (a sync one: when its thread is free) or there is none after all. Credits that the broker holds are the slots nobody has taken:
taking one that no delivery paid for takes a credit back.
"""

from collections import deque
from collections.abc import Callable

from perdure.core.tasks import Task


class Slots:
    """`limit` slots. `grant(n)` gives the broker credits, or takes them back; `claim(task)` is called once a delivered task has a slot."""

    __slots__ = ("_claim", "_grant", "_parked", "limit", "taken")

    def __init__(self, limit: int, grant: Callable[[int], None], claim: Callable[[Task], None]) -> None:
        self.limit = limit
        self.taken = 0
        self._grant = grant
        self._claim = claim
        self._parked: deque[Task] = deque()
        """Delivered while their credit was being taken back, as it happens over a wire. They wait here, unclaimed, for a slot."""

    def delivered(self, task: Task) -> None:
        """A task came, paid for with a credit."""
        if self.taken < self.limit:
            self.taken += 1
            self._claim(task)
        else:
            self._parked.append(task)

    def reserve(self, wanted: int) -> int:
        """Take up to `wanted` slots for claims that a reply may bring; returns how many."""
        room = min(wanted, self.limit - self.taken)
        if room <= 0:
            return 0
        self.taken += room
        self._grant(-room)
        return room

    def free(self, count: int) -> None:
        """Give `count` slots back."""
        if count:
            self.taken -= count
            self._grant(count)
            while self._parked and self.taken < self.limit:
                self.taken += 1
                self._claim(self._parked.popleft())
