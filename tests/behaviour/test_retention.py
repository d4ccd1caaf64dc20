"""Closed runs past their keep time under a running node: they go, their ids can be used again, everything else goes on."""

import asyncio

import pytest

import perdure
from perdure import activity, workflow
from perdure.core.errors import NotFound
from perdure.runtime.chance import RealChance
from perdure.runtime.files import LocalFiles
from perdure.store.journal import JournalStore


@workflow
async def talks(name: str) -> str:
    return name + await workflow.receive("go")


arrived: list[asyncio.Event] = []


@activity
async def tell() -> None:
    arrived[-1].set()


@workflow
async def goes_on(left: int) -> str:
    if left:
        workflow.continue_as_new(left - 1)
    await tell()
    return await workflow.receive("go")


async def test_dropped_runs_are_gone_and_open_ones_go_on(house) -> None:
    """Compacted while it serves: listings, ids and restarts know only what is kept; runs that are open end as they would have."""
    async with house(talks, goes_on, tell) as app:
        for number in range(30):
            handle = await app.client.start(talks(str(number)), id=f"w{number}")
            if number % 3:
                await handle.signal("go", "!")
                await handle.result(timeout=20)
        arrived.append(asyncio.Event())
        await app.client.start(goes_on(4), id="chain")
        await arrived[-1].wait()
        open_before = {f"w{number}" for number in range(0, 30, 3)} | {"chain"}
        done = await app.store.compact(0, share=0.0)
        assert done.runs >= 21
        assert {row.workflow_id async for row in app.client.list()} == open_before
        with pytest.raises(NotFound):
            await app.client.handle("w1").history()
        again = await app.client.start(talks("again"), id="w1")
        for name in ("w0", "w1", "chain"):
            await app.client.handle(name).signal("go", "?")
        assert await again.result(timeout=20) == "again?"
        assert await app.client.handle("w0").result(timeout=20) == "0?"
        assert await app.client.handle("chain").result(timeout=20) == "?"
    async with house(talks, goes_on, tell) as app:
        assert {row.workflow_id async for row in app.client.list()} == open_before | {"w1"}
        await app.client.handle("w3").signal("go", "?")
        assert await app.client.handle("w3").result(timeout=20) == "3?"


class Instant:
    """A clock on which waiting takes no time, a bounded number of times."""

    def __init__(self, sleeps: int) -> None:
        self.left = sleeps
        self.slept = asyncio.Event()

    def now(self) -> int:
        return 10**16

    def not_before(self, instant: int) -> None:
        pass

    def call_at(self, instant, callback):
        raise NotImplementedError

    async def sleep(self, duration: int) -> None:
        self.left -= 1
        if self.left < 0:
            self.slept.set()
            await asyncio.Event().wait()


@pytest.mark.scenario(93)
async def test_a_store_keeps_house_by_itself_until_it_is_closed(house) -> None:
    """Every now and then what is past the keep time is dropped; closing ends that, and waits for it."""
    async with house(talks, replays=False) as app:
        handle = await app.client.start(talks("a"), id="a")
        await handle.signal("go", "!")
        await handle.result(timeout=20)
        await app.client.start(talks("b"), id="b")
    clock = Instant(2)
    store = JournalStore(LocalFiles(house.data), clock, RealChance(), retention=1_000)
    await store.open()
    await clock.slept.wait()
    assert await store.record("default", "a") is None
    assert await store.record("default", "b") is not None
    await store.close()


@pytest.mark.parametrize("retention", [-1, 0, "30d", float("nan")])
def test_a_keep_time_must_be_one(tmp_path, retention) -> None:
    """Refused at once, by name."""
    with pytest.raises(perdure.errors.InvalidArgument, match="retention"):
        perdure.embedded(tmp_path, retention=retention)
