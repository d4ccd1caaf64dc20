"""What a node tells about itself, on a whole node: figures that agree with its store, and news of what became durable."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

import perdure
from perdure import Retry, activity, workflow
from perdure.core.overview import NewsItem, QueueFigures
from perdure.node import Node


@activity(retry=Retry(initial=0.001, max_attempts=2))
async def flaky() -> int:
    if activity.info().attempt == 1:
        raise OSError("the secret of the house")
    return 1


@workflow
async def tries() -> int:
    return await flaky()


@workflow
async def waits() -> str:
    return await workflow.receive("go", str)


@workflow
async def strays(wrong: bool = False) -> None:
    import time

    await workflow.receive("go", str)
    time.sleep(0.001)  # noqa: ASYNC251  that is the point


@workflow  # noqa: RET503 – continue_as_new never returns
async def twice(left: int = 1) -> int:
    if not left:
        return 0
    workflow.continue_as_new(left - 1)


gate: dict[str, asyncio.Event] = {}


@activity
async def held() -> None:
    gate["in"].set()
    await gate["out"].wait()


@workflow
async def holds() -> None:
    await held()


def told(app: Node, reader: Any) -> list[NewsItem]:
    return list(reader.take(1_000))


def kinds(items: list[NewsItem], workflow_id: str) -> list[str]:
    return [item.kind for item in items if item.workflow_id == workflow_id]


def activities(app: Node) -> QueueFigures:
    return next(line for line in app.frontend.overview.queues() if line.kind == "activity")


async def soon(holds: Callable[[], Any]) -> None:
    """Look until it holds: what no commit tells of."""
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110  nothing tells of it
            await asyncio.sleep(0.002)


@pytest.mark.rule("O33")
async def test_a_run_is_told_from_its_start_to_its_end(any_house) -> None:
    """Started, an attempt that failed with the activity's name, closed: in order, once each, without what the failure says."""
    async with any_house(tries, flaky) as app:
        reader = app.frontend.news.read()
        await app.client.execute(tries(), id="t")
        items = told(app, reader)
        assert kinds(items, "t") == ["run.started", "activity.failed", "run.closed"]
        started, failed, closed = (item for item in items if item.workflow_id == "t")
        assert {started.workflow_type, failed.workflow_type, closed.workflow_type} == {"tries"}
        assert failed.details["activity"] == "flaky"
        assert failed.details["attempt"] == 1
        assert not failed.details["final"]
        assert closed.details == {"status": "completed"}
        assert "secret" not in repr(items)


async def test_continuing_is_an_end_and_a_start(any_house) -> None:
    """The chain is told run by run, and nothing but the last run is open in between."""
    async with any_house(twice) as app:
        reader = app.frontend.news.read()
        await app.client.execute(twice(), id="c")
        items = [item for item in told(app, reader) if item.workflow_id == "c"]
        assert [item.kind for item in items] == ["run.started", "run.closed", "run.started", "run.closed"]
        assert items[1].details == {"status": "continued", "next_run_id": items[2].run_id}
        assert app.frontend.overview.stats().closed == {"continued": 1, "completed": 1}


async def test_what_is_told_is_durable(house) -> None:
    """Law `ordered`: at the moment a start or a close is told, the store holds it."""
    async with house(waits) as app:
        tell, store, seen = app.frontend.news.tell, app.store, []

        def checked(item: Any) -> None:
            _, kind, namespace, workflow_id, *_ = item
            if kind.startswith("run."):
                assert store.may_hold(namespace, workflow_id)
                seen.append(kind)
            tell(item)

        app.frontend.news.tell = checked
        handle = await app.client.start(waits(), id="w")
        await handle.signal("go", "on")
        await handle.result()
        assert seen == ["run.started", "run.closed"]


async def test_open_runs_are_counted_by_status_over_a_restart(house) -> None:
    """Running, paused and quarantined ones, as listings say; the same after the node came back, and after they ended."""
    async with house(waits, strays) as app:
        handles = [await app.client.start(waits(), id=f"w{n}") for n in range(4)]
        await handles[0].pause()
        stray = await app.client.start(strays(), id="s")
        reader = app.frontend.news.read()
        await stray.signal("go", "x")
        while "run.quarantined" not in kinds(told(app, reader), "s"):
            await reader.more()
        before = app.frontend.overview.stats().open
        assert (before.running, before.paused, before.quarantined, before.runs) == (3, 1, 1, 5)
    async with house(waits, strays, replays=False) as app:
        after = app.frontend.overview.stats()
        assert replace(after.open, parked=0) == replace(before, parked=0)
        assert after.started == 0
        await app.client.handle("w0").resume()
        await app.client.handle("w1").terminate("enough")
        await app.client.handle("s").terminate("enough")
        left = app.frontend.overview.stats().open
        assert (left.running, left.paused, left.quarantined) == (3, 0, 0)


@pytest.mark.rule("F22")
async def test_parked_runs_are_counted_and_cost_no_look(house) -> None:
    """Runs that are parked are still open and running; the figures say how many are not in memory."""
    async with house(waits, limits=perdure.Limits(idle_runs_kept=0)) as app:
        app.frontend.parking.hurry(1_000)
        for n in range(20):
            await app.client.start(waits(), id=f"w{n}")
        await soon(lambda: app.frontend.overview.stats().open.parked == 20)
        assert app.frontend.overview.stats().open.running == 20
        await app.client.handle("w3").signal("go", "x")
        await app.client.handle("w3").result()
        assert app.frontend.overview.stats().open.running == 19


async def test_workers_and_queues_as_they_stand(house) -> None:
    """A worker with its slots and what it has in hand; what waits for it, and for how long; its coming and going are news."""
    gate["in"], gate["out"] = asyncio.Event(), asyncio.Event()
    async with house(holds, held, max_activities=1) as app:
        first = await app.client.start(holds(), id="first")
        await gate["in"].wait()
        reader = app.frontend.news.read()
        second = await app.client.start(holds(), id="second")
        overview = app.frontend.overview
        await soon(lambda: activities(app).waiting)
        line = activities(app)
        (worker,) = overview.workers()
        assert (worker.slots, worker.in_hand, worker.queues, worker.remote) == (1, 1, ("default",), False)
        assert (line.queue, line.waiting, line.workers) == ("default", 1, 1)
        assert overview.stats().queued == 1
        await asyncio.sleep(0.01)
        assert activities(app).oldest_s > line.oldest_s >= 0
        async with perdure.Worker(app.client, queue="other", workflows=[waits]):
            assert {worker.queues for worker in overview.workers()} == {("default",), ("other",)}
        assert [item.kind for item in told(app, reader) if item.kind.startswith("worker.")] == [
            "worker.connected",
            "worker.left",
        ]
        assert len(overview.workers()) == 1
        gate["out"].set()
        await first.result()
        await second.result()
        assert overview.workers()[0].in_hand == 0


async def test_a_reset_run_tells_only_what_is_new(house) -> None:
    """Copied events are not told again: the new run is started once, and a signal that was copied is no news."""
    async with house(waits) as app:
        handle = await app.client.start(waits(), id="w")
        await handle.signal("go", "x")
        await handle.result()
        history = await handle.history()
        reader = app.frontend.news.read()
        again = await handle.reset(len(history) - 1, "once more")
        await again.result()
        assert kinds(told(app, reader), "w") == ["run.started", "run.closed"]


async def test_stopping_is_told_last(house) -> None:
    """Who reads on while the node stops hears of it, takes what is left, and ends."""
    async with house(waits) as app:
        await app.client.start(waits(), id="w")
        reader = app.frontend.news.read()
    assert await reader.more()
    assert "node.stopping" in [item.kind for item in reader.take(100)]
    assert not await reader.more()
