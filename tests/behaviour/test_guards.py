"""What workflow code must not do is refused, named with its line, and quarantines the run, so that mended code goes on with it."""

import asyncio
import inspect
import logging
import socket
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import activity, workflow
from perdure.worker import worker as worker_module


@activity
async def step() -> int:
    return 1


def opens() -> None:
    open("/etc/hostname").close()  # noqa: PTH123


def reads_path() -> None:
    Path("/etc/hostname").read_text()


def connects() -> None:
    socket.create_connection(("127.0.0.1", 9))


def starts_thread() -> None:
    threading.Thread(target=print).start()


def sleeps() -> None:
    time.sleep(0.001)


def spawns() -> None:
    subprocess.run(["true"], check=False)


FORBIDDEN = {function.__name__: function for function in (opens, reads_path, connects, starts_thread, sleeps, spawns)}


@workflow(name="guarded")
async def breaks(what: str, *, catch: bool) -> str:
    await step()
    try:
        FORBIDDEN[what]()
    except Exception:
        if not catch:
            raise
    return "got away"


@workflow(name="guarded")
async def mended(what: str, *, catch: bool) -> str:
    await step()
    return "mended"


@workflow(name="guarded")
async def uses_executor(what: str, *, catch: bool) -> str:
    await step()
    try:
        await asyncio.to_thread(len, "x")
    except Exception:
        if not catch:
            raise
    return "got away"


@pytest.mark.rule("O8")
@pytest.mark.rule("F24")
@pytest.mark.parametrize("catch", [False, True], ids=["raised", "caught"])
@pytest.mark.parametrize("what", FORBIDDEN)
async def test_forbidden_calls_quarantine(house, t, what: str, catch: bool) -> None:
    """The place is named, file and line; the mended build completes the run."""
    async with house(breaks, step, build_id="bad") as app:
        handle = await app.client.start(breaks(what, catch=catch), id="g")
        description = await t.status(app, handle, "quarantined")
        said = description.pending[0].state
        line = inspect.getsourcelines(FORBIDDEN[what])[1] + 1
        assert f"{Path(__file__).name}:{line}" in said
        assert (await t.types(handle))[-1] != "completed"
    async with house(mended, step, build_id="good") as app:
        assert await app.client.handle("g").result() == "mended"


@pytest.mark.parametrize("catch", [False, True], ids=["raised", "caught"])
async def test_executors_quarantine(house, t, catch: bool) -> None:
    """asyncio.to_thread and its like are none of a workflow's."""
    async with house(uses_executor, step, build_id="bad") as app:
        handle = await app.client.start(uses_executor("x", catch=catch), id="g")
        description = await t.status(app, handle, "quarantined")
        assert "run_in_executor" in description.pending[0].state
    async with house(mended, step, build_id="good") as app:
        assert await app.client.handle("g").result() == "mended"


@workflow
async def fine_after() -> str:
    await step()
    return "fine"


async def test_others_are_not_touched(house, t) -> None:
    """One bad run beside many good ones."""
    async with house(breaks, fine_after, step) as app:
        bad = await app.client.start(breaks("opens", catch=False))
        results = await asyncio.gather(*(app.client.execute(fine_after()) for _ in range(10)))
        assert results == ["fine"] * 10
        await t.status(app, bad, "quarantined")


@workflow
async def spins(seconds: float) -> str:
    clock = CLOCK["real"]
    end = clock() + seconds
    while clock() < end:
        pass
    return "spun"


CLOCK: dict[str, Any] = {"real": time.thread_time}


@pytest.mark.scenario(59)
async def test_a_workflow_that_blocks_is_named(house, caplog) -> None:
    """The watchdog says which workflow holds the loop's thread, and where; nothing is interrupted."""
    CLOCK["real"] = time.CLOCK_THREAD_CPUTIME_ID and (lambda: time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID))
    with caplog.at_level(logging.WARNING, logger=worker_module.__name__):
        async with house(spins, replays=False) as app:
            app.worker._watchdog._limit_s = 0.05
            assert await app.client.execute(spins(1.0), id="spinner") == "spun"
    text = "\n".join(record.getMessage() for record in caplog.records)
    assert "spinner" in text
    assert Path(__file__).name in text


NODE: dict[str, Any] = {}

REACHING: dict[str, Callable[[], Awaitable[Any]]] = {
    "client.start()": lambda: NODE["app"].client.start(fine_after(), id="other"),
    "client.execute()": lambda: NODE["app"].client.execute(fine_after(), id="other"),
    "client.signal_with_start()": lambda: NODE["app"].client.signal_with_start(fine_after(), "s", id="other"),
    "client.list()": lambda: NODE["app"].client.list(limit=5),
    "client.count()": lambda: NODE["app"].client.count(type="x"),
    "handle.result()": lambda: NODE["app"].client.handle("g").result(),
    "handle.signal()": lambda: NODE["app"].client.handle("g").signal("s"),
    "handle.cancel()": lambda: NODE["app"].client.handle("g").cancel(),
    "handle.terminate()": lambda: NODE["app"].client.handle("g").terminate(),
    "handle.reset()": lambda: NODE["app"].client.handle("g").reset(1),
    "handle.pause()": lambda: NODE["app"].client.handle("g").pause(),
    "handle.resume()": lambda: NODE["app"].client.handle("g").resume(),
    "handle.describe()": lambda: NODE["app"].client.handle("g").describe(),
    "handle.history()": lambda: NODE["app"].client.handle("g").history(),
}


@workflow(name="guarded")
async def reaches_out(what: str, *, catch: bool) -> str:
    await step()
    try:
        await REACHING[what]()
    except Exception:
        if not catch:
            raise
    return "got away"


@pytest.mark.parametrize("catch", [False, True], ids=["raised", "caught"])
@pytest.mark.parametrize("what", REACHING)
async def test_the_client_is_none_of_a_workflow(house, t, what: str, catch: bool) -> None:
    """Named with its line, and nothing is started; the mended build completes the run."""
    async with house(reaches_out, fine_after, step, build_id="bad") as app:
        NODE["app"] = app
        handle = await app.client.start(reaches_out(what, catch=catch), id="g")
        said = (await t.status(app, handle, "quarantined")).pending[0].state
        assert f"{what} is not allowed in workflow code ({__file__}:" in said
        assert await app.client.count() == 1
    async with house(mended, step, build_id="good") as app:
        assert await app.client.handle("g").result() == "mended"
