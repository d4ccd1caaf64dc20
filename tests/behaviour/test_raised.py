"""Exceptions that mean something to Python itself: raised by user code, they are that attempt's or that run's failure, no more."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from perdure import Retry, activity, workflow
from perdure.errors import WorkflowFailed
from perdure.replay import loop

RAISED: dict[str, type[BaseException]] = {
    kind.__name__: kind for kind in (StopIteration, StopAsyncIteration, GeneratorExit, KeyboardInterrupt, SystemExit)
}
ONCE = Retry(max_attempts=1)


@activity(retry=ONCE)
async def raises(name: str) -> None:
    raise RAISED[name]


@activity(retry=ONCE)
def raises_on_a_thread(name: str) -> None:
    raise RAISED[name]


@workflow
async def calls(name: str) -> None:
    await raises(name)


@workflow
async def calls_a_thread(name: str) -> None:
    await raises_on_a_thread(name)


@workflow
async def raises_itself(name: str) -> None:
    raise RAISED[name]


@pytest.mark.parametrize("flow", [calls, calls_a_thread, raises_itself], ids=lambda flow: flow.name)
@pytest.mark.parametrize("name", RAISED)
async def test_whatever_user_code_raises_is_a_failure(house, flow, name) -> None:
    """The run fails, the slot comes back, the node goes on."""
    async with house(calls, calls_a_thread, raises_itself, raises, raises_on_a_thread, memory=True) as app:
        with pytest.raises(WorkflowFailed) as caught:
            await app.client.execute(flow(name), id="w", timeout=5)
        assert name in str(caught.value.__cause__) + repr(caught.value.__cause__) + str(
            getattr(caught.value.__cause__, "type", "")
        )
        assert app.worker.running_activities == 0
        assert app.broker.credits(app.worker.name, "activity") == 200


@workflow
async def spins() -> None:
    await asyncio.sleep(0.001)
    while True:  # noqa: ASYNC110
        await asyncio.sleep(0)


@workflow
async def pauses() -> str:
    await asyncio.sleep(0.001)
    return "on"


async def test_code_that_never_rests_is_quarantined(house, t, monkeypatch) -> None:
    """Endless `sleep(0)`: the run is put aside with its line, others go on, and it can be terminated."""
    monkeypatch.setattr(loop, "CALLBACKS_MAX", 10_000)
    async with house(spins, pauses, replays=False) as app:
        handle = await app.client.start(spins(), id="spins")
        description: Any = await t.status(app, handle, "quarantined")
        assert "never comes to rest" in str(description)
        assert "await asyncio.sleep(0)" in str(description)
        assert await app.client.execute(pauses()) == "on"
        await handle.terminate("enough")
        assert (await handle.describe()).status == "terminated"


SERVES = """
    import asyncio, sys, perdure
    from perdure import activity, workflow

    @activity
    {kind} stuck():
        print("begun", flush=True)
        {body}

    @workflow
    async def w():
        await stuck()

    async def main():
        async with perdure.embedded(sys.argv[1], grace=0.05) as app:
            app.register(w, stuck)
            await (await app.client.start(w(), id="x")).result()

    asyncio.run(main())
"""
BODIES = {
    "async": ("async def", "await asyncio.sleep(600)"),
    "busy": ("async def", "\n    while True:\n        await asyncio.sleep(0)"),
    "thread": ("def", "import time; time.sleep(600)"),
}


@pytest.mark.parametrize("body", BODIES)
def test_ctrl_c_ends_the_process(tmp_path, body) -> None:
    """One Ctrl-C, whatever user code is in: the node stops in order, and a thread that never ends does not keep the process."""
    kind, rest = BODIES[body]
    program = textwrap.dedent(SERVES).format(kind=kind, body=rest)
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "data")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
            os.kill(process.pid, signal.SIGINT)
            _, errors = process.communicate(timeout=10)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in errors
    if body == "thread":
        assert "run on threads, which cannot be stopped, and are left behind: stuck" in errors
