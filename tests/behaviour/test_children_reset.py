"""Resets of parents and of children: nobody is told twice, nobody waits for what has been, nothing runs twice by mistake."""

from typing import Any

import pytest

from perdure import activity, workflow
from perdure.errors import WorkflowTerminated

STARTED: list[str] = []


@activity
async def tell(what: str) -> str:
    STARTED.append(what)
    return what


@workflow
async def child(name: str) -> str:
    await tell(name)
    return await workflow.receive("go", str)


@workflow
async def parent(name: str) -> list[str]:
    said = await child(name)
    return [said, await workflow.receive("more", str)]


async def point(handle: Any, kind: str) -> int:
    """Number of the first event of that type."""
    return next(event.id for event in await handle.history() if event.type == kind)


async def child_of(app: Any, handle: Any, t: Any) -> Any:
    return app.client.handle((await t.recorded(app, handle, "child_started")).workflow_id)


@pytest.mark.scenario(98)
@pytest.mark.parametrize("at", ["child_requested", "child_started"])
async def test_a_reset_parent_hears_of_a_child_that_has_finished(any_house, t, at: str) -> None:
    """The child closed long before; the new run asks and is told, and the child is not run again."""
    STARTED.clear()
    async with any_house(parent, child, tell) as app:
        first = await app.client.start(parent("a"), id="p")
        kid = await child_of(app, first, t)
        await kid.signal("go", "done")
        await t.recorded(app, first, "child_closed")
        again = await first.reset(await point(first, at), "look again")
        await t.recorded(app, again, "child_closed")
        await again.signal("more", "x")
        assert await again.result() == ["done", "x"]
        assert STARTED == ["a"]
        assert (await t.types(again)).count("child_started") == 1


async def test_a_closed_parent_reset_hears_of_its_child(any_house, t) -> None:
    """As above, after the parent itself has closed and the child's id is in use for something else."""
    STARTED.clear()
    async with any_house(parent, child, tell) as app:
        first = await app.client.start(parent("a"), id="p")
        kid = await child_of(app, first, t)
        await kid.signal("go", "done")
        await first.signal("more", "x")
        assert await first.result() == ["done", "x"]
        other = await app.client.start(child("other"), id=kid.id)
        again = await app.client.handle("p").reset(await point(first, "child_started"), "look again")
        assert await again.result() == ["done", "x"]
        assert (await other.describe()).status == "running"
        assert STARTED.count("a") == 1
        await other.terminate()


@pytest.mark.scenario(99)
async def test_resetting_a_child_tells_its_parent_nothing(any_house, t) -> None:
    """The old run of the child ends, its chain goes on: the parent hears of the new run's end, and of that alone."""
    STARTED.clear()
    async with any_house(parent, child, tell) as app:
        handle = await app.client.start(parent("a"), id="p")
        kid = await child_of(app, handle, t)
        await t.recorded(app, kid, "activity_completed")
        begun = await kid.reset(1, "once more")
        await t.until(app, lambda: _told(2))
        await begun.signal("go", "done")
        await handle.signal("more", "x")
        assert await handle.result() == ["done", "x"]
        assert [kind for kind in await t.types(handle) if kind.startswith("child")] == [
            "child_requested",
            "child_started",
            "child_closed",
        ]


async def _told(count: int) -> bool:
    return len(STARTED) >= count


@pytest.mark.scenario(100)
async def test_a_parent_is_reset_while_its_child_runs(any_house, t) -> None:
    """The child asked for before the point goes on as the new run's; its result arrives there."""
    STARTED.clear()
    async with any_house(parent, child, tell) as app:
        first = await app.client.start(parent("a"), id="p")
        kid = await child_of(app, first, t)
        await t.recorded(app, first, "child_started")
        again = await first.reset(await point(first, "child_requested"), "again")
        await t.recorded(app, again, "child_started")
        assert (await kid.describe()).status == "running"
        await kid.signal("go", "on")
        await again.signal("more", "x")
        assert await again.result() == ["on", "x"]
        assert STARTED == ["a"]


@pytest.mark.scenario(20)
async def test_a_child_asked_for_anew_has_the_same_id(any_house, t) -> None:
    """Reset to before the request: the child of the old run is taken back, that of the new one has its id and is another run."""
    STARTED.clear()
    async with any_house(parent, child, tell) as app:
        first = await app.client.start(parent("a"), id="p")
        kid = await child_of(app, first, t)
        old = await t.recorded(app, first, "child_started")
        again = await first.reset(1, "from the start")
        new = await t.recorded(app, again, "child_started")
        assert (new.workflow_id, new.run_id == old.run_id) == (kid.id, False)
        with pytest.raises(WorkflowTerminated):
            await app.client.handle(kid.id, old.run_id).result()
        await app.client.handle(kid.id).signal("go", "new")
        await again.signal("more", "x")
        assert await again.result() == ["new", "x"]
