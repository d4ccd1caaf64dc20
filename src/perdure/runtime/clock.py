"""The real clock: the wall clock as it was at the start, carried on by the monotonic one, so that it never goes backwards.

Steps of the wall clock (a suspended machine, an operator, NTP's first correction) are followed: forwards at once, backwards by running
at nine tenths of the speed until the two agree again. So it is over a restart too: `not_before` says what time has been reached already.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

LOOK_NS: Final = 1_000_000_000
"""The wall clock is looked at this often (when anybody asks for the time)."""
TOLERANCE_NS: Final = 20_000_000
"""Differences up to this are left alone."""
NAP_US: Final = 60_000_000
"""An alarm far off looks at the clock this often: a loop's timers stand still while the machine is suspended."""
FAR_AHEAD_NS: Final = 24 * 3600 * 1_000_000_000
"""Time that an earlier process has reached and that lies further ahead of the wall clock than this is followed too, and reported."""

log: Final = logging.getLogger(__name__)


class RealClock:
    """`ports.Clock` of a process. `call_at` and `sleep` need a running loop."""

    def __init__(self, *, wall: Callable[[], int] = time.time_ns, monotonic: Callable[[], int] = time.monotonic_ns) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._since = monotonic()
        self._origin = wall()
        self._tenths = 10

    def now(self) -> int:
        elapsed = self._monotonic() - self._since
        now = self._origin + elapsed * self._tenths // 10
        return (now if elapsed < LOOK_NS else self._look(elapsed, now)) // 1000

    def not_before(self, instant: int) -> None:
        """Go on from `instant` (microseconds) at the slow speed until the wall clock has caught up, if that is behind.

        However far behind it is: the time of a run never goes back. More than a day is most likely a wrong clock, and is said.
        """
        ahead = instant * 1000 - self._wall()
        if ahead <= 0 or self.now() >= instant:
            return
        if ahead > FAR_AHEAD_NS:
            log.warning(
                "the wall clock is %d hours behind the newest time in the journal; time goes on from there, a tenth slower, "
                "until it has caught up: was one of the two clocks wrong?",
                ahead // (3600 * 1_000_000_000),
            )
        self._since = self._monotonic()
        self._origin = instant * 1000
        self._tenths = 9 if ahead > TOLERANCE_NS else 10

    def _look(self, elapsed: int, now: int) -> int:
        """Begin a new stretch at `now` (nanoseconds), at the speed that brings this clock nearer to the wall clock."""
        ahead = now - self._wall()
        self._since += elapsed
        self._origin = now if ahead >= -TOLERANCE_NS else now - ahead
        self._tenths = 9 if ahead > TOLERANCE_NS else 10
        return self._origin

    def call_at(self, instant: int, callback: Callable[[], None]) -> "Alarm":
        """Call back at or after `instant`; in the loop's next round when that has passed."""
        return Alarm(self, asyncio.get_running_loop(), instant, callback)

    async def sleep(self, duration: int) -> None:
        """Wait at least `duration` microseconds; 0 and less give other tasks a turn."""
        if duration <= 0:
            await asyncio.sleep(0)
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Cancelled in the very round in which the alarm rings, the sleeper is done already.
        alarm = self.call_at(self.now() + duration, lambda: None if done.done() else done.set_result(None))
        try:
            await done
        finally:
            alarm.cancel()


class Alarm:
    """One call of `call_at`. Asks the clock again when the loop wakes it, so it is never early, however the loop rounds."""

    __slots__ = ("_callback", "_clock", "_handle", "_instant", "_loop")

    def __init__(self, clock: RealClock, loop: asyncio.AbstractEventLoop, instant: int, callback: Callable[[], None]) -> None:
        self._clock = clock
        self._loop = loop
        self._instant = instant
        self._callback = callback
        self._handle: asyncio.Handle = self._wait(instant - clock.now())

    def _wait(self, remaining: int) -> asyncio.Handle:
        if remaining <= 0:
            return self._loop.call_soon(self._ring)
        return self._loop.call_later(min(remaining, NAP_US) / 1_000_000, self._ring)

    def _ring(self) -> None:
        remaining = self._instant - self._clock.now()
        if remaining > 0:
            self._handle = self._wait(remaining)
        else:
            self._callback()

    def cancel(self) -> None:
        """The callback is not called any more. Idempotent."""
        self._handle.cancel()
