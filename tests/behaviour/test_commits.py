"""One durable write per step: commits are counted, journal lines are the transitions, and a group is synced once."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import Retry, activity, workflow
from perdure.broker.inprocess import InProcessBroker
from perdure.errors import WorkflowAlreadyStarted, WorkflowClosed
from perdure.node import Node
from perdure.runtime.chance import RealChance
from perdure.runtime.clock import RealClock
from perdure.runtime.files import LocalFiles
from perdure.store.journal.store import JournalStore


@activity
async def step(n: int) -> int:
    return n


@activity
def threaded(n: int) -> int:
    return n


TRIED: list[int] = []


@activity(retry=Retry(initial=0.001))
async def fails_once() -> str:
    TRIED.append(1)
    if len(TRIED) % 2:
        raise RuntimeError("first")
    return "second"


@workflow
async def steps(count: int) -> int:
    for n in range(count):
        await step(n)
    return count


@workflow
async def threads(count: int) -> int:
    for n in range(count):
        await threaded(n)
    return count


@workflow
async def nothing() -> None:
    pass


@workflow
async def both() -> int:
    return sum(await asyncio.gather(step(1), step(2)))


@workflow
async def retried() -> str:
    return await fails_once()


@workflow
async def naps() -> None:
    await asyncio.sleep(0.01)


@workflow
async def waits() -> str:
    return await workflow.receive("go", str)


def written(app: Any) -> int:
    return app.frontend.committer.transitions


@pytest.mark.parametrize(
    ("call", "commits"),
    [
        (nothing(), 1),
        (steps(1), 2),
        (steps(2), 3),
        (steps(7), 8),
        (threads(3), 4),
        (naps(), 3),
        (both(), 3),
    ],
    ids=["none", "one step", "two", "seven", "three on threads", "a timer", "two at once"],
)
async def test_commits_of_a_run(house, call: Any, commits: int) -> None:
    """N sequential steps are N + 1 commits: the minimum. The journal holds exactly these lines."""
    async with house(nothing, steps, threads, both, naps, step, threaded) as app:
        await app.client.execute(call)
        assert written(app) == commits
        assert app.frontend.committer.groups <= commits
    lines = [json.loads(line) for line in (house.data / "journal" / "00000001.jsonl").read_text().splitlines()]
    assert sum("t" in line for line in lines) == commits


async def test_a_retry_is_one_more_commit(house) -> None:
    """The failed attempt is a note of its own; the rest is as for one step."""
    TRIED.clear()
    async with house(retried, fails_once) as app:
        assert await app.client.execute(retried()) == "second"
        assert written(app) == 3


async def test_a_signal_costs_its_own_commit_and_the_decision_another(house) -> None:
    """start · signal · close."""
    async with house(waits) as app:
        handle = await app.client.start(waits())
        before = written(app)
        await handle.signal("go", "now")
        await handle.result()
        assert written(app) - before == 2


async def test_what_changes_nothing_costs_nothing(house) -> None:
    """Duplicates, rejections, reads."""
    async with house(waits, steps, step) as app:
        client = app.client
        handle = await client.start(waits(), id="w", request_id="r")
        await handle.signal("other", 1, signal_id="s")
        done = await client.start(steps(1), id="d", request_id="rd")
        await done.result()
        await handle.describe()
        before = written(app)
        await handle.signal("other", 1, signal_id="s")
        await client.start(waits(), id="w", request_id="r")
        await client.start(steps(1), id="d", request_id="rd")
        await client.start(waits(), id="w", on_conflict="attach")
        with pytest.raises(WorkflowAlreadyStarted):
            await client.start(waits(), id="w")
        with pytest.raises(WorkflowAlreadyStarted):
            await client.start(steps(1), id="d", reuse="never")
        with pytest.raises(WorkflowClosed):
            await done.signal("x")
        with pytest.raises(WorkflowClosed):
            await done.cancel()
        await handle.describe()
        await handle.history(notes=True)
        await client.count()
        await client.list()
        assert written(app) == before
        await handle.terminate()


class CountingFiles:
    """The real disk, counting appends: each is written whole and synced once."""

    def __init__(self, directory: Path) -> None:
        self.files = LocalFiles(directory)
        self.appends = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.files, name)

    def open_append(self, name: str, *, room: int = 0) -> Any:
        file, outer = self.files.open_append(name, room=room), self

        class Counted:
            size = property(lambda self: file.size)

            async def append(self, data: bytes) -> None:
                outer.appends += 1
                await file.append(data)

            def close(self) -> None:
                file.close()

        return Counted()


@pytest.mark.rule("F23")
async def test_one_sync_a_group(house, t, monkeypatch) -> None:
    """However many runs move at once, a group is one append and one fdatasync; together they need far fewer than commits."""
    from perdure.runtime import files as real

    synced = []
    sync = real.sync
    monkeypatch.setattr(real, "sync", lambda descriptor: (synced.append(descriptor), sync(descriptor)))
    disk = CountingFiles(house.data)
    clock, chance = RealClock(), RealChance()
    node = Node(JournalStore(disk, clock, chance), InProcessBroker(), clock, chance)
    async with node as app:
        app.register(steps, step)
        appends, syncs = disk.appends, len(synced)
        await asyncio.gather(*(app.client.execute(steps(3)) for _ in range(40)))
        committer = app.frontend.committer
        assert committer.transitions == 160
        assert disk.appends - appends == len(synced) - syncs
        assert committer.groups <= disk.appends - appends <= committer.groups + 1
        assert committer.groups < 80


async def test_a_run_goes_on_in_the_next_life_without_a_commit_for_it(house, t) -> None:
    """Starting over a parked run writes nothing."""
    async with house(waits) as app:
        handle = await app.client.start(waits(), id="parked")
        await handle.describe()
    async with perdure.embedded(house.data) as app:
        app.register(waits)
        before = written(app)
        assert (await app.client.handle("parked").describe()).status == "running"
        await app.client.handle("parked").signal("go", "on")
        assert await app.client.handle("parked").result() == "on"
        assert written(app) - before == 2
