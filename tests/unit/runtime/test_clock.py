"""The real clock: never backwards, never early, and still the wall clock's in the end."""

import asyncio
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.runtime.clock import RealClock

SECOND = 1_000_000_000


class Times:
    """A wall clock and a monotonic one, moved by hand (nanoseconds)."""

    def __init__(self) -> None:
        self.wall = 1_700_000_000 * SECOND
        self.monotonic = 5 * SECOND

    def clock(self) -> RealClock:
        return RealClock(wall=lambda: self.wall, monotonic=lambda: self.monotonic)

    def pass_(self, nanoseconds: int) -> None:
        self.wall += nanoseconds
        self.monotonic += nanoseconds


def test_it_starts_at_the_wall_clock_and_goes_on_with_it() -> None:
    """Microseconds since the epoch."""
    times = Times()
    clock = times.clock()
    assert clock.now() == times.wall // 1000
    for _ in range(50):
        times.pass_(SECOND // 7)
        assert clock.now() == times.wall // 1000


def test_a_step_forward_is_followed() -> None:
    """After a suspended night it is morning."""
    times = Times()
    clock = times.clock()
    times.wall += 8 * 3600 * SECOND
    times.pass_(SECOND)
    assert clock.now() == times.wall // 1000


def test_a_step_back_is_caught_up_slowly() -> None:
    """An hour too much is lost at a tenth of the speed, without ever going back or standing still."""
    times = Times()
    clock = times.clock()
    times.pass_(SECOND)
    clock.now()
    times.wall -= 60 * SECOND
    before = clock.now()
    for _ in range(700):
        times.pass_(SECOND)
        now = clock.now()
        assert now >= before + 900_000
        before = now
    assert abs(clock.now() - times.wall // 1000) <= 120_000


@given(st.lists(st.tuples(st.integers(0, 3 * SECOND), st.integers(-100 * SECOND, 100 * SECOND) | st.just(0)), max_size=60))
def test_it_never_goes_backwards(steps) -> None:
    """Whatever happens to the wall clock."""
    times = Times()
    clock = times.clock()
    before = clock.now()
    for passed, step in steps:
        times.pass_(passed)
        times.wall += step
        now = clock.now()
        assert now >= before
        before = now


def test_alarms_are_never_early() -> None:
    """However the loop rounds, the clock has reached the instant when the callback runs."""

    async def run() -> None:
        clock = RealClock()
        loop = asyncio.get_running_loop()
        for delay in (0, 1, 37, 999, 1001, 2500):
            instant = clock.now() + delay
            rung: asyncio.Future[int] = loop.create_future()
            clock.call_at(instant, lambda rung=rung: rung.set_result(clock.now()))
            assert await rung >= instant
            began = clock.now()
            await clock.sleep(delay)
            assert clock.now() >= began + delay

    asyncio.run(run())


def test_an_alarm_asks_the_clock_again_when_it_rings() -> None:
    """A loop that wakes it while this clock is behind makes it wait on."""

    async def run() -> None:
        times = Times()
        clock = times.clock()
        rung = asyncio.Event()
        clock.call_at(clock.now() + 1, rung.set)
        await asyncio.sleep(0.005)  # the loop's own time passes, this clock's does not
        assert not rung.is_set()
        times.pass_(SECOND)
        await asyncio.wait_for(rung.wait(), 5)

    asyncio.run(run())


def test_a_cancelled_alarm_stays_silent() -> None:
    """Also when its instant has passed already; and a sleep that is cancelled leaves none behind."""

    async def run() -> None:
        clock = RealClock()
        rung: list[int] = []
        alarm = clock.call_at(0, lambda: rung.append(1))
        alarm.cancel()
        alarm.cancel()
        sleeper = asyncio.ensure_future(clock.sleep(10))
        await asyncio.sleep(0)
        sleeper.cancel()
        await clock.sleep(2000)
        assert not rung
        assert sleeper.cancelled()

    asyncio.run(run())


def test_a_sleeper_may_be_cancelled_as_its_alarm_rings() -> None:
    """Both in one round of the loop: it is cancelled, and nobody hears of the alarm."""
    faults: list[Any] = []

    async def both() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: faults.append(context))
        sleeper = loop.create_task(RealClock().sleep(1_000))
        await asyncio.sleep(0)
        loop.call_later(0, sleeper.cancel)
        time.sleep(0.01)  # noqa: ASYNC251 – the loop is late: it finds both due
        with pytest.raises(asyncio.CancelledError):
            await sleeper

    asyncio.run(both())
    assert not faults


def test_time_that_an_earlier_process_reached_does_not_come_again(caplog) -> None:
    """It goes on from there, slowly until the wall clock has caught up; more than a day is followed too, and said."""
    times = Times()
    clock = times.clock()
    reached = times.wall // 1000 + 10_000_000
    clock.not_before(reached)
    assert clock.now() == reached
    times.pass_(SECOND // 2)
    assert clock.now() == reached + 450_000
    for _ in range(120):
        times.pass_(SECOND)
        clock.now()
    assert abs(clock.now() - times.wall // 1000) <= 120_000
    clock.not_before(reached)
    assert clock.now() > reached
    assert not caplog.records
    clock.not_before(times.wall // 1000 + 25 * 3600 * 1_000_000)
    assert "25 hours behind" in caplog.text
    assert clock.now() >= times.wall // 1000 + 25 * 3600 * 1_000_000
