"""`max_activities`: so many run at once and no more, whatever way they come and however many queues there are."""

import asyncio
import threading
from typing import Any

import pytest

from perdure import Retry, Worker, activity, workflow


class Load:
    """What runs now, and the most that ever did."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0
        self.full = asyncio.Event()
        self.wanted = 0

    async def pass_through(self) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        if self.now >= self.wanted:
            self.full.set()
        try:
            # Until the limit was reached once everyone stays; afterwards they overlap as the loop has it.
            await self.full.wait()
            for _ in range(3):
                await asyncio.sleep(0)
        finally:
            self.now -= 1


LOAD: dict[str, Load] = {}


@activity
async def visit(key: str) -> None:
    await LOAD[key].pass_through()


@workflow
async def visits(key: str) -> str:
    await asyncio.gather(visit(key), visit(key), visit(key))
    await visit(key)
    return "done"


@workflow
async def visit_once(key: str) -> str:
    await visit.options(queue="line")(key)
    return "done"


@pytest.mark.parametrize("queues", [["a"], ["a", "b"], ["a", "b", "c"]], ids=len)
@pytest.mark.parametrize("limit", [1, 2, 10])
async def test_as_many_run_as_may_and_no_more(house, queues, limit) -> None:
    """The most that run at once is the limit, under load from every queue; all ends without a sweep having had to help."""
    key = f"{len(queues)}x{limit}"
    load = LOAD[key] = Load()
    load.wanted = limit
    async with house(visits, visit, queues=queues, max_activities=limit, memory=True, replays=False) as app:
        runs = [app.client.execute(visits(key), id=f"{queue}{n}", queue=queue) for queue in queues for n in range(15)]
        assert await asyncio.gather(*runs) == ["done"] * len(runs)
        assert load.most == limit
        assert app.frontend.sweeper.repaired == 0
        assert app.worker.running_activities == 0
        assert app.broker.credits(app.worker.name, "activity") == limit  # every slot has come back


@pytest.mark.scenario(89)
@pytest.mark.scenario(91)
async def test_a_limit_is_each_workers_own(house) -> None:
    """Two of a hundred are taken by the first worker and no more; a second one has two of its own at once, which the first did not lock."""
    load = LOAD["each"] = Load()
    load.wanted = 4
    limits: Any = {"queue": "line", "activities": [visit], "max_activities": 2}
    async with house(visit_once, memory=True, replays=False) as app:
        runs = [await app.client.start(visit_once("each"), id=f"r{n}") for n in range(100)]
        async with Worker(app.client, **limits):
            while load.now < 2:  # noqa: ASYNC110  turns of the loop, no time
                await asyncio.sleep(0)
            claimed = [row for run in runs for row in (await run.describe()).pending if row.worker]
            assert len(claimed) == 2
            async with Worker(app.client, **limits):
                assert [await run.result(timeout=20) for run in runs] == ["done"] * 100
    assert load.most == 4


ENTERED: list[int] = []
LET_GO = threading.Event()


@activity(start_to_close=0.2, retry=Retry(initial=0.01, max_attempts=2))
def overstays() -> str:
    ENTERED.append(activity.info().attempt)
    if len(ENTERED) == 1:
        LET_GO.wait(5)
    return "ok"


@workflow
async def waits_for_a_thread() -> str:
    return await overstays()


async def test_a_slot_is_free_when_its_thread_is(house, t) -> None:
    """Past its time, a sync attempt still holds its thread: the next attempt begins when that is free, and uses no time before."""
    ENTERED.clear()
    async with house(waits_for_a_thread, overstays, max_activities=1, replays=False) as app:
        handle = await app.client.start(waits_for_a_thread(), id="overstays")
        failed: Any = await t.recorded(app, handle, "attempt_failed")
        assert failed.kind == "start_to_close"
        assert app.worker.running_activities == 1
        LET_GO.set()
        assert await handle.result() == "ok"
    assert ENTERED == [1, 2]
