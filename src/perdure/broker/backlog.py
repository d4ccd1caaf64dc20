"""Tasks that wait in one line: higher priority first, and within one priority whoever came first.

Strict: while tasks of a higher priority wait, lower ones do, however long. Whoever gives a flood of tasks a high priority starves the rest.
"""

from bisect import insort
from collections import deque

from perdure.core.tasks import Task


class Backlog:
    """At most `limit` tasks. `dropped` counts those that found no room, or made room for a more urgent one."""

    __slots__ = ("_lanes", "_order", "count", "dropped", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0
        self.dropped = 0
        self._lanes: dict[int, deque[Task]] = {}
        """By priority; none is empty."""
        self._order: list[int] = []
        """The priorities there are, highest last."""

    def __len__(self) -> int:
        return self.count

    def add(self, task: Task) -> None:
        """Put a task behind those of its priority. In a full line the newest of the lowest priority goes, if it is lower than this one."""
        if self.count >= self.limit:
            self.dropped += 1
            if not self.count or self._order[0] >= task.priority:
                return
            self._take(self._order[0], last=True)
        self._lane(task.priority).append(task)
        self.count += 1

    def put_back(self, task: Task) -> None:
        """Put a task that was taken before all others of its priority."""
        self._lane(task.priority).appendleft(task)
        self.count += 1

    @property
    def first(self) -> Task | None:
        """The one that is taken next."""
        return self._lanes[self._order[-1]][0] if self.count else None

    def take(self) -> Task:
        """Take the first one; there must be one."""
        return self._take(self._order[-1], last=False)

    def _lane(self, priority: int) -> deque[Task]:
        lane = self._lanes.get(priority)
        if lane is None:
            lane = self._lanes[priority] = deque()
            insort(self._order, priority)
        return lane

    def _take(self, priority: int, *, last: bool) -> Task:
        lane = self._lanes[priority]
        task = lane.pop() if last else lane.popleft()
        self.count -= 1
        if not lane:
            del self._lanes[priority]
            self._order.remove(priority)
        return task
