"""Which runs may be parked, and that a parked one costs no memory of its owner."""

import asyncio
import gc
import tracemalloc
from pathlib import Path

import pytest
from msgspec.structs import replace

import perdure
from perdure import workflow
from perdure.core.limits import LIMITS
from perdure.engine.live import LiveWorkflow
from perdure.node import Node


@workflow
async def waits() -> str:
    return await workflow.receive("go", str)


def node(path: Path) -> Node:
    app = perdure.embedded(path, limits=replace(LIMITS, idle_runs_kept=0), max_cached_runs=1)
    app.register(waits)
    return app


async def all_parked(app: Node) -> None:
    """However long their worker takes to come to rest: how many turns of the loop that is depends on the machine."""
    async with asyncio.timeout(30):
        while list(app.frontend.live_workflows()):
            await app.frontend.parking.look()
            await app.frontend.settled()
            await asyncio.sleep(0)


def held() -> int:
    gc.collect()
    return sum(isinstance(thing, LiveWorkflow) for thing in gc.get_objects())


def test_parked_runs_are_not_in_memory(tmp_path: Path) -> None:
    """Of five hundred runs that wait nothing is left in the owner, and next to nothing of the process is theirs."""

    async def proof() -> None:
        async with node(tmp_path) as app:
            for n in range(100):
                await app.client.start(waits(), id=f"warm-{n}")
            await all_parked(app)
            await app.client.count()
            before = held()
            tracemalloc.start()
            for n in range(500):
                await app.client.start(waits(), id=f"w-{n}")
            await all_parked(app)
            await app.client.count()
            gc.collect()
            grown, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert held() <= before
            assert grown / 500 < 1_000
            handle = app.client.handle("w-77", workflow=waits)
            await handle.signal("go", "on")
            assert await handle.result() == "on"

    asyncio.run(proof())


def test_a_look_that_fails_is_followed_by_another(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Housekeeping that fails once goes on."""

    async def proof() -> None:
        async with node(tmp_path) as app:
            looks: list[int] = []
            done = asyncio.Event()

            async def look() -> bool:
                looks.append(len(looks))
                if len(looks) == 1:
                    raise OSError("no")
                done.set()
                return False

            app.frontend.parking.hurry(1_000)
            app.frontend.parking.look = look  # type: ignore[method-assign]
            await asyncio.wait_for(done.wait(), 20)

    asyncio.run(proof())
    assert "looking for runs to park failed" in caplog.text
