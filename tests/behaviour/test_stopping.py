"""Leaving in order, and not being able to go on: grace, parked runs, the lock, failed syncs, and caches that are too small."""

import asyncio
import logging
import math
import os
import random
from contextlib import suppress
from typing import Any

import pytest

import perdure
from perdure import Retry, Worker, activity, workflow
from perdure.broker.inprocess import InProcessBroker
from perdure.errors import ActivityError, InvalidArgument, ResourceExhausted, Unavailable
from perdure.node import Node
from perdure.runtime.chance import RealChance
from perdure.runtime.clock import RealClock
from perdure.store.journal.store import JournalStore
from perdure.testing.chance import SeededChance
from perdure.testing.disk import SimulatedFiles
from perdure.worker import attempts

STARTED: dict[str, asyncio.Event] = {}
GATES: dict[str, asyncio.Event] = {}
SEEN: dict[str, list[Any]] = {}


def event(key: str, kind: dict[str, asyncio.Event]) -> asyncio.Event:
    return kind.setdefault(key, asyncio.Event())


@activity
async def step(n: int) -> int:
    return n


@activity
async def hold(key: str) -> str:
    SEEN.setdefault(key, []).append(activity.info().attempt)
    event(key, STARTED).set()
    await event(key, GATES).wait()
    return "held"


@activity
async def leaves_when_asked(key: str) -> str:
    if activity.info().attempt > 1:
        return "after"
    event(key, STARTED).set()
    while not activity.is_stopping():  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    raise RuntimeError("made room")


@activity(retry=Retry(max_attempts=1))
async def once(key: str) -> str:
    SEEN.setdefault(key, []).append(activity.info().attempt)
    event(key, STARTED).set()
    await event(key, GATES).wait()
    return "once"


@workflow
async def holds(key: str) -> list[Any]:
    return [await hold(key), await step(2)]


@workflow
async def leaves(key: str) -> str:
    return await leaves_when_asked(key)


@workflow
async def holds_once(key: str) -> str:
    try:
        return await once(key)
    except ActivityError as error:
        return f"{error.kind} {error.attempts}"


@workflow
async def waits() -> str:
    return await workflow.receive("go", str)


@workflow
async def naps(seconds: float) -> float:
    before = workflow.time()
    await asyncio.sleep(seconds)
    return workflow.time() - before


@workflow
async def steps(count: int) -> int:
    done = 0
    for n in range(count):
        await step(n)
        done += 1
    return done


# ---------------------------------------------------------------------------------------------------------------------- grace


@pytest.mark.scenario(55)
async def test_an_activity_that_ends_within_the_grace_period_is_recorded(house, t) -> None:
    """Its result is written before the store closes; the next life goes on behind it and does not run it again."""
    key = "grace"
    async with house(holds, hold, step, replays=False) as app:
        handle = await app.client.start(holds(key), id=key)
        await event(key, STARTED).wait()
        stopping = asyncio.create_task(app.stop())
        await asyncio.sleep(0)
        assert not stopping.done()
        event(key, GATES).set()
        await stopping
    async with house(holds, hold, step) as app:
        handle = app.client.handle(key)
        assert await handle.result() == ["held", 2]
    assert SEEN[key] == [1]


async def test_an_activity_cut_short_runs_again(house) -> None:
    """Longer than the grace period: cancelled, lost, and run again as the next attempt in the next life."""
    key = "cut"
    async with house(holds, hold, step, grace=0.01, replays=False) as app:
        await app.client.start(holds(key), id=key)
        await event(key, STARTED).wait()
    event(key, GATES).set()
    async with house(holds, hold, step) as app:
        assert await app.client.handle(key).result() == ["held", 2]
    assert SEEN[key] == [1, 2]


async def test_an_activity_of_one_attempt_is_not_run_twice(house) -> None:
    """Cut short, it is lost: its workflow is told so."""
    key = "once"
    async with house(holds_once, once, grace=0.01, replays=False) as app:
        await app.client.start(holds_once(key), id=key)
        await event(key, STARTED).wait()
    async with house(holds_once, once) as app:
        assert await app.client.handle(key).result() == "lost 1"
    assert SEEN[key] == [1]


async def test_activities_see_that_the_worker_drains(house, t) -> None:
    """`is_stopping()` turns true; what it raises then is an ordinary failed attempt."""
    key = "leaves"
    async with house(leaves, leaves_when_asked, replays=False) as app:
        await app.client.start(leaves(key), id=key)
        await event(key, STARTED).wait()
    async with house(leaves, leaves_when_asked) as app:
        handle = app.client.handle(key)
        assert await handle.result() == "after"
        failed = [entry for entry in await handle.history(notes=True) if entry.type == "attempt_failed"]
        assert [entry.failure.message for entry in failed] == ["made room"]


async def test_stopping_while_runs_are_parked(house) -> None:
    """Stopping does not wait for them, tells whoever waits on them, and they go on afterwards; stopping twice is nothing."""
    async with house(waits, naps) as app:
        handles = [await app.client.start(waits(), id=f"w-{n}") for n in range(20)]
        await app.client.start(naps(3_600), id="nap")
        waiting = [asyncio.create_task(handle.result()) for handle in handles]
        await asyncio.sleep(0)
    for task in waiting:
        with pytest.raises(Unavailable):
            await task
    await app.stop()
    with pytest.raises(Unavailable):
        await handles[0].signal("go", "late")
    async with house(waits, naps) as app:
        for handle in handles:
            again = app.client.handle(handle.id)
            await again.signal("go", "on")
            assert await again.result() == "on"
        assert (await app.client.handle("nap").describe()).status == "running"


@pytest.mark.rule("O40")
async def test_a_timer_due_while_everything_was_down_fires_once(house, t) -> None:
    """It fires when the node is back, once."""
    async with house(naps) as app:
        handle = await app.client.start(naps(0.05), id="nap")
        timer = await t.recorded(app, handle, "timer_started")
    clock = RealClock()
    while clock.now() <= timer.due:  # noqa: ASYNC110  nothing of the node runs: only time can pass
        await asyncio.sleep(0.01)
    async with house(naps) as app:
        handle = app.client.handle("nap")
        assert await handle.result() >= 0.05
        assert (await t.types(handle)).count("timer_fired") == 1


async def test_a_worker_that_leaves_loses_nothing(house, t) -> None:
    """Workers of the same queue come and go under load: every run completes, promptly."""
    async with house(queues=["other"]) as app:
        app.registry.register(steps, step)
        handles = [await app.client.start(steps(30)) for _ in range(20)]
        async with asyncio.timeout(8):
            for n in range(6):
                async with Worker(app.client, workflows=[steps], activities=[step], max_activities=5):
                    await t.recorded(app, handles[n], "activity_completed", 3)
            async with Worker(app.client, workflows=[steps], activities=[step]):
                assert [await handle.result() for handle in handles] == [30] * 20


@activity
async def ignores_everything(key: str) -> None:
    event(key, STARTED).set()
    while not event(key, GATES).is_set():
        with suppress(asyncio.CancelledError):
            await event(key, GATES).wait()


@workflow
async def is_ignored(key: str) -> None:
    await ignores_everything(key)


async def test_an_activity_that_ignores_its_cancel_does_not_hold_up_the_end(house, monkeypatch, caplog) -> None:
    """Cut short and not ending: it is named, and the node stops without it."""
    monkeypatch.setattr(attempts, "CUT_S", 0.05)
    async with house(is_ignored, ignores_everything, grace=0.01, replays=False) as app:
        await app.client.start(is_ignored("ignored"))
        await event("ignored", STARTED).wait()
        await asyncio.wait_for(app.stop(), 5)
    assert "ignores_everything" in caplog.text
    event("ignored", GATES).set()


@pytest.mark.parametrize("held", [hold, ignores_everything], ids=lambda held: held.name)
async def test_what_a_leaving_worker_cuts_short_goes_to_another(house, t, monkeypatch, held) -> None:
    """The node lives on, so nobody would find the claim lost: the worker says so, and the next one runs the next attempt."""
    monkeypatch.setattr(attempts, "CUT_S", 0.05)
    key = f"left {held.name}"
    flow = holds if held is hold else is_ignored
    async with house(queues=["other"], replays=False) as app:
        app.registry.register(flow, held, step)
        async with Worker(app.client, workflows=[flow], activities=[held, step], grace=0.01):
            handle = await app.client.start(flow(key), id=key)
            await event(key, STARTED).wait()
        failed = await t.recorded(app, handle, "attempt_failed")
        assert failed.kind == "lost"
        event(key, GATES).set()
        async with Worker(app.client, workflows=[flow], activities=[held, step]):
            assert await handle.result(timeout=5) in (["held", 2], None)
        assert app.frontend.sweeper.repaired == 0


@activity(retry=Retry(max_attempts=1))
async def gives_up_when_asked(key: str) -> None:
    event(key, STARTED).set()
    while not activity.is_stopping():  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    raise ValueError("had to go")


@workflow
async def is_told(key: str) -> str:
    try:
        await gives_up_when_asked(key)
    except ValueError as error:
        return f"told: {error}"
    return "nothing"


async def test_what_a_leaving_worker_reports_last_is_decided_by_another(house) -> None:
    """The run was put aside while its last report was under way: the next worker goes on with what that brought, at once."""
    async with house(queues=["other"]) as app:
        app.registry.register(is_told, gives_up_when_asked)
        async with Worker(app.client, workflows=[is_told], activities=[gives_up_when_asked]):
            handle = await app.client.start(is_told("told"))
            await event("told", STARTED).wait()
        async with Worker(app.client, workflows=[is_told], activities=[gives_up_when_asked]):
            assert await handle.result(timeout=5) == "told: had to go"


# ----------------------------------------------------------------------------------------------------------------- small caches


@pytest.mark.rule("O36")
async def test_a_cache_of_one_run(house) -> None:
    """Far fewer places than runs: all complete, replayed when they come round."""
    async with house(steps, step, max_cached_runs=1, memory=True) as app:
        results = await asyncio.gather(*(app.client.execute(steps(8)) for _ in range(30)))
        assert results == [8] * 30
        assert app.worker.cached_runs <= 30


async def test_one_activity_slot(house) -> None:
    """Slots are given back, also to what waits in the line."""
    async with house(steps, step, max_activities=1, memory=True) as app:
        results = await asyncio.gather(*(app.client.execute(steps(5)) for _ in range(12)))
        assert results == [5] * 12


# ------------------------------------------------------------------------------------------------------------------- one owner


async def test_a_second_node_on_the_directory_is_refused(house) -> None:
    """Unavailable, naming who holds it; afterwards it is free."""
    async with house(waits) as app:
        second = perdure.embedded(house.data)
        with pytest.raises(Unavailable, match=str(os.getpid())):
            await second.start()
        handle = await app.client.start(waits())
        await handle.signal("go", "still here")
        assert await handle.result() == "still here"
    async with house(waits):
        pass


# ------------------------------------------------------------------------------------------------------------------------- disk


def node_on(files: SimulatedFiles) -> Node:
    clock = RealClock()
    return Node(JournalStore(files, clock, SeededChance(7)), InProcessBroker(), clock, RealChance())


async def test_a_failed_sync_ends_the_node(house, t, caplog) -> None:
    """Nothing is acknowledged after it, everything is refused, `failed()` says why; the next life has what was acknowledged."""
    disk = SimulatedFiles(random.Random(3))
    node = node_on(disk)
    caplog.set_level(logging.CRITICAL + 1)
    async with node as app:
        app.register(waits, steps, step)
        kept = await app.client.start(waits(), id="kept")
        waiting = asyncio.create_task(kept.result())
        disk.arm("sync")
        with pytest.raises(Unavailable):
            await app.client.start(waits(), id="doubtful")
        for refused in (app.client.start(waits(), id="later"), kept.signal("go", 1), kept.cancel()):
            with pytest.raises(Unavailable):
                await refused
        with pytest.raises(Unavailable):
            await waiting
        for asked in (kept.result(), kept.describe()):
            with pytest.raises(Unavailable):
                await asyncio.wait_for(asked, 5)
        assert "sync" in str(await asyncio.wait_for(app.failed(), 5))
    disk.crash()
    async with node_on(disk) as app:
        app.register(waits, steps, step)
        handle = app.client.handle("kept")
        await handle.signal("go", "alive")
        assert await handle.result() == "alive"


async def test_a_full_disk_refuses_and_then_goes_on(house, t, caplog) -> None:
    """ResourceExhausted, reads go on, and once there is room everything does; no run is harmed."""
    caplog.set_level(logging.CRITICAL + 1)
    disk = SimulatedFiles(random.Random(3))
    async with node_on(disk) as app:
        app.register(waits, steps, step)
        handle = await app.client.start(waits(), id="w")
        disk.arm("full")
        with pytest.raises(ResourceExhausted):
            await app.client.start(waits(), id="no room")
        assert (await handle.describe()).status == "running"
        disk.arm("full")
        with pytest.raises(ResourceExhausted):
            await handle.signal("go", "lost", signal_id="s")
        await handle.signal("go", "there", signal_id="s")
        assert await handle.result() == "there"
        disk.arm("full", 2)
        assert await app.client.execute(steps(5)) == 5


# ------------------------------------------------------------------------------------------------------------- stop, cut short


def running() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("perdure")]


async def test_a_stop_that_was_cancelled_is_completed_by_the_next(house, t) -> None:
    """It goes on meanwhile, in order; nothing of the node is left running, and whoever waited has heard."""
    key = "stop twice"
    app = perdure.embedded(house.data)
    await app.start()
    app.register(holds, hold, step)
    handle = await app.client.start(holds(key), id=key)
    waiting = asyncio.create_task(handle.result())
    await event(key, STARTED).wait()
    first = asyncio.create_task(app.stop())
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    event(key, GATES).set()
    await app.stop()
    with pytest.raises(Unavailable):
        await waiting
    assert not running()
    async with house(holds, hold, step) as app:
        assert await app.client.handle(key).result() == ["held", 2]


async def test_a_stop_during_the_start_waits_for_it(house) -> None:
    """The node is started, then stopped, and its directory is free again."""
    app = perdure.embedded(house.data)
    starting = asyncio.create_task(app.start())
    await asyncio.sleep(0)
    await app.stop()
    await starting
    assert not running()
    async with house():
        pass


async def test_a_start_that_fails_leaves_nothing_running(house, monkeypatch) -> None:
    """What had been started is stopped again."""
    app = perdure.embedded(house.data)

    async def fails() -> None:
        raise Unavailable("no")

    monkeypatch.setattr(app.frontend.sweeper, "start", fails)
    with pytest.raises(Unavailable, match="no"):
        await app.start()
    assert not running()
    async with house():
        pass


async def test_everything_asked_of_a_stopped_node_is_unavailable(house) -> None:
    """At once, also what would have waited for the run's end."""
    async with house(waits, replays=False) as app:
        handle = await app.client.start(waits(), id="w")
    for asked in (handle.result(), handle.describe(), handle.history(), app.client.count(), handle.signal("go", "x")):
        with pytest.raises(Unavailable):
            await asyncio.wait_for(asked, 5)


@pytest.mark.parametrize("grace", [math.nan, math.inf, -1.0, "long"])
def test_a_grace_that_is_no_length_of_time_is_refused(tmp_path, grace) -> None:
    """At once, and not when the node is to stop."""
    with pytest.raises(InvalidArgument, match="grace"):
        perdure.embedded(tmp_path, grace=grace)
    with pytest.raises(InvalidArgument, match="grace"):
        Worker(perdure.embedded(tmp_path).client, grace=grace)
