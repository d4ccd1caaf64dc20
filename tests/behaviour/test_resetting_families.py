"""Reset of runs that have children, parents and updates: who waits goes on waiting, and for the right thing."""

import asyncio
from typing import Any

import pytest

from perdure import Retry, activity, workflow
from perdure.errors import ChildWorkflowError, WorkflowTerminated

RAN: list[str] = []


@pytest.fixture(autouse=True)
def _clean() -> None:
    RAN.clear()


@activity
async def note(what: str) -> str:
    RAN.append(what)
    return what


@workflow
async def kid(name: str) -> str:
    await note(f"{name} begins")
    word = await workflow.receive("word", str)
    return await note(f"{name} {word}")


@workflow
async def parent(name: str) -> list[Any]:
    told = await kid(name)
    await note("parent heard")
    return [told, await workflow.receive("end")]


@workflow
async def parent_of_two() -> list[Any]:
    first = await workflow.start_child(kid("one"), id="kid-1")
    await workflow.receive("next")
    second = await workflow.start_child(kid("two"))
    return [first.id, second.id, await second, await first]


@workflow
async def parent_of_abandoned() -> str:
    child = await workflow.start_child(kid("left"), id="left", on_parent_close="abandon")
    return await workflow.receive("end", str) + child.id


@workflow(retry=Retry(initial=0.01, max_attempts=2))
async def stumbles() -> int:
    if workflow.info().attempt == 1:
        raise ValueError("once")
    return workflow.info().attempt


@workflow
async def parent_of_stumbler() -> list[Any]:
    return [await stumbles(), workflow.info().attempt]


@workflow
class Account:
    def __init__(self) -> None:
        self.seen: list[str] = []

    @workflow.run
    async def run(self) -> list[str]:
        await workflow.receive("close")
        return self.seen

    @workflow.update
    async def book(self, what: str) -> int:
        self.seen.append(what)
        return len(self.seen)


async def kinds(handle: Any) -> list[str]:
    return [event.type for event in await handle.history()]


@pytest.mark.scenario(98)
async def test_a_reset_parent_hears_of_a_child_that_has_finished(any_house, t) -> None:
    """Its outcome is asked for again; the child does not run a second time."""
    async with any_house(parent, kid, note) as app:
        handle = await app.client.start(parent("kid"), id="p")
        child = (await t.recorded(app, handle, "child_started")).workflow_id
        await app.client.handle(child).signal("word", "done")
        closed = await t.recorded(app, handle, "child_closed")
        await t.recorded(app, handle, "activity_completed")
        again = await handle.reset(closed.id - 1)
        await app.client.handle("p").signal("end", "over")
        assert await again.result() == ["kid done", "over"]
        assert RAN == ["kid begins", "kid done", "parent heard", "parent heard"]
        assert "child_closed" in await kinds(again)


@pytest.mark.scenario(99)
async def test_the_parent_of_a_reset_child_waits_on(any_house, t) -> None:
    """It is not told that the child was terminated: it gets what the new run comes to."""
    async with any_house(parent, kid, note) as app:
        handle = await app.client.start(parent("kid"), id="p")
        child = app.client.handle((await t.recorded(app, handle, "child_started")).workflow_id)
        await t.recorded(app, child, "activity_completed")
        new = await child.reset(1)
        await new.signal("word", "anew")
        await handle.signal("end", 1)
        assert await handle.result() == ["kid anew", 1]
        assert RAN.count("kid begins") == 2


@pytest.mark.scenario(100)
@pytest.mark.scenario(20)
async def test_a_parent_is_reset_while_its_children_run(any_house, t) -> None:
    """A child asked for before the point is the new run's, one asked for behind it is taken back and asked for again under its id."""
    async with any_house(parent_of_two, kid, note) as app:
        handle = await app.client.start(parent_of_two(), id="p")
        await handle.signal("next")
        second = await t.recorded(app, handle, "child_started", 2)
        asked = [event for event in await handle.history() if event.type == "child_requested"]
        again = await handle.reset(asked[1].id - 1)
        renewed = await t.recorded(app, again, "child_requested", 2)
        assert renewed.workflow_id == asked[1].workflow_id
        await t.recorded(app, again, "child_started", 2)
        old = app.client.handle(second.workflow_id, second.run_id)
        with pytest.raises(WorkflowTerminated):
            await old.result()
        await app.client.handle("kid-1").signal("word", "a")
        await app.client.handle(second.workflow_id).signal("word", "b")
        assert await again.result() == ["kid-1", second.workflow_id, "two b", "one a"]
        assert RAN.count("one begins") == 1


async def test_an_abandoned_child_outlives_the_reset(any_house, t) -> None:
    """It is nobody's to end; asked for again before it was known, it is the same one."""
    async with any_house(parent_of_abandoned, kid, note) as app:
        handle = await app.client.start(parent_of_abandoned(), id="p")
        await t.recorded(app, handle, "child_started")
        requested = next(event.id for event in await handle.history() if event.type == "child_requested")
        again = await handle.reset(requested)
        await app.client.handle("p").signal("end", "end of ")
        assert await again.result() == "end of left"
        await app.client.handle("left").signal("word", "fine")
        assert await app.client.handle("left").result() == "left fine"
        assert RAN == ["left begins", "left fine"]


async def test_a_child_that_is_tried_again_is_one_child(any_house) -> None:
    """Its parent waits for the last attempt."""
    async with any_house(parent_of_stumbler, stumbles) as app:
        handle = await app.client.start(parent_of_stumbler(), id="p")
        assert await handle.result() == [2, 1]
        assert (await kinds(handle)).count("child_closed") == 1


async def test_terminating_a_child_still_tells_its_parent(house, t) -> None:
    """Only a reset keeps quiet about the end."""
    async with house(parent, kid, note) as app:
        handle = await app.client.start(parent("kid"), id="p")
        child = app.client.handle((await t.recorded(app, handle, "child_started")).workflow_id)
        await child.terminate("enough")
        with pytest.raises(Exception) as failed:
            await handle.result()
        assert isinstance(failed.value.__cause__, ChildWorkflowError)


async def test_updates_accepted_after_the_point_are_carried_out_again(any_house, t) -> None:
    """Before later ones and in their order; those before the point are in the history."""
    async with any_house(Account) as app:
        handle = await app.client.start(Account.run(), id="a")
        assert await handle.update("book", "one", update_id="1") == 1
        assert await handle.update("book", "two", update_id="2") == 2
        point = next(event.id for event in await handle.history() if event.type == "update_completed")
        again = await handle.reset(point)
        async with asyncio.timeout(10):
            assert await app.client.handle("a").update("book", "three", update_id="3") == 3
        await app.client.handle("a").signal("close")
        assert await again.result() == ["one", "two", "three"]
