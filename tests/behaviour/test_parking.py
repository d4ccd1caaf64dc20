"""Runs that only wait are let go of from memory, and go on as if they had never left when a signal, a timer or a request comes."""

import asyncio
from pathlib import Path

from msgspec.structs import replace

import perdure
from perdure import activity, workflow
from perdure.core.limits import LIMITS
from perdure.engine.parking import Parking
from perdure.node import Node
from perdure.store.index.schema import INDEX_FILE
from perdure.store.journal import JournalStore
from perdure.testing import environment

SPARSE = replace(LIMITS, idle_runs_kept=0)
DAY = 86_400


@workflow
async def waits(times: int = 1) -> list[str]:
    return [await workflow.receive("go", str) for _ in range(times)]


@workflow
async def sleeps(seconds: float) -> float:
    before = workflow.time()
    await asyncio.sleep(seconds)
    return workflow.time() - before


@workflow
async def gives_up(seconds: float) -> str:
    try:
        async with asyncio.timeout(seconds):
            return await workflow.receive("go", str)
    except TimeoutError:
        return "gave up"


@workflow
class Counter:
    def __init__(self) -> None:
        self.total = 0

    @workflow.run
    async def run(self) -> int:
        await workflow.receive("end")
        return self.total

    @workflow.query
    def sum(self) -> int:
        return self.total

    @workflow.update
    async def add(self, amount: int) -> int:
        self.total += amount
        return self.total


@activity
async def blocks() -> None:
    await asyncio.Event().wait()


@workflow
async def works() -> None:
    await blocks()


@workflow
async def has_a_child(id: str) -> list[str]:
    child = await workflow.start_child(waits(), id=id)
    return await child


def node(path: Path) -> Node:
    app = perdure.embedded(path, limits=SPARSE, grace=0.0)
    app.register(waits, sleeps, gives_up, Counter, works, has_a_child, blocks)
    return app


async def parked(app: Node, *ids: str, parking: Parking | None = None) -> None:
    """Look until these runs are not in memory: once to see them, once to write down what is only remembered, once to let go."""
    looks = parking or app.frontend.parking
    for _ in range(50):
        await looks.look()
        await app.frontend.settled()
        if not any(app.frontend.find("default", id) for id in ids):
            return
        await asyncio.sleep(0)
    raise AssertionError(f"{ids} stay in memory")


async def test_a_signal_to_a_parked_run(tmp_path: Path) -> None:
    """It is loaded, goes on, and can be parked again; nothing but `seen` notes tells of it."""
    async with node(tmp_path) as app:
        handle = await app.client.start(waits(3), id="w")
        for word in ("a", "b"):
            await parked(app, "w")
            assert list(app.frontend.live_workflows()) == []
            await handle.signal("go", word)
        await parked(app, "w")
        waiting = asyncio.ensure_future(handle.result())
        await handle.signal("go", "c")
        assert await waiting == ["a", "b", "c"]
        types = {entry.type for entry in await handle.history(notes=True) if entry.is_note}
        assert types <= {"seen", "decided_by"}


async def test_a_parked_run_that_no_worker_holds_warm(tmp_path: Path) -> None:
    """Its code is replayed from what was written."""
    async with node(tmp_path) as app:
        handle = await app.client.start(waits(2), id="w")
        await handle.signal("go", "a")
        await parked(app, "w")
        app.worker.let_go()
        app.worker.begin()
        await handle.signal("go", "b")
        assert await handle.result() == ["a", "b"]


async def test_requests_of_every_kind_reach_a_parked_run(tmp_path: Path) -> None:
    """Describe, query, update, pause and cancel find it as it was."""
    async with node(tmp_path) as app:
        counter = await app.client.start(Counter.run(), id="c")
        assert await counter.update(Counter.add(2)) == 2
        await parked(app, "c")
        assert await counter.query(Counter.sum()) == 2
        await parked(app, "c")
        assert await counter.update(Counter.add(3)) == 5
        await parked(app, "c")
        described = await counter.describe()
        assert (described.status, [(item.kind, item.name) for item in described.pending]) == ("running", [("signal", "end")])
        await parked(app, "c")
        await counter.pause("for a while")
        await parked(app, "c")
        await counter.resume()
        await parked(app, "c")
        await counter.signal("end", None)
        assert await counter.result() == 5
        handle = await app.client.start(waits(), id="w")
        await parked(app, "w")
        await handle.cancel()
        assert (await handle.describe()).status in {"running", "cancelled"}
        await app.client.start(waits(), id="w", on_conflict="terminate")


async def test_the_timer_of_a_parked_run() -> None:
    """It fires when it is due, to the microsecond, though nothing of the run was in memory; and a timeout that a signal made pointless does not."""
    async with environment() as env:
        env.register(sleeps, gives_up)
        app = env._node
        app.frontend.parking._kept = 0
        long = await env.client.start(sleeps(30 * DAY), id="long")
        late = await env.client.start(gives_up(10 * DAY), id="late")
        in_time = await env.client.start(gives_up(10 * DAY), id="in time")
        await env.idle()
        await parked(app, "long", "late", "in time")
        await in_time.signal("go", "thanks")
        assert await in_time.result() == "thanks"
        assert await long.result() == 30 * DAY
        assert await late.result() == "gave up"
        history = await late.history()
        assert (history[-1].time - history[0].time).total_seconds() == 10 * DAY
        assert app.frontend.sweeper.repaired == 0


async def test_a_run_that_wakes_soon_or_has_something_under_way_stays(tmp_path: Path) -> None:
    """Near timers, running activities, children, and results that are waited for keep runs in memory."""
    async with node(tmp_path) as app:
        client = app.client
        await client.start(sleeps(30), id="soon")
        await client.start(works(), id="works")
        await client.start(has_a_child("child"), id="parent")
        watched = await client.start(waits(), id="watched")
        waiting = asyncio.ensure_future(watched.result())
        await client.start(waits(), id="idle")
        await parked(app, "idle")
        for _ in range(5):
            await app.frontend.parking.look()
            await app.frontend.settled()
        held = {live.state.workflow_id for live in app.frontend.live_workflows()}
        assert held == {"soon", "works", "parent", "child", "watched"}
        await watched.signal("go", "x")
        assert await waiting == ["x"]


async def test_a_restart_loads_nothing_that_waits(tmp_path: Path) -> None:
    """After a stop, and after a death behind which the index knew: parked runs are not read, and go on when asked."""
    async with node(tmp_path) as app:
        for n in range(20):
            await app.client.start(waits(), id=f"w-{n}")
        await app.client.start(sleeps(3 * DAY), id="sleeps")
    async with node(tmp_path) as app:
        assert isinstance(app.store, JournalStore)
        assert app.store.recovery.lines == 0
        assert list(app.frontend.live_workflows()) == []
        assert await app.client.count("status = 'running'") == 21
        handle = app.client.handle("w-3", workflow=waits)
        await handle.signal("go", "on")
        assert await handle.result() == ["on"]
        pending = (await app.client.handle("sleeps").describe()).pending
        assert [item.kind for item in pending] == ["timer"]
    async with node(tmp_path) as app:
        assert list(app.frontend.live_workflows()) == []
        assert await app.client.count("status = 'running'") == 20
    (tmp_path / INDEX_FILE).unlink()
    async with node(tmp_path) as app:
        assert len(list(app.frontend.live_workflows())) == 20
        await app.client.handle("w-4").signal("go", "on")
        assert await app.client.handle("w-4").result() == ["on"]


async def test_a_few_idle_runs_are_kept(tmp_path: Path) -> None:
    """Parking costs a line a run: it begins when there are many."""
    app = perdure.embedded(tmp_path, limits=replace(LIMITS, idle_runs_kept=3))
    app.register(waits)
    async with app:
        for n in range(5):
            await app.client.start(waits(), id=f"w-{n}")
        for _ in range(10):
            await app.frontend.parking.look()
            await app.frontend.settled()
        assert len(list(app.frontend.live_workflows())) == 3
