"""At a limit there is a clear, typed error, at once: never an endless retry."""

import asyncio

import pytest

from perdure import Limits, activity, workflow
from perdure.errors import LimitExceeded, WorkflowFailed


@activity
async def step(n: int) -> int:
    return n


@workflow
async def endless() -> None:
    n = 0
    while True:
        n = await step(n + 1)


@workflow
async def many_at_once(count: int) -> None:
    await asyncio.gather(*(asyncio.sleep(1_000 + n) for n in range(count)))


@workflow
async def never_reads() -> None:
    await workflow.receive("something else")


async def test_a_history_that_reaches_its_limit_fails_the_run(house) -> None:
    """The failure names the limit, the value and the setting; signals are still refused only for being closed."""
    limits = Limits(history_events_warn=50, history_events_max=100)
    async with house(endless, step, memory=True, replays=False, limits=limits) as app:
        handle = await app.client.start(endless())
        with pytest.raises(WorkflowFailed) as caught:
            await handle.result()
        message = str(caught.value.__cause__)
        assert "100" in message
        assert "history_events_max" in message
        assert len(await handle.history()) <= 104


@workflow
class Counter:
    def __init__(self) -> None:
        self.count = 0

    @workflow.run
    async def run(self) -> int:
        while True:
            try:
                await workflow.wait_until(lambda: False)
            except asyncio.CancelledError:
                self.count += 1

    @workflow.signal
    def add(self) -> None:
        self.count += 1


async def test_a_run_that_only_listens_reaches_its_limit_too(any_house) -> None:
    """Signals and cancels that its code takes without asking for anything make the history longer like everything else."""
    async with any_house(Counter, limits=Limits(history_events_warn=10, history_events_max=20)) as app:
        handle = await app.client.start(Counter.run())
        for _ in range(9):
            await handle.signal(Counter.add())
            await handle.cancel()
        assert (await handle.describe()).status == "running"
        await handle.signal(Counter.add())
        with pytest.raises(WorkflowFailed, match="history_events_max"):
            await handle.result()


async def test_too_many_commands_in_one_decision_fail_the_run(house) -> None:
    limits = Limits(decision_commands_max=200)
    async with house(many_at_once, memory=True, replays=False, limits=limits) as app:
        with pytest.raises(WorkflowFailed, match="decision_commands_max"):
            await app.client.execute(many_at_once(201))
        fine = await app.client.start(many_at_once(200))
        assert (await fine.describe()).status == "running"


async def test_unread_signals_are_bounded(house) -> None:
    """A run nobody decides for takes so many signals, then says which limit was met."""
    limits = Limits(signals_unread_max=20)
    async with house(memory=True, replays=False, limits=limits) as app:
        handle = await app.client.start("never_reads")
        for n in range(20):
            await handle.signal("n", n)
        with pytest.raises(LimitExceeded, match="signals_unread_max"):
            await handle.signal("n", 20)
        app.register(never_reads)


async def test_a_decision_larger_than_a_message_travels_in_parts(house) -> None:
    """More commands than one message may hold are one decision, in one commit, all the same; beyond the decision's own limit the run fails."""
    limits = Limits(decision_commands_max=50)
    async with house(many_at_once, memory=True, replays=False, limits=limits) as app:
        app.worker.decider.commands_max = 7
        fine = await app.client.start(many_at_once(50))
        history = await fine.history()
        while len(history) < 51:
            await asyncio.sleep(0)
            history = await fine.history()
        assert {event.based_on for event in history[1:]} == {1}
        with pytest.raises(WorkflowFailed, match="decision_commands_max"):
            await app.client.execute(many_at_once(51))
