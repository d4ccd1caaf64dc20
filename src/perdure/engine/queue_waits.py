"""How long tasks wait in their line, from when they could be claimed to their claim. The instant comes in, nothing is asked of a clock.

Only the last `WINDOW_US` count: however long tasks waited while no worker was there, soon after they are claimed it is forgotten.
"""

from collections import deque
from typing import Final

from perdure.core.tasks import Kind
from perdure.engine.live import LiveWorkflow

WINDOW_US: Final = 3_000_000
"""So long does a wait count after its end."""
LATEST: Final = 512
"""Waits of one line that count at most: the latest."""
LINES_MAX: Final = 1_000
"""Lines measured at a time. Those in which nothing was claimed lately are forgotten when more are claimed from."""


def waiting_since(live: LiveWorkflow | None, run_id: str, command: int, attempt: int) -> int:
    """From when a task waits for its claim, as its run knows it; 0 for one that is not wanted any more."""
    run = live.state.run if live is not None else None
    if live is None or run is None or run.run_id != run_id:
        return 0
    if not command:
        return live.offered_at
    activity = run.activities.get(command)
    if activity is None or activity.claim is not None or activity.attempt != attempt:
        return 0
    return activity.retry_at or activity.since


class LineWaits:
    """The latest waits of one line, and how many of them were longer than a limit (microseconds)."""

    __slots__ = ("_clear_at", "_limit", "_long", "_p99", "_waits")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waits: deque[tuple[int, int]] = deque()
        """When each ended, and how long it was."""
        self._long = 0
        self._clear_at = 0
        """What `verdict` found; 0 when it has to look again."""
        self._p99 = 0

    def add(self, wait: int, now: int) -> None:
        """A task was claimed."""
        self._waits.append((now, wait))
        if wait > self._limit:
            self._long += 1
            self._clear_at = 0
        if len(self._waits) > LATEST:
            self._drop()

    def count(self, now: int) -> int:
        """How many waits count."""
        waits = self._waits
        while waits and now - waits[0][0] >= WINDOW_US:
            self._drop()
        return len(waits)

    def rate(self, now: int) -> float:
        """Claims a second."""
        count = self.count(now)
        span = max(1, now - self._waits[0][0]) if count >= LATEST else WINDOW_US
        return count * 1_000_000 / span

    def p99(self, now: int) -> int:
        """The 99th percentile, by nearest rank; 0 when nothing was claimed lately."""
        count = self.count(now)
        return sorted(wait for _, wait in self._waits)[_rank(count)] if count else 0

    def is_long(self, now: int) -> bool:
        """True when the 99th percentile is above the limit."""
        return self._long > 0 and _is_long(self.count(now), self._long)

    def verdict(self, now: int) -> tuple[int, int]:
        """When it will not be above the limit any more, if no other wait is, and what it is; ask while `is_long`.

        Looked for anew when another long wait has come, so that refusing a flood costs little.
        """
        if self._clear_at <= now:
            self._clear_at, self._p99 = self._found_clear(), self.p99(now)
        return self._clear_at, self._p99

    def _found_clear(self) -> int:
        """The waits that are left as time passes are the latest so many: the most of them that are no longer too long."""
        before, _ = self._waits[-1]
        clear_at = before + WINDOW_US
        long = 0
        for count, (ended, wait) in enumerate(reversed(self._waits)):
            if ended != before and not _is_long(count, long):
                clear_at = ended + WINDOW_US
            before = ended
            long += wait > self._limit
        return clear_at

    def _drop(self) -> None:
        _, wait = self._waits.popleft()
        self._long -= wait > self._limit


def _rank(count: int) -> int:
    return min(count - 1, count * 99 // 100)


def _is_long(count: int, long: int) -> bool:
    return count > 0 and long >= count - _rank(count)


class QueueWaits:
    """Every line's waits. `limit` (microseconds) is that of the 99th percentile."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lines: dict[tuple[str, Kind], LineWaits] = {}

    def __len__(self) -> int:
        """Lines held."""
        return len(self._lines)

    def add(self, queue: str, kind: Kind, wait: int, now: int) -> None:
        """A task was claimed that had waited so long."""
        line = self._lines.get((queue, kind))
        if line is None:
            if len(self._lines) >= LINES_MAX:
                self._lines = {key: held for key, held in self._lines.items() if held.count(now)}
                if len(self._lines) >= LINES_MAX:
                    return
            line = self._lines[queue, kind] = LineWaits(self.limit)
        line.add(wait, now)

    def find(self, queue: str, kind: Kind) -> LineWaits | None:
        """A line; None when nothing was claimed from it."""
        return self._lines.get((queue, kind))

    def rate(self, queue: str, now: int) -> float:
        """Claims a second from both lines of a queue."""
        lines = (self._lines.get((queue, "workflow")), self._lines.get((queue, "activity")))
        return sum(line.rate(now) for line in lines if line is not None)
