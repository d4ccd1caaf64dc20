"""Tasks on their way to workers in other processes. One that is not claimed soon is offered again, to another worker if there is one.

A wire may break with a task in it, and a worker may be frozen with one in its hands. A task handed over within this process is not
looked after here: it cannot get lost on the way.
"""

from collections.abc import Callable
from typing import Final

from perdure.core.tasks import CancelNotice, Task
from perdure.ports import Clock, Deliver

CLAIMED_WITHIN_US: Final = 1_000_000
"""A task not claimed by then is offered again; twice as late the next time, and so on."""
PATIENCE_US: Final = 60_000_000
"""The longest time between two offers."""
TICK_US: Final = 250_000
NEVER: Final = 1 << 62

Name = tuple[str, int, int]


class _Handed:
    __slots__ = ("due", "task", "tries", "worker")

    def __init__(self, task: Task, worker: str, tries: int, due: int) -> None:
        self.task = task
        self.worker = worker
        self.tries = tries
        self.due = due


class Handed:
    """`is_unclaimed` says whether a task still waits for its claim; `again(task, worker)` offers it anew, `worker` having done nothing."""

    def __init__(self, clock: Clock, is_unclaimed: Callable[[Task], bool], again: Callable[[Task, str], None]) -> None:
        self._clock = clock
        self._is_unclaimed = is_unclaimed
        self._again = again
        self._handed: dict[Name, _Handed] = {}
        self._armed = False
        self.repeated = 0
        """How often a task was offered again."""

    def __len__(self) -> int:
        return len(self._handed)

    def holds(self, task: Task) -> bool:
        """True while the task is with a worker that has time left to claim it."""
        entry = self._handed.get((task.run_id, task.command, task.attempt))
        return entry is not None and entry.due != NEVER

    def watched(self, worker: str, deliver: Deliver) -> Deliver:
        """What delivers to a worker in another process, and remembers it for a while."""

        def hand(item: Task | CancelNotice) -> None:
            if type(item) is Task and not item.query:  # whoever asks a query asks again by himself
                self._remember(item, worker)
            deliver(item)

        return hand

    def gone(self, worker: str) -> None:
        """A worker is gone: what it was handed and has not claimed is offered to others at once."""
        for entry in [entry for entry in self._handed.values() if entry.worker == worker]:
            self._look(entry)

    def _remember(self, task: Task, worker: str) -> None:
        name = (task.run_id, task.command, task.attempt)
        before = self._handed.get(name)
        tries = before.tries + 1 if before is not None and before.due == NEVER else 0
        wait = min(CLAIMED_WITHIN_US << min(tries, 10), PATIENCE_US)
        self._handed[name] = _Handed(task, worker, tries, self._clock.now() + wait)
        if not self._armed:
            self._arm()

    def _arm(self) -> None:
        self._armed = True
        self._clock.call_at(self._clock.now() + TICK_US, self._tick)

    def _tick(self) -> None:
        self._armed = False
        now = self._clock.now()
        for name, entry in list(self._handed.items()):
            if not self._is_unclaimed(entry.task):
                if self._handed.get(name) is entry:
                    del self._handed[name]
            elif entry.due <= now:
                self._look(entry)
        if self._handed and not self._armed:
            self._arm()

    def _look(self, entry: _Handed) -> None:
        task = entry.task
        if self._is_unclaimed(task):
            self.repeated += 1
            entry.due = NEVER  # until it is handed over again: where there is nobody to take it, it waits in its line
            self._again(task, entry.worker)
            return
        self._handed.pop((task.run_id, task.command, task.attempt), None)
