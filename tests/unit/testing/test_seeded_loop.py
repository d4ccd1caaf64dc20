"""The loop of the simulation: one seed, one order; virtual time; processes that freeze, thaw and die without running another line."""

import asyncio
import gc
import random

import pytest

from perdure.testing.seeded_loop import DeadlockError, LivelockError, LoopClock, SeededLoop

START = 1_000_000_000


def loop_of(seed=1, **options):
    return SeededLoop.of(random.Random(seed), START, **options)


async def racers(count):
    order = []

    async def run(number):
        await asyncio.sleep(0)
        order.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(run(number))
    return order


def test_the_seed_picks_the_order_and_nothing_else_does():
    """The same seed gives the same order, another one another; without shuffling it is the order of asyncio."""
    assert loop_of(1).run_until_complete(racers(20)) == loop_of(1).run_until_complete(racers(20))
    assert loop_of(1).run_until_complete(racers(20)) != loop_of(2).run_until_complete(racers(20))
    assert loop_of(1, shuffle=False).run_until_complete(racers(20)) == list(range(20))


def test_time_jumps_to_the_next_timer_and_no_further():
    """A day passes at once; what is due earlier comes first; nobody is woken early."""
    loop = loop_of()
    clock = LoopClock(loop)

    async def body():
        rung = []
        clock.call_at(START + 5, lambda: rung.append(loop.now))
        await clock.sleep(86_400_000_000)
        async with asyncio.timeout(10):
            await asyncio.sleep(1.5)
        return rung

    assert loop.run_until_complete(body()) == [START + 5]
    assert loop.now == START + 86_400_000_000 + 1_500_000


def test_a_killed_process_runs_no_further_line():
    """No step, no callback, no `finally`: neither at the kill nor when its coroutines are collected."""
    loop = loop_of()
    ran = []

    async def inner():
        try:
            await asyncio.sleep(10)
        finally:
            ran.append("finally")

    async def victim():
        await inner()
        ran.append("went on")

    async def held(_unawaited):
        await asyncio.sleep(10)

    async def body():
        with loop.inside("victim"):
            loop.create_task(victim())
            loop.create_task(held(victim()))
            loop.call_later(2, ran.append, "callback")
        await asyncio.sleep(1)
        loop.kill("victim")
        with loop.inside("victim"):
            loop.call_soon(ran.append, "late")
        await asyncio.sleep(100)

    loop.run_until_complete(body())
    gc.collect()
    assert ran == []
    assert loop.errors == []


def test_a_frozen_process_stands_still_while_time_goes_on():
    """Its callbacks wait until it is thawed, and are then run."""
    loop = loop_of()
    ran = []

    async def sleeper():
        await asyncio.sleep(1)
        ran.append(loop.time())

    async def body():
        with loop.inside("sleeper"):
            task = loop.create_task(sleeper())
        await asyncio.sleep(0.5)
        loop.freeze("sleeper")
        await asyncio.sleep(9.5)
        assert ran == []
        loop.thaw("sleeper")
        await task

    loop.run_until_complete(body())
    assert ran == [10.0]


def test_what_can_never_end_is_an_error():
    """Nothing ready and no timer; or callbacks for ever at one instant."""

    async def forever():
        await asyncio.get_running_loop().create_future()

    async def busy():
        while True:  # noqa: ASYNC110 – this is the mistake under test
            await asyncio.sleep(0)

    loop = loop_of()
    with pytest.raises(DeadlockError):
        loop.run_until_complete(forever())
    loop.close()
    loop = loop_of()
    with pytest.raises(LivelockError, match="callbacks at one instant"):
        loop.run_until_complete(busy())
    loop.close()


def test_something_can_be_done_between_any_two_callbacks():
    """`trip` counts callbacks: that is how a power cut finds every instant."""
    loop = loop_of()
    tripped = []

    async def body():
        loop.trip(5, lambda: tripped.append((loop.turns, loop.process)))
        for _ in range(20):
            await asyncio.sleep(0)

    loop.run_until_complete(body())
    assert tripped == [(6, "world")]


def test_errors_nobody_looked_at_are_kept():
    """A task of the living that failed unseen is a finding; there are no threads to hide in."""
    loop = loop_of()

    async def fails():
        raise ValueError("unseen")

    async def body():
        task = loop.create_task(fails())
        await asyncio.sleep(1)
        assert task.done()
        del task
        loop._tasks.clear()
        gc.collect()
        with pytest.raises(RuntimeError, match="no threads"):
            await asyncio.to_thread(print)

    loop.run_until_complete(body())
    assert [error for error in loop.errors if "unseen" in error]
