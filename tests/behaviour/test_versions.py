"""Changing code under open runs: markers, quarantine, builds too old, and what brings a run back."""

import asyncio
import random
import uuid
from typing import Any

import pytest

from perdure import Worker, activity, workflow
from perdure.errors import WorkflowFailed


@activity
async def step(name: str) -> str:
    return name


@activity
async def extra(name: str) -> str:
    return name


def named(name: str):
    """Register a variant of a workflow under one type name."""
    return workflow(name=name)


@named("order")
async def order_v1() -> list[str]:
    found = [await step("first")]
    found.append(await workflow.receive("go", str))
    found.append(await step("old"))
    return found


@named("approval")
async def approval_v1() -> list[str]:
    found = [await step("first")]
    async with asyncio.timeout(3_600):
        found.append(await workflow.receive("go", str))
    found.append(await step("old"))
    return found


@named("approval")
async def approval_v2() -> list[str]:
    found = [await step("first")]
    new = workflow.patched("new-path")
    async with asyncio.timeout(3_600):
        found.append(await workflow.receive("go", str))
    found.append(await extra("new") if new else await step("old"))
    return found


@named("order")
async def order_v2_unguarded() -> list[str]:
    found = [await extra("before"), await step("first")]
    found.append(await workflow.receive("go", str))
    return found


@named("order")
async def order_v2() -> list[str]:
    found = [await step("first")]
    new = workflow.patched("new-path")
    found.append(await workflow.receive("go", str))
    found.append(await extra("new") if new else await step("old"))
    return found


@named("order")
async def order_v2_later() -> list[str]:
    """The change is asked for only behind the wait: open runs have recorded nothing there, and take it too."""
    found = [await step("first")]
    found.append(await workflow.receive("go", str))
    found.append(await extra("new") if workflow.patched("later") else await step("old"))
    return found


@named("order")
async def order_v2_legal() -> list[str]:
    """Unguarded, but it only asks for more where nothing was recorded yet."""
    found = [await step("first")]
    found.append(await workflow.receive("go", str))
    found.append(await step("old"))
    found.append(await extra("and more"))
    return found


OLD = ["first", "go", "old"]
NEW = ["first", "go", "new"]


async def parked(app: Any, t: Any, id: str) -> Any:
    handle = await app.client.start("order", id=id)
    await t.recorded(app, handle, "activity_completed")
    await t.decided(app, handle)
    return handle


def plain(history: list[Any]) -> list[Any]:
    return [(entry.id, entry.time, entry.type, entry.fields()) for entry in history]


@pytest.mark.rule("F10")
@pytest.mark.rule("F3")
@pytest.mark.rule("F20")
@pytest.mark.rule("F21")
async def test_in_flight_runs_keep_the_old_path_new_ones_take_the_new(house, t) -> None:
    """Path and marker agree on every history, over a deploy with runs in flight."""
    ids = {kind: [f"{kind}-{n}" for n in range(12)] for kind in ("old", "new")}
    async with house(approval_v1, step, build_id="one") as app:
        for id in ids["old"]:
            await t.recorded(app, await app.client.start("approval", id=id), "timer_started")
    async with house(approval_v2, step, extra, build_id="two") as app:
        for id in ids["new"]:
            await t.recorded(app, await app.client.start("approval", id=id), "timer_started")
        for id in ids["old"] + ids["new"]:
            handle = app.client.handle(id)
            await handle.signal("go", "go")
            assert await handle.result() == (OLD if id in ids["old"] else NEW)
            assert ("version_marked" in await t.types(handle)) == (id in ids["new"])
    async with house(approval_v2, step, extra, build_id="two") as app:
        assert await app.client.count(status="completed") == 24


async def test_path_and_marker_always_agree(any_house, t) -> None:
    """Also where the old code had seen an input without asking for anything: that was written down with the result, or at the stop."""
    async with any_house(order_v1, step, build_id="one") as app:
        await parked(app, t, "open")
    async with any_house(order_v2, step, extra, build_id="two") as app:
        handle = app.client.handle("open")
        await handle.signal("go", "go")
        assert await handle.result() == OLD
        assert "version_marked" not in await t.types(handle)


async def test_a_version_asked_for_where_nothing_is_recorded(any_house, t) -> None:
    """Code that reaches version() first in new work takes the new path, in open runs too, and records it."""
    async with any_house(order_v1, step, build_id="one") as app:
        await parked(app, t, "open")
    async with any_house(order_v2_later, step, extra, build_id="two") as app:
        handle = app.client.handle("open")
        await handle.signal("go", "go")
        assert await handle.result() == NEW
        assert "version_marked" in await t.types(handle)


@pytest.mark.rule("F11")
async def test_more_commands_where_nothing_was_recorded_are_legal(any_house, t) -> None:
    """An unguarded change that only adds to the future goes on."""
    async with any_house(order_v1, step, build_id="one") as app:
        await parked(app, t, "open")
    async with any_house(order_v2_legal, step, extra, build_id="two") as app:
        handle = app.client.handle("open")
        await handle.signal("go", "go")
        assert await handle.result() == [*OLD, "and more"]


@workflow
async def bystander() -> str:
    return await step("bystander")


@pytest.mark.rule("F11")
@pytest.mark.rule("F12")
@pytest.mark.scenario(25)
async def test_an_unguarded_change_quarantines_and_the_right_code_resumes(any_house, t) -> None:
    """History bytes stay, both commands are named, others go on; the right code (another build) goes on by itself."""
    async with any_house(order_v1, step, build_id="one") as app:
        handle = await parked(app, t, "hurt")
        before = plain(await handle.history())
    async with any_house(order_v2_unguarded, bystander, step, extra, build_id="bad") as app:
        handle = app.client.handle("hurt")
        await handle.signal("go", "go")
        description = await t.status(app, handle, "quarantined")
        said = " ".join(item.state for item in description.pending)
        assert "'step'" in said
        assert "'extra'" in said
        assert [row.workflow_id async for row in app.client.list(status="quarantined")] == ["hurt"]
        assert plain(await handle.history())[: len(before)] == before
        assert await t.types(handle) == [*(entry[2] for entry in before), "signal_received"]
        assert await app.client.execute(bystander()) == "bystander"
        with pytest.raises(TimeoutError):
            await handle.result(timeout=0.05)
        # Signals are taken all the while.
        await handle.signal("later", 1)
        assert (await handle.describe()).status == "quarantined"
    async with any_house(order_v1, bystander, step, build_id="three") as app:
        handle = app.client.handle("hurt")
        assert await handle.result() == OLD
        assert plain(await handle.history())[: len(before)] == before
        assert "resumed" in await t.types(handle, notes=True)


@pytest.mark.rule("F12")
async def test_resume_forgets_which_build_failed(house, t) -> None:
    """The same build id is not offered the run again by itself; `handle.resume()` makes it so."""
    async with house(order_v1, step, build_id="same") as app:
        await parked(app, t, "hurt")
    async with house(order_v2_unguarded, step, extra, build_id="same") as app:
        handle = app.client.handle("hurt")
        await handle.signal("go", "go")
        await t.status(app, handle, "quarantined")
    async with house(order_v1, bystander, step, build_id="same") as app:
        handle = app.client.handle("hurt")
        assert await app.client.execute(bystander()) == "bystander"
        assert (await handle.describe()).status == "quarantined"
        await handle.resume("mended")
        assert await handle.result(timeout=5) == OLD  # at once, not with the next sweep


@pytest.mark.rule("F11")
async def test_a_build_older_than_the_run_sets_it_aside(any_house, t) -> None:
    """No quarantine: the run waits for a build that knows the change, and describe says which."""
    async with any_house(order_v2, step, extra, build_id="two") as app:
        await parked(app, t, "newer")
    async with any_house(order_v1, bystander, step, build_id="one") as app:
        handle = app.client.handle("newer")
        await handle.signal("go", "go")
        await t.recorded(app, handle, "build_refused")
        description = await handle.describe()
        assert description.status == "running"
        assert [item.name for item in description.pending if item.kind == "build"] == ["new-path"]
        assert await app.client.execute(bystander()) == "bystander"
    async with any_house(order_v2, step, extra, build_id="two") as app:
        assert await app.client.handle("newer").result() == NEW


@pytest.mark.rule("F14")
async def test_a_rolling_deploy_quarantines_nothing(house, t) -> None:
    """Workers of both builds serve one queue: runs the new one has marked go on with the new one, none is quarantined."""
    async with house(queues=["other"], replays=False) as app:
        async with Worker(app.client, workflows=[order_v1], activities=[step], build_id="one"):
            handles = [await app.client.start("order", id=f"a-{n}") for n in range(6)]
            for handle in handles:
                await t.recorded(app, handle, "activity_completed")
            async with Worker(app.client, workflows=[order_v2], activities=[step, extra], build_id="two"):
                more = [await app.client.start("order", id=f"b-{n}") for n in range(6)]
                for handle in more:
                    await t.recorded(app, handle, "activity_completed")
                for handle in handles + more:
                    await handle.signal("go", "go")
                async with asyncio.timeout(9):
                    for handle in handles + more:
                        marked = "version_marked" in await t.types(handle)
                        assert await handle.result() == (NEW if marked else OLD)
        assert await app.client.count(status="quarantined") == 0


@named("ranged")
async def ranged_v1() -> int:
    taken = workflow.version("shape", 1, 2)
    await workflow.receive("go")
    return taken


@named("ranged")
async def ranged_v2() -> int:
    taken = workflow.version("shape", 3, 4)
    await workflow.receive("go")
    return taken


async def test_a_version_out_of_range_quarantines(house, t) -> None:
    """Code that no longer knows the version a run took is a nondeterminism, even when it catches the error."""
    async with house(ranged_v1, build_id="one") as app:
        handle = await app.client.start("ranged", id="r")
        await t.recorded(app, handle, "version_marked")
    async with house(ranged_v2, build_id="two") as app:
        handle = app.client.handle("r")
        await handle.signal("go")
        description = await t.status(app, handle, "quarantined")
        assert "shape" in description.pending[0].state
    async with house(ranged_v1, build_id="three") as app:
        assert await app.client.handle("r").result() == 2


@workflow
async def rolls() -> list[Any]:
    values = [workflow.side_effect(_roll) for _ in range(3)]
    await step("between")
    return [*values, workflow.side_effect(_roll)]


ROLLED: list[int] = []


def _roll() -> int:
    ROLLED.append(1)
    return len(ROLLED)


async def test_side_effects_are_called_once(any_house) -> None:
    """Their value is recorded; replays, cold ones too, read it."""
    ROLLED.clear()
    async with any_house(rolls, step) as app:
        assert await app.client.execute(rolls()) == [1, 2, 3, 4]
    assert len(ROLLED) == 4


class DiceLost(Exception):
    """A class of the author's, to be raised again as itself."""


@workflow
async def rolls_under_the_table() -> list[Any]:
    caught: list[Any] = []
    for _ in range(4):
        try:
            caught.append(workflow.side_effect(_lost_or_rolled))
        except DiceLost as error:
            caught.append(str(error))
    await step("between")
    return [*caught, workflow.side_effect(_roll)]


def _lost_or_rolled() -> int:
    if _roll() % 2:
        raise DiceLost(f"roll {len(ROLLED)}")
    return len(ROLLED)


async def test_what_a_side_effect_raises_is_recorded(any_house) -> None:
    """One that raises is called once as well: replays raise it again there, and give no other call's value in its place."""
    ROLLED.clear()
    async with any_house(rolls_under_the_table, step) as app:
        assert await app.client.execute(rolls_under_the_table()) == ["roll 1", 2, "roll 3", 4, 5]
    assert len(ROLLED) == 5


@workflow
async def draws_in_a_side_effect(held: bool) -> list[float]:
    chance = workflow.random()
    given = [
        workflow.side_effect(chance.random if held else random.random),
        workflow.side_effect(lambda: uuid.uuid4().int / 2**128),
    ]
    own = random.random()
    await workflow.receive("go")
    await step("even" if random.random() < 0.5 else "odd")
    return [*given, own, random.random()]


@pytest.mark.parametrize("held", [False, True])
async def test_chance_drawn_in_a_side_effect_is_not_the_runs(any_house, held) -> None:
    """No replay draws it again: what the code draws afterwards is the same with and without the call."""
    async with any_house(draws_in_a_side_effect, step) as app:
        for n in range(8):
            handle = await app.client.start(draws_in_a_side_effect(held), id=f"draws-{n}")
            await handle.signal("go")
            given = await handle.result(20)
            # Whoever hands in the run's own generator gets what it would draw next.
            assert len(set(given)) == (3 if held else 4)


@workflow
async def asks_in_a_side_effect() -> int:
    return workflow.side_effect(lambda: workflow.set_details("not here") or 1)


@named("asks_in_a_side_effect")
async def asks_beside_it() -> int:
    workflow.set_details("here")
    return workflow.side_effect(lambda: 1)


async def test_a_side_effect_asks_for_nothing(house, t) -> None:
    """A command asked for where no replay comes by would be missed by every one: it is refused at once."""
    async with house(asks_in_a_side_effect, build_id="bad") as app:
        handle = await app.client.start(asks_in_a_side_effect(), id="asks")
        assert "set_details()" in (await t.status(app, handle, "quarantined")).pending[0].state
        assert [event.type for event in await handle.history()] == ["started"]
    async with house(asks_beside_it, build_id="good") as app:
        assert await app.client.handle("asks").result() == 1


@workflow
async def fails_plainly() -> None:
    raise ValueError("plain")


async def test_a_failure_is_no_nondeterminism(house) -> None:
    """An exception leaving main fails the run, it does not quarantine it."""
    async with house(fails_plainly) as app:
        with pytest.raises(WorkflowFailed):
            await app.client.execute(fails_plainly())
        assert await app.client.count(status="failed") == 1
