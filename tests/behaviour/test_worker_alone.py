"""`perdure.Worker`: on several queues, run and stopped by hand, hurried, entered again."""

import asyncio
from typing import Any

import pytest

from perdure import Worker, activity, workflow
from perdure.errors import InvalidArgument

BEGUN: list[str] = []
SEEN: dict[str, list[int]] = {}


@activity
async def once_more(key: str) -> int:
    """The first attempt ends only when it is cut short."""
    SEEN.setdefault(key, []).append(activity.info().attempt)
    if activity.info().attempt == 1:
        await asyncio.Event().wait()
    return activity.info().attempt


@activity
async def until_stopping(key: str) -> str:
    BEGUN.append(key)
    while not activity.is_stopping():  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    return "ended in time"


@workflow
async def waits(key: str) -> str:
    return await until_stopping(key)


@workflow
async def cut(key: str) -> int:
    return await once_more(key)


async def begun(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_one_worker_serves_several_queues(house: Any) -> None:
    """Runs of each of its queues are carried out; a queue named twice is one."""
    async with (
        house() as app,
        Worker(app.client, queue=["left", "right", "left"], workflows=[cut], activities=[once_more]) as worker,
    ):
        assert worker.queues == ("left", "right")
        SEEN.clear()
        for queue in worker.queues:
            handle = await app.client.start(cut(queue), id=queue, queue=queue)
            await begun(lambda queue=queue: queue in SEEN)
            await handle.terminate("seen")


async def test_stop_ends_run_and_lets_activities_end(house: Any) -> None:
    """What sees `is_stopping` and returns is recorded: nothing is run again."""
    async with house() as app:
        worker = Worker(app.client, queue="line", workflows=[waits], activities=[until_stopping])
        running = asyncio.create_task(worker.run())
        BEGUN.clear()
        handle = await app.client.start(waits("a"), id="a", queue="line")
        await begun(lambda: BEGUN)
        worker.stop()
        async with asyncio.timeout(20):
            await running
        assert BEGUN == ["a"]
        async with Worker(app.client, queue="line", workflows=[waits], activities=[until_stopping]):
            assert await handle.result(timeout=20) == "ended in time"
        assert BEGUN == ["a"]


@pytest.mark.scenario(55)
async def test_a_second_stop_ends_the_grace_period(house: Any) -> None:
    """The attempt is cut at once, reported lost, and run once more by the next worker, which may be the same object."""
    async with house() as app:
        worker = Worker(app.client, queue="line", workflows=[cut], activities=[once_more], grace=600)
        SEEN.clear()
        running = asyncio.create_task(worker.run())
        handle = await app.client.start(cut("b"), id="b", queue="line")
        await begun(lambda: SEEN)
        worker.stop()
        await asyncio.sleep(0)
        assert not running.done()
        worker.stop()
        async with asyncio.timeout(20):
            await running
        async with worker:
            assert await handle.result(timeout=20) == 2
        assert SEEN == {"b": [1, 2]}


async def test_what_cannot_be_a_worker_is_refused(house: Any) -> None:
    """No queue, two things of one name, entered twice."""
    async with house() as app:
        with pytest.raises(InvalidArgument, match="one queue at least"):
            Worker(app.client, queue=[])
        with pytest.raises(InvalidArgument, match="max_activities"):
            Worker(app.client, max_activities=0)
        async with Worker(app.client, workflows=[cut]) as worker:
            with pytest.raises(InvalidArgument, match="runs already"):
                await worker.__aenter__()
