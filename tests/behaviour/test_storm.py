"""Many runs at once with everything mixed: activities that fail, signals, timers, cancels, continue-as-new, workers that come and go.

Whatever the interleaving, every run ends with the answer that can be worked out beforehand, and its history replays (see conftest).
"""

import asyncio
import random
from contextlib import suppress
from typing import Any

import pytest

from perdure import Retry, Worker, activity, workflow
from perdure.errors import WorkflowCancelled, WorkflowClosed

SWIFT = Retry(initial=0.001, jitter=0)


@activity(retry=SWIFT)
async def add(a: int, b: int, rounds: int) -> int:
    for _ in range(rounds):
        await asyncio.sleep(0)
    return a + b


@activity(retry=SWIFT)
async def wobbly(n: int) -> int:
    if activity.info().attempt <= n % 3:
        raise RuntimeError("again")
    return n


@activity
def on_thread(n: int) -> int:
    return n


async def branch(n: int) -> int:
    total = 0
    for k in range(4):
        kind = workflow.random().randrange(5)
        if kind == 0:
            total += await add(n, k, workflow.random().randrange(6)) - n - k
        elif kind == 1:
            total += await wobbly(k) - k
        elif kind == 2:
            total += await on_thread(k) - k
        elif kind == 3:
            await asyncio.sleep(workflow.random().random() / 200)
        else:
            task = asyncio.create_task(add(1, 2, 50))
            await asyncio.sleep(workflow.random().random() / 500)
            task.cancel()
            await asyncio.wait([task])
        total += 1
    return total


@workflow
async def mixed(width: int, signals: int) -> list[int]:
    heard: list[int] = []

    async def listen() -> None:
        while len(heard) < signals:
            heard.append(await workflow.receive("n", int))

    listening = asyncio.create_task(listen())
    totals = await asyncio.gather(*(branch(n) for n in range(width)))
    await listening
    return [sum(totals), *heard]


@workflow  # noqa: RET503 – continue_as_new never returns
async def rolling(total: int, seen: list[int]) -> list[int]:
    """Continues as new with work under way and signals in the line."""
    abandoned = asyncio.create_task(add(1, 1, 30))
    pause = asyncio.create_task(asyncio.sleep(60))
    for _ in range(1 + workflow.random().randrange(4)):
        seen = [*seen, await workflow.receive("n", int)]
        await add(1, 1, workflow.random().randrange(3))
        if len(seen) == total:
            return seen
    if workflow.random().random() < 0.5:
        abandoned.cancel()
        pause.cancel()
    workflow.continue_as_new(total, seen)


@workflow
async def cancellable() -> str:
    cleaned = 0
    try:
        while True:
            await asyncio.gather(add(1, 1, 2), asyncio.sleep(0.002), wobbly(1))
    except asyncio.CancelledError:
        cleaned = await add(1, 1, 1)
        if workflow.random().random() < 0.5:
            return f"cleaned {cleaned}"
        raise


async def send(app: Any, id: str, count: int, chance: random.Random) -> None:
    for n in range(count):
        await app.client.handle(id).signal("n", n, signal_id=f"{id}-{n}")
        if chance.random() < 0.15:
            await app.client.handle(id).signal("n", n, signal_id=f"{id}-{n}")
        for _ in range(chance.randrange(20)):
            await asyncio.sleep(0)


async def storm(app: Any, seed: int) -> None:
    chance = random.Random(seed)

    async def one_mixed(n: int) -> None:
        handle = await app.client.start(mixed(4, 6), id=f"mixed-{n}")
        await send(app, handle.id, 6, chance)
        assert await handle.result() == [16, *range(6)]

    async def one_rolling(n: int) -> None:
        handle = await app.client.start(rolling(15, []), id=f"rolling-{n}")
        await send(app, handle.id, 15, chance)
        assert await handle.result() == list(range(15))

    async def one_cancelled(n: int) -> None:
        handle = await app.client.start(cancellable(), id=f"cancelled-{n}")
        for _ in range(chance.randrange(200)):
            await asyncio.sleep(0)
        await handle.cancel()
        with suppress(WorkflowCancelled):
            assert await handle.result() == "cleaned 2"
        with pytest.raises(WorkflowClosed):
            await handle.signal("n", 1)

    async with asyncio.TaskGroup() as group:
        for n in range(8):
            group.create_task(one_mixed(n))
            group.create_task(one_rolling(n))
            group.create_task(one_cancelled(n))
    assert app.frontend.sweeper.repaired == 0  # nothing had to wait for a sweep


EVERYTHING = (mixed, rolling, cancellable, add, wobbly, on_thread)


@pytest.mark.rule("F16")
@pytest.mark.parametrize("seed", [1, 2])
async def test_everything_at_once(any_house, record_property, seed: int) -> None:
    """Warm, cold and unfused; ~15 % of signals sent twice."""
    record_property("seed", seed)
    async with any_house(*EVERYTHING) as app:
        await storm(app, seed)


@pytest.mark.parametrize("seed", [3, 4])
async def test_everything_at_once_on_a_small_worker(house, record_property, seed: int) -> None:
    """Two runs held warm, three slots."""
    record_property("seed", seed)
    async with house(*EVERYTHING, max_cached_runs=2, max_activities=3) as app:
        await storm(app, seed)


@pytest.mark.rule("O36")
@pytest.mark.parametrize("seed", [5, 6])
async def test_everything_at_once_on_many_workers(house, record_property, seed: int) -> None:
    """Four workers on one queue, of which one comes and goes all the while: runs move between them, warm runners become stale."""
    record_property("seed", seed)
    kinds: dict[str, Any] = {"workflows": EVERYTHING[:3], "activities": EVERYTHING[3:]}
    async with (
        house(*EVERYTHING) as app,
        Worker(app.client, **kinds),
        Worker(app.client, max_activities=2, max_cached_runs=3, **kinds),
    ):
        done = asyncio.Event()

        async def comes_and_goes() -> None:
            while not done.is_set():
                async with Worker(app.client, **kinds):
                    for _ in range(100):
                        await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            group.create_task(comes_and_goes())
            await storm(app, seed)
            done.set()
