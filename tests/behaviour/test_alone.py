"""What a node needs, and what workers hold: nothing beside it, and nothing that cannot be had again."""

import asyncio
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from perdure import Worker, activity, workflow

ALONE = """
import asyncio, sys
import perdure
from perdure import activity, workflow

def alone(event, arguments):
    if event in ("socket.connect", "subprocess.Popen", "os.system", "os.posix_spawn", "os.exec"):
        raise SystemExit(f"{event} {arguments}")

@activity
async def greet(name: str) -> str:
    return f"hello {name}"

@workflow
async def hello(name: str) -> str:
    return await greet(name)

async def main() -> None:
    async with perdure.embedded(sys.argv[1]) as app:
        app.register(hello, greet)
        print(await app.client.execute(hello("world"), id="alone"))

sys.addaudithook(alone)
asyncio.run(main())
unwanted = {"starlette", "uvicorn", "asyncpg", "aio_pika", "redis", "confluent_kafka"} & set(sys.modules)
assert not unwanted, unwanted
"""


@pytest.mark.rule("F26")
def test_a_node_runs_with_nothing_beside_it(tmp_path: Path) -> None:
    """No connection is opened, no process started, no server's code loaded: a directory is all it takes."""
    script = tmp_path / "alone.py"
    script.write_text(textwrap.dedent(ALONE), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-I", str(script), str(tmp_path / "data")], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("hello world\n", "", 0)


@activity
async def ask(what: str) -> str:
    return what.upper()


@workflow
async def leased() -> list[str]:
    found = [await ask("one")]
    await asyncio.sleep(0.01)
    found.append(await workflow.receive("approve", str))
    found.append(await ask("two"))
    return found


@pytest.mark.rule("F1")
@pytest.mark.rule("F2")
async def test_each_part_of_a_run_may_be_done_by_another_worker(house: Any, t: Any) -> None:
    """Claims, durable timers and signals: a run goes from worker to worker, each of which began with nothing."""
    async with house() as app:
        handle = await app.client.start("leased", id="l", queue="line")
        async with Worker(app.client, queue="line", workflows=[leased], activities=[ask], build_id="b"):
            await t.recorded(app, handle, "timer_started")
        async with Worker(app.client, queue="line", workflows=[leased], activities=[ask], build_id="b"):
            await t.recorded(app, handle, "timer_fired")
        await handle.signal("approve", "yes", signal_id="s")
        async with Worker(app.client, queue="line", workflows=[leased], activities=[ask], build_id="b"):
            assert await handle.result() == ["ONE", "yes", "TWO"]
        workers = {entry.worker for entry in await handle.history(notes=True) if entry.type == "activity_claimed"}
        assert len(workers) == 2


@activity(heartbeat=0.15)
def beats_on_a_thread(beats: int) -> str:
    for number in range(beats):
        activity.heartbeat(number)
        time.sleep(0.02)
    return "alive"


@activity
async def blocks_the_loop(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251 – the fault under test: user code that holds the loop


@workflow
async def both() -> str:
    alive, _ = await asyncio.gather(beats_on_a_thread(30), blocks_the_loop(0.4))
    return alive


@pytest.mark.scenario(58)
async def test_a_blocked_loop_makes_no_activity_miss_its_heartbeat(house: Any) -> None:
    """Beats that were given while the loop stood still count before anybody judges them late."""
    async with house(both, beats_on_a_thread, blocks_the_loop) as app:
        handle = await app.client.start(both(), id="both")
        assert await handle.result() == "alive"
        assert "attempt_failed" not in [entry.type for entry in await handle.history(notes=True)]


@workflow
async def beaten() -> str:
    return await beats_on_a_thread(30)


@pytest.mark.scenario(56)
async def test_beats_go_on_while_the_node_stops(house: Any, t: Any) -> None:
    """An activity that works through the grace period is heard to its end: its result is recorded by the first attempt."""
    async with house(beaten, beats_on_a_thread) as app:
        handle = await app.client.start(beaten(), id="beaten")
        await t.recorded(app, handle, "activity_scheduled")
    async with house(beaten, beats_on_a_thread) as app:
        assert await app.client.handle("beaten").result() == "alive"
        assert "attempt_failed" not in [entry.type for entry in await app.client.handle("beaten").history(notes=True)]
