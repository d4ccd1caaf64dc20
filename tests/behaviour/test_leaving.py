"""Workers that come and go on a living node: nothing of theirs is lost, and nothing of them is kept."""

import asyncio
import functools
import gc
import threading
import weakref
from contextlib import suppress
from typing import Any

import pytest

from perdure import Retry, Worker, activity, workflow
from perdure.errors import ActivityError
from perdure.worker.threads import DaemonThreads

BEGUN: list[str] = []


@activity(retry=Retry(initial=0.001, jitter=0))
async def once_more(key: str) -> int:
    return activity.info().attempt


@workflow
async def one_step(key: str) -> int:
    return await once_more(key)


@activity
async def endless(key: str) -> None:
    BEGUN.append(key)
    await asyncio.Event().wait()


@workflow
async def waits_for_endless(key: str) -> None:
    await endless(key)


async def test_attempts_cut_before_their_first_step_are_run_elsewhere(house: Any) -> None:
    """A worker that leaves without grace has them reported lost, also those that had only just been made."""
    async with house() as app:
        worker = Worker(app.client, queue="line", workflows=[one_step], activities=[once_more], grace=0)
        async with worker:
            handles = [await app.client.start(one_step(str(n)), id=f"r-{n}", queue="line") for n in range(5)]
        async with Worker(app.client, queue="line", workflows=[one_step], activities=[once_more]):
            for handle in handles:
                assert await handle.result(timeout=10) >= 1


def test_a_thread_the_system_refuses_takes_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next call is run once threads can be started again."""
    threads = DaemonThreads(1)
    start = threading.Thread.start
    refusals = iter([True])

    def refusing(self: threading.Thread) -> None:
        if next(refusals, False):
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", refusing)
    with pytest.raises(RuntimeError, match="can't start"):
        threads.submit(int, "1")
    assert threads.submit(int, "2").result(timeout=10) == 2
    threads.shutdown()


async def test_a_stop_that_is_cancelled_goes_on(house: Any) -> None:
    """The second call waits for the end the first one has begun."""
    async with house() as app:
        worker = Worker(app.client, queue="line", workflows=[waits_for_endless], activities=[endless], grace=0.05)
        await worker.__aenter__()
        handle = await app.client.start(waits_for_endless("x"), id="x", queue="line")
        while "x" not in BEGUN:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        stopping = asyncio.ensure_future(worker.__aexit__(None, None, None))
        await asyncio.sleep(0)
        stopping.cancel()
        with suppress(asyncio.CancelledError):
            await stopping
        await worker.__aexit__(None, None, None)
        assert worker._worker.running_activities == 0
        await handle.terminate()


async def test_workers_that_left_are_not_kept(house: Any) -> None:
    """A node does not hold on to whoever once worked for it."""
    async with house() as app:
        gone = []
        for _ in range(3):
            worker = Worker(app.client, queue="line", workflows=[one_step], activities=[once_more])
            async with worker:
                pass
            gone.append(weakref.ref(worker._worker))
            del worker
        gc.collect()
        assert [ref() for ref in gone] == [None, None, None]


def plain(fn: Any) -> Any:
    @functools.wraps(fn)
    def inner(*arguments: Any) -> Any:
        return fn(*arguments)

    return inner


@activity(start_to_close=0.05, retry=Retry(max_attempts=1))
@plain
async def wrapped() -> None:
    await asyncio.Event().wait()


@workflow
async def calls_wrapped() -> str:
    try:
        await wrapped()
    except ActivityError as error:
        return error.kind
    return "?"


async def test_an_async_function_in_a_plain_one_hears_of_its_end(house: Any, t: Any) -> None:
    """Its timeout ends it and frees its slot."""
    async with house(calls_wrapped, wrapped) as app:
        assert await app.client.execute(calls_wrapped(), id="w") == "start_to_close"
        async with asyncio.timeout(10):
            while app.worker.running_activities:  # noqa: ASYNC110
                await asyncio.sleep(0.001)


async def test_stopping_the_node_from_workflow_code_is_refused(house: Any) -> None:
    """It quarantines the run, and the node goes on and can be stopped."""
    async with house(replays=False) as app:

        @workflow
        async def stops_the_node() -> None:
            await app.stop()

        app.register(stops_the_node, one_step, once_more)
        handle = await app.client.start(stops_the_node(), id="s")
        while (await handle.describe()).status != "quarantined":  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        assert await app.client.execute(one_step("k"), id="k") == 1
        await handle.terminate()
