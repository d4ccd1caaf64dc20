"""Signals: kept, ordered, delivered once, never lost, whenever they come."""

import asyncio
from typing import Any

import pytest

from perdure import activity, workflow
from perdure.errors import InvalidArgument, NotFound, WorkflowClosed, WorkflowFailed


@activity
async def step(n: int) -> int:
    return n


@workflow
async def receives(name: str, count: int) -> list[Any]:
    return [await workflow.receive(name) for _ in range(count)]


@workflow
async def receives_late(count: int) -> list[int]:
    await workflow.receive("go", bool)
    return [await workflow.receive("item", int) for _ in range(count)]


@workflow
async def receives_or_gives_up() -> str:
    try:
        async with asyncio.timeout(0.05):
            await workflow.receive("never")
    except TimeoutError:
        pass
    return await workflow.receive("never", str)


@workflow
async def ends_at_once() -> str:
    return "ended"


@workflow
async def ends_on_word() -> int:
    await workflow.receive("end")
    return await step(1)


@workflow  # noqa: RET503 – continue_as_new never returns
async def counts_on(total: int, seen: int = 0) -> int:
    """Takes signals and continues as new after each few, until it has seen them all."""
    for _ in range(3):
        await workflow.receive("tick", int)
        seen += 1
        if seen == total:
            return seen
    workflow.continue_as_new(total, seen)


@pytest.mark.rule("F9")
@pytest.mark.scenario(26)
async def test_signals_before_the_wait_are_kept(any_house) -> None:
    """Sent before the code reaches `receive`: taken in the order they came, by name."""
    async with any_house(receives_late) as app:
        handle = await app.client.start(receives_late(3))
        for n in range(3):
            await handle.signal("item", n)
        await handle.signal("go", True)
        assert await handle.result() == [0, 1, 2]


@pytest.mark.rule("F8")
async def test_one_signal_id_is_one_event(any_house, t) -> None:
    """Twice in a row and ten times at once: one delivery. The same value under two ids: two."""
    async with any_house(receives) as app:
        handle = await app.client.start(receives("pay", 3))
        await handle.signal("pay", "once", signal_id="s-1")
        await handle.signal("pay", "once", signal_id="s-1")
        await asyncio.gather(*(handle.signal("pay", "many", signal_id="s-2") for _ in range(10)))
        await handle.signal("pay", "many", signal_id="s-3")
        assert await handle.result() == ["once", "many", "many"]
        assert (await t.types(handle)).count("signal_received") == 3


async def test_a_signal_to_a_closed_or_unknown_run(house) -> None:
    """WorkflowClosed and NotFound; a remembered id is answered as before even when the run is closed."""
    async with house(ends_at_once, ends_on_word, step) as app:
        handle = await app.client.start(ends_at_once())
        await handle.result()
        with pytest.raises(WorkflowClosed):
            await handle.signal("late", 1)
        with pytest.raises(NotFound):
            await app.client.handle("nobody").signal("x")
        handle = await app.client.start(ends_on_word())
        await handle.signal("end", signal_id="e")
        await handle.result()
        await handle.signal("end", signal_id="e")


@pytest.mark.scenario(27)
async def test_a_null_is_no_timeout(any_house, t) -> None:
    """A wait that timed out gives its place back; a signal whose value is null is a signal."""
    async with any_house(receives_or_gives_up, receives) as app:
        handle = await app.client.start(receives_or_gives_up())
        await t.recorded(app, handle, "timer_fired")
        await handle.signal("never", "after all")
        assert await handle.result() == "after all"
        handle = await app.client.start(receives("null", 1))
        await handle.signal("null", None)
        assert await handle.result() == [None]


async def test_a_value_of_another_type_raises_in_receive(house) -> None:
    """`receive` names the signal; the run fails as its code lets it."""
    async with house(receives_late) as app:
        handle = await app.client.start(receives_late(1))
        await handle.signal("go", True)
        await handle.signal("item", "no number")
        with pytest.raises(WorkflowFailed) as caught:
            await handle.result()
        assert isinstance(caught.value.__cause__, InvalidArgument)
        assert "item" in str(caught.value.__cause__)


async def test_signals_while_a_run_closes_are_handled_or_counted(any_house, t) -> None:
    """None is lost without a trace: acknowledged signals are in the history, those nobody took are counted by the closing event."""
    async with any_house(ends_on_word, step) as app:
        for _ in range(5):
            handle = await app.client.start(ends_on_word())
            await handle.signal("end")
            acknowledged = 1
            for n in range(200):
                try:
                    await handle.signal("more", n)
                except WorkflowClosed:
                    break
                acknowledged += 1
            await handle.result()
            history = await handle.history()
            assert sum(entry.type == "signal_received" for entry in history) == acknowledged
            assert history[-1].unseen_signals == acknowledged - 1


@pytest.mark.scenario(30)
@pytest.mark.scenario(32)
@pytest.mark.rule("F4")
async def test_a_steady_sender_across_continue_as_new(any_house) -> None:
    """Every acknowledged signal is taken exactly once by some run of the chain, and continuing is never refused."""
    async with any_house(counts_on) as app:
        handle = await app.client.start(counts_on(40), id="chain")
        for n in range(40):
            await app.client.handle("chain").signal("tick", n)
        assert await handle.result() == 40
        rows = [row async for row in app.client.list()]
        assert {row.status for row in rows} == {"continued", "completed"}
        assert len(rows) == 14
        values = []
        for row in sorted(rows, key=lambda row: (row.started_at, row.run_id)):
            history = await app.client.handle("chain", row.run_id).history()
            carried = set(getattr(history[-1], "untaken", None) or ()) if row.status == "continued" else set()
            at = history[-1].at
            values += [
                entry.input[0]
                for entry in history
                if entry.type == "signal_received" and entry.id not in carried and entry.id <= at
            ]
        assert values == list(range(40))


@workflow
async def greets(name: str) -> list[str]:
    return [name, await workflow.receive("word", str), await workflow.receive("word", str)]


@pytest.mark.scenario(22)
async def test_signal_with_start(any_house, t) -> None:
    """Starts with the signal as first message, signals the run that is open, and does nothing for a remembered id, also once closed."""
    async with any_house(greets) as app:
        first = await app.client.signal_with_start(greets("a"), "word", "one", id="g", signal_id="w-1")
        again = await app.client.signal_with_start(greets("b"), "word", "one", id="g", signal_id="w-1")
        other = await app.client.signal_with_start(greets("c"), "word", "two", id="g", signal_id="w-2")
        assert await first.result() == await again.result() == await other.result() == ["a", "one", "two"]
        late = await app.client.signal_with_start(greets("d"), "word", "two", id="g", signal_id="w-2")
        assert await late.result() == ["a", "one", "two"]
        assert await app.client.count() == 1
        fresh = await app.client.signal_with_start(greets("e"), "word", "three", id="g", signal_id="w-3")
        await fresh.signal("word", "four")
        assert await fresh.result() == ["e", "three", "four"]
        assert await app.client.count() == 2


async def test_concurrent_signals_with_start_make_one_run(house) -> None:
    """Ten at once: one run, every distinct signal in it."""
    async with house(receives) as app:
        handles = await asyncio.gather(
            *(app.client.signal_with_start(receives("n", 10), "n", n, id="ten", signal_id=f"n-{n}") for n in range(10))
        )
        assert sorted(await handles[0].result()) == list(range(10))
        assert await app.client.count() == 1
