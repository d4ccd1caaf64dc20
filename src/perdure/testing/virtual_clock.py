"""Time that stands still until it is told to move: `ports.Clock` for tests. It reads no real clock and starts no timer.

Whoever owns it moves it (`jump`); what fell due is then called, in order. It never moves by itself and never goes backwards.
"""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count


class VirtualWake:
    """One call of `VirtualClock.call_at`."""

    __slots__ = ("callback", "is_background")

    def __init__(self, callback: Callable[[], None], *, is_background: bool) -> None:
        self.callback: Callable[[], None] | None = callback
        self.is_background = is_background

    def cancel(self) -> None:
        """The callback is not called any more. Idempotent."""
        self.callback = None


class VirtualClock:
    """Microseconds since the epoch, starting at `start`.

    What waits with `sleep` is housekeeping that looks at the time now and then: it is woken when time has moved past it, once for one
    jump, but is no reason to move it (`next_due` leaves it out).
    """

    def __init__(self, start: int) -> None:
        self._now = start
        self._serial = count()
        self._heap: list[tuple[int, int, VirtualWake]] = []
        self._background: list[tuple[int, int, VirtualWake]] = []

    def now(self) -> int:
        return self._now

    def not_before(self, instant: int) -> None:
        """Stand at `instant` at least; nothing that waits is called for it."""
        self._now = max(self._now, instant)

    def call_at(self, instant: int, callback: Callable[[], None]) -> VirtualWake:
        """Call back in the first jump that reaches `instant`; one that has passed is due in the next jump, wherever it goes."""
        return self._push(self._heap, instant, callback, is_background=False)

    async def sleep(self, duration: int) -> None:
        """Wait at least `duration` microseconds of virtual time; 0 and less give other tasks a turn."""
        if duration <= 0:
            await asyncio.sleep(0)
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        due = self._now + duration
        wake = self._push(self._background, due, lambda: None if done.done() else done.set_result(None), is_background=True)
        try:
            await done
        finally:
            wake.cancel()

    def _push(
        self, heap: list[tuple[int, int, VirtualWake]], instant: int, callback: Callable[[], None], *, is_background: bool
    ) -> VirtualWake:
        wake = VirtualWake(callback, is_background=is_background)
        heapq.heappush(heap, (instant, next(self._serial), wake))
        return wake

    def next_due(self) -> int | None:
        """The earliest instant for which something waits; None when nothing does."""
        heap = self._heap
        while heap and heap[0][2].callback is None:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def __len__(self) -> int:
        """Instants something waits for, also those that were given up."""
        return len(self._heap)

    def jump(self, instant: int) -> None:
        """Move to `instant` (not backwards) and call what is due by then, by instant, ties in the order they were asked for."""
        self._now = max(self._now, instant)
        due = [*self._take(self._heap), *self._take(self._background)]
        for _, _, wake in sorted(due, key=lambda entry: entry[:2]):
            callback, wake.callback = wake.callback, None
            if callback is not None:
                callback()

    def _take(self, heap: list[tuple[int, int, VirtualWake]]) -> list[tuple[int, int, VirtualWake]]:
        taken: list[tuple[int, int, VirtualWake]] = []
        while heap and heap[0][0] <= self._now:
            taken.append(heapq.heappop(heap))
        return taken
