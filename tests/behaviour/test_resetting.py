"""Reset on a whole node: from any event, of open and closed runs, over and over; every history replays."""

import asyncio
from typing import Any

import pytest

from perdure import Retry, activity, workflow
from perdure.errors import InvalidArgument, NotFound, WorkflowFailed, WorkflowTerminated

KEYS: list[tuple[str, str, int]] = []
BROKEN: list[bool] = []
GATES: dict[str, asyncio.Event] = {}


@pytest.fixture(autouse=True)
def _clean() -> None:
    KEYS.clear()
    BROKEN.clear()
    GATES.clear()


@activity
async def charge(order: str, cents: int = 1) -> str:
    KEYS.append((activity.info().idempotency_key, order, cents))
    gate = GATES.get(order)
    if gate is not None:
        await gate.wait()
    return f"{order}:{cents}"


@activity
async def refuses() -> None:
    if BROKEN:
        raise ValueError("broken")


@workflow
async def everything(id: str) -> dict[str, Any]:
    """A little of all: activities, timers, signals, versions, chance, side effects, attributes."""
    drawn = [workflow.random().random(), str(workflow.uuid4())]
    runs = [workflow.info().run_id]
    paid = await charge(id)
    workflow.set_attributes({"paid": paid})
    first = await workflow.receive("go", int)
    async with asyncio.TaskGroup() as group:
        group.create_task(charge(f"{id}-x"))
        group.create_task(asyncio.sleep(0.01))
    new = workflow.patched("later")
    made = workflow.side_effect(lambda: 4)
    workflow.set_details("half")
    second = await workflow.receive("go", int)
    drawn += [workflow.random().random(), str(workflow.uuid7())]
    runs.append(workflow.info().run_id)
    return {"paid": paid, "signals": [first, second], "new": new, "made": made, "drawn": drawn, "runs": runs}


@workflow
async def two_charges(second: int) -> list[str]:
    await charge("a", 1)
    await workflow.receive("go")
    return [await charge("b", second), workflow.info().run_id]


@workflow
async def fails_while_broken() -> str:
    await charge("a")
    await refuses.options(retry=Retry(max_attempts=1))()
    return "mended"


@workflow
async def waits_for(word: str) -> Any:
    return await workflow.receive(word)


async def test_a_run_can_be_reset_to_any_event(any_house, t) -> None:
    """From each it comes to the same end: what is in the prefix as it was, what came later once more."""
    async with any_house(everything, charge) as app:
        first = await app.client.start(everything("o"), id="e")
        await first.signal("go", 1)
        await t.recorded(app, first, "details_set")
        await first.signal("go", 2)
        before = await first.result()
        signals = [event.id for event in await first.history() if event.type == "signal_received"]
        length, second = len(await first.history()), signals[1]
        for point in range(1, length):
            handle = await app.client.handle("e", first.run_id).reset(point, "again")
            result = await handle.result()
            assert {**result, "drawn": None, "runs": None} == {**before, "drawn": None, "runs": None}
            assert result["drawn"][:2] == before["drawn"][:2]
            past = point >= second  # the code that draws again had run when the point was reached
            assert (result["drawn"][2:] == before["drawn"][2:]) == past
            assert result["runs"] == [first.run_id, first.run_id if past else handle.run_id]
            view = await handle.describe()
            assert view.attributes == {"paid": "o:1"}
            history = await handle.history()
            assert [event.type for event in history].index("reset") == point
            assert history[point].reset_from == first.run_id
        assert len({key for key, order, _ in KEYS if order == "o"}) == 1
        assert len({key for key, order, _ in KEYS if order == "o-x"}) == 1


async def test_an_open_run_ends_and_its_id_goes_on(any_house, t) -> None:
    """Whoever waits for it gets the new run's result; messages to the id reach the new run; the old worker's activity is not its."""
    async with any_house(two_charges, charge) as app:
        handle = await app.client.start(two_charges(2), id="o")
        waiting = asyncio.create_task(handle.result())
        await t.recorded(app, handle, "activity_completed")
        await t.decided(app, handle)
        again = await handle.reset(2)
        old = app.client.handle("o", handle.run_id)
        view = await old.describe()
        assert (view.status, view.reason) == ("terminated", f"reset to event 2 in run {again.run_id}")
        assert (await app.client.handle("o").describe()).run_id == again.run_id
        await app.client.handle("o").signal("go")
        assert await waiting == await again.result() == ["b:2", again.run_id]
        assert [row.status async for row in app.client.list()] == ["completed", "terminated"]
        assert [order for _, order, _ in KEYS] == ["a", "a", "b"]
        assert len({key for key, _, _ in KEYS}) == 2


async def test_the_kth_charge_keeps_its_key_even_with_other_arguments(house, t) -> None:
    """A reset to before the first charge, by code that now charges another sum: same ordinal, same key."""
    async with house(two_charges, charge) as app:
        handle = await app.client.start(two_charges(2), id="k")
        await handle.signal("go")
        await handle.result()
    async with house(charges_other_sums, charge, replays=False) as app:
        again = await app.client.handle("k").reset(1, "other sums")
        assert (await again.result())[0] == "b:20"
    first, second, first_again, second_again = KEYS
    assert (first[0], second[0]) == (first_again[0], second_again[0])
    assert first[1:] != first_again[1:]
    assert second[1:] != second_again[1:]


@workflow(name="two_charges")
async def charges_other_sums(second: int) -> list[str]:
    await charge("a", 10)
    await workflow.receive("go")
    return [await charge("b", second * 10), workflow.info().run_id]


async def test_a_failed_run_is_reset_and_mended(any_house) -> None:
    """The usual reason for a reset: the world is mended, and what was done before stays done."""
    BROKEN.append(True)
    async with any_house(fails_while_broken, charge, refuses) as app:
        handle = await app.client.start(fails_while_broken(), id="f")
        with pytest.raises(WorkflowFailed):
            await handle.result()
        BROKEN.clear()
        scheduled = [event.id for event in await handle.history() if event.type == "activity_scheduled"]
        again = await handle.reset(scheduled[1] - 1)
        assert await again.result() == "mended"
        assert len(KEYS) == 1
        with pytest.raises(WorkflowFailed):
            await app.client.handle("f", handle.run_id).result()


async def test_a_reset_survives_a_restart(any_house, t) -> None:
    """Closed or open, the history is where it was; an activity that ran in the old run runs again in the new one."""
    async with any_house(two_charges, charge) as app:
        GATES["b"] = asyncio.Event()
        handle = await app.client.start(two_charges(2), id="r")
        await handle.signal("go")
        await t.recorded(app, handle, "activity_scheduled", 2)
        again = await handle.reset((await handle.history())[-1].id)
        GATES["b"].set()
        GATES.clear()
    async with any_house(two_charges, charge) as app:
        assert (await app.client.handle("r").result())[0] == "b:2"
        third = await app.client.handle("r").reset(1)
        assert (await third.result()) == ["b:2", third.run_id]
        assert again.run_id != third.run_id


async def test_many_resets_at_once_leave_one_open_run(any_house) -> None:
    """Each ends the one before; signals reach the last."""
    async with any_house(waits_for) as app:
        handle = await app.client.start(waits_for("go"), id="m")
        again = await asyncio.gather(*(app.client.handle("m").reset(1) for _ in range(8)))
        assert len({one.run_id for one in again}) == 8
        await app.client.handle("m").signal("go", "last")
        assert await handle.result() == "last"
        assert sorted([row.status async for row in app.client.list()]) == ["completed", *["terminated"] * 8]


async def test_the_same_request_resets_once(house) -> None:
    """A reset that was asked for twice under one request id makes one run."""
    async with house(waits_for) as app:
        handle = await app.client.start(waits_for("go"), id="s")
        first, second = await asyncio.gather(*(handle.reset(1, request_id="one") for _ in range(2)))
        assert first.run_id == second.run_id
        assert await app.client.count() == 2
        await first.terminate()
        with pytest.raises(WorkflowTerminated):
            await handle.result()


async def test_refused_resets_change_nothing(house) -> None:
    """No such event, the end itself, no such id or run."""
    async with house(waits_for) as app:
        handle = await app.client.start(waits_for("go"), id="n")
        for wrong in (0, -1, 2, 99, "x", True, None, 1.5):
            with pytest.raises(InvalidArgument):
                await handle.reset(wrong)
        with pytest.raises(NotFound):
            await app.client.handle("nobody").reset(1)
        with pytest.raises(NotFound):
            await app.client.handle("n", "no-such-run").reset(1)
        await handle.terminate()
        with pytest.raises(InvalidArgument, match="the end of run"):
            await handle.reset(2)
        assert await app.client.count() == 1
