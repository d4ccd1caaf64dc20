"""What waits costs nothing: not the others who want to move, not the store, and not the memory when it is over."""

import asyncio
import gc
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

import perdure
from perdure import activity, workflow
from perdure.core.shards import SHARDS
from perdure.engine import owner
from perdure.engine.live import LiveWorkflow
from perdure.replay.runner import Runner
from perdure.testing import environment


@activity
async def step(n: int) -> int:
    return n + 1


@workflow
async def waits(n: int) -> int:
    return await workflow.receive("go", int)


@workflow
async def moves(n: int) -> int:
    return await step(await step(n))


@workflow
async def sleeps(days: int) -> str:
    await asyncio.sleep(days * 86_400)
    return "awake"


@pytest.mark.scenario(40)
@pytest.mark.scenario(88)
async def test_thousands_who_wait_are_in_nobodys_way(house) -> None:
    """One slot, one warm run: 2,000 runs wait for a signal, each with a client that waits for its result, and another run goes through."""
    options: dict[str, Any] = {"memory": True, "replays": False, "max_activities": 1, "max_cached_runs": 1}
    async with house(waits, moves, step, **options) as app:
        handles = [await app.client.start(waits(n), id=f"w{n}") for n in range(2_000)]
        waiting = [asyncio.create_task(handle.result()) for handle in handles]
        for n in range(20):
            assert await app.client.execute(moves(n), id=f"m{n}") == n + 2
        assert not any(task.done() for task in waiting)
        await asyncio.gather(*(handle.signal("go", n) for n, handle in enumerate(handles)))
        assert await asyncio.gather(*waiting) == list(range(2_000))


@pytest.mark.scenario(86)
async def test_a_system_at_rest_asks_its_store_for_nothing() -> None:
    """Fifty runs wait, for signals, for a timer days ahead, for a queue nobody serves; over six hours nothing is written and nothing read."""
    async with environment() as env:
        env.register(waits, sleeps, moves, step)
        for n in range(20):
            await env.client.start(waits(n), id=f"w{n}")
            await env.client.start(sleeps(30), id=f"s{n}")
        for n in range(10):
            await env.client.start(moves(n), id=f"n{n}", queue="nobody")
        await env.advance(60)
        store: Any = env._node.store
        asked: Counter[str] = Counter()
        for name in ("commit", "load", "record", "runs", "count", "open_workflows", "waking", "census"):
            setattr(store, name, _counted(getattr(store, name), name, asked))
        await env.advance(6 * 3_600)
        assert asked["waking"] <= 6 * 60  # the wake-ups of parked runs: no more than once a minute
        del asked["waking"]
        assert not asked
        await env.client.handle("w1").signal("go", 7)
        assert await env.client.handle("w1").result() == 7
        assert asked["commit"] >= 1


def _counted(call: Any, name: str, asked: Counter[str]) -> Any:
    def counted(*args: Any, **options: Any) -> Any:
        asked[name] += 1
        return call(*args, **options)

    return counted


@pytest.mark.scenario(95)
async def test_memory_does_not_grow_with_what_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of runs that have closed each shard keeps a few: as many after two hundred as after eight hundred, and no runner at all."""
    monkeypatch.setattr(owner, "CLOSED_KEPT", 1)

    def alive() -> list[object]:
        gc.collect()
        return [thing for thing in gc.get_objects() if isinstance(thing, LiveWorkflow | Runner)]

    others = alive()  # of nodes that tests before this one have left to whatever still refers to them

    def held() -> Counter[str]:
        return Counter(type(thing).__name__ for thing in alive() if not any(thing is other for other in others))

    async with environment() as env:
        env.register(moves, step)
        counts = []
        done = 0
        for size in (200, 600):
            for n in range(done, done + size):
                await env.client.execute(moves(n), id=f"m{n}")
            done += size
            await env.advance(timedelta(days=8))  # ids of requests are remembered for seven
            counts.append(held())
        assert counts[0]["LiveWorkflow"] <= SHARDS
        assert counts[1]["LiveWorkflow"] <= SHARDS
        assert counts[1]["Runner"] == counts[0]["Runner"] <= 1


@workflow
async def looks_at_classes() -> list[bool]:
    now = datetime.now(UTC)
    return [
        type(now) is datetime,
        type(date.today()) is date,  # noqa: DTZ011
        type(workflow.now()) is datetime,
        issubclass(datetime, date),
        isinstance(now, date),
        type(now + timedelta(1)) is datetime,
        type(perdure.Retry()) is perdure.Retry,
        RECORD(at=now).at is now,
    ]


class RECORD:
    """A class as libraries have it: checks types when an instance is made."""

    def __init__(self, at: datetime) -> None:
        if type(at) is not datetime:
            raise TypeError(type(at))
        self.at = at


@pytest.mark.scenario(102)
async def test_classes_are_in_workflows_what_they_are_outside(any_house) -> None:
    """Nothing is imported anew or put in another's place: the class of a time, of a date and of one's own objects is the one everybody has."""
    async with any_house(looks_at_classes) as app:
        assert all(await app.client.execute(looks_at_classes()))
