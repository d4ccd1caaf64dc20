"""Pausing a run and resuming it, on a whole node."""

import asyncio
from typing import Any

import pytest

from perdure import activity, workflow
from perdure.errors import NotFound, WorkflowClosed, WorkflowTerminated

GATES: dict[str, asyncio.Event] = {}
RAN: list[str] = []


@activity
async def step(name: str) -> str:
    RAN.append(name)
    gate = GATES.get(name)
    if gate is not None:
        await gate.wait()
    return name


@workflow
async def walks(*names: str) -> list[str]:
    return [await step(name) for name in names]


@workflow
async def collects(count: int) -> list[Any]:
    return [await workflow.receive("item") for _ in range(count)]


@workflow
async def goes_round(left: int) -> int:
    await workflow.receive("turn")
    await step(f"turn {left}")
    if left:
        workflow.continue_as_new(left - 1)
    return left


@pytest.fixture(autouse=True)
def _clean() -> None:
    GATES.clear()
    RAN.clear()


@pytest.mark.scenario(33)
async def test_signals_to_a_paused_run_wait_for_it(any_house, t) -> None:
    """None is lost, over a restart too; nothing of it moves before the resume."""
    async with any_house(collects) as app:
        handle = await app.client.start(collects(4), id="p")
        await handle.signal("item", 1)
        await t.decided(app, handle)
        await handle.pause("to look at it")
        await handle.signal("item", 2)
        view = await handle.describe()
        assert view.status == "paused"
        assert [(item.kind, item.state) for item in view.pending] == [("resume", "paused: to look at it")]
        assert await app.client.count(status="paused") == 1
    async with any_house(collects) as app:
        handle = app.client.handle("p", workflow=collects)
        await handle.signal("item", 3)
        await handle.signal("item", 4)
        with pytest.raises(TimeoutError):
            await handle.result(timeout=0.05)
        assert (await handle.describe()).status == "paused"
        await handle.resume()
        assert await handle.result() == [1, 2, 3, 4]
        assert await t.types(handle) == ["started", *["signal_received"] * 4, "completed"]


async def test_a_paused_run_starts_nothing_new(any_house, t) -> None:
    """The activity that runs ends and its result is kept; the one after it waits for the resume."""
    async with any_house(walks, step) as app:
        gate = GATES["one"] = asyncio.Event()
        handle = await app.client.start(walks("one", "two", "three"), id="w")
        await t.until(app, lambda: _ran("one"))
        await handle.pause()
        gate.set()
        await t.recorded(app, handle, "activity_completed")
        assert "two" not in RAN
        assert [kind for kind in await t.types(handle) if kind == "activity_scheduled"] == ["activity_scheduled"]
        await handle.resume("seen enough")
        assert await handle.result() == ["one", "two", "three"]
        assert RAN == ["one", "two", "three"]


async def _ran(name: str) -> bool:
    return name in RAN


async def test_a_pause_holds_for_the_successor(any_house, t) -> None:
    """Paused while its last activity runs, the run does not go on even as another run."""
    async with any_house(goes_round, step) as app:
        gate = GATES["turn 2"] = asyncio.Event()
        handle = await app.client.start(goes_round(2), id="g")
        await handle.signal("turn")
        await t.until(app, lambda: _ran("turn 2"))
        await handle.pause()
        gate.set()
        await t.recorded(app, app.client.handle("g"), "activity_completed")
        await app.client.handle("g").signal("turn")
        assert (await app.client.handle("g").describe()).status == "paused"
        assert RAN == ["turn 2"]
        await app.client.handle("g").resume()
        await app.client.handle("g").signal("turn")
        assert await handle.result() == 0


async def test_pausing_and_resuming_under_way_loses_nothing(any_house) -> None:
    """A run that is paused and resumed all the time comes to the same end."""
    async with any_house(collects, walks, step) as app:
        names = [f"step {n}" for n in range(20)]
        walker = await app.client.start(walks(*names), id="walker")
        collector = await app.client.start(collects(20), id="collector")

        async def meddle(handle: Any) -> None:
            for _ in range(15):
                await handle.pause()
                await handle.resume()

        async def send() -> None:
            for n in range(20):
                await collector.signal("item", n)

        meddlers = [asyncio.create_task(meddle(app.client.handle(id))) for id in ("walker", "collector")]
        await asyncio.gather(send(), *meddlers, return_exceptions=True)
        await asyncio.gather(*(app.client.handle(id).resume() for id in ("walker", "collector")), return_exceptions=True)
        assert await walker.result() == names
        assert await collector.result() == list(range(20))
        assert sorted(RAN) == sorted(names)


async def test_a_paused_run_can_be_cancelled_and_terminated(house, t) -> None:
    """The cancel is seen after the resume; terminate needs none."""
    async with house(collects) as app:
        handle = await app.client.start(collects(1), id="c")
        await handle.pause()
        await handle.cancel()
        with pytest.raises(TimeoutError):
            await handle.result(timeout=0.05)
        await handle.resume()
        await t.status(app, handle, "cancelled")
        other = await app.client.start(collects(1), id="t")
        await other.pause()
        await other.terminate("enough")
        with pytest.raises(WorkflowTerminated):
            await other.result()
        with pytest.raises(WorkflowClosed):
            await other.pause()
        with pytest.raises(NotFound):
            await app.client.handle("nobody").pause()


async def test_an_older_run_is_shown_as_it_ended(house) -> None:
    """Also when it was paused and resumed before: notes count where they fell."""
    async with house(collects) as app:
        first = await app.client.start(collects(1), id="o")
        await first.pause()
        await first.resume()
        await first.terminate()
        await app.client.start(collects(1), id="o")
        assert (await app.client.handle("o", first.run_id).describe()).status == "terminated"
