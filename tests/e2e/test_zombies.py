"""Workers and nodes in processes of their own that freeze, die and come back: what a zombie does changes nothing, what lives is kept."""

import asyncio
import signal
import time
from typing import Any

import pytest

from perdure.sdk.client import Client

CHILD = "zombie_child.py"
LIVES_S = 3.0
"""So long do claims live in these houses."""
SLACK_S = 6.0
"""What a crowded machine may take on top."""


@pytest.mark.timeout(120)
@pytest.mark.rule("F5")
@pytest.mark.rule("F6")
@pytest.mark.scenario(43)
def test_a_frozen_workers_result_and_heartbeat_are_dropped(serve: Any) -> None:
    """It is stopped past its claim, another worker takes the attempt that follows; when the first wakes, beats and reports, not a byte of
    the history changes, and the second one's claim stands."""

    async def proof() -> None:
        async with serve() as (built, client):
            zombie = await built.worker(CHILD, "ann")
            handle = await client.start("order", "book", id="o1")
            await zombie.says("began", "1")
            zombie.signal(signal.SIGSTOP)
            frozen = time.monotonic()
            other = await built.worker(CHILD, "bob")
            await other.says("began", "2")
            assert time.monotonic() - frozen < LIVES_S + SLACK_S  # lease expiry redelivers
            await built.until(lambda: _claimed_again(client))
            before = await built.exported(client, "o1")
            zombie.signal(signal.SIGCONT)
            built.open_gate(zombie)
            await zombie.says("ended", "1")
            await zombie.drains()
            assert await built.exported(client, "o1") == before
            built.open_gate(other)
            await other.says("ended", "2")
            await handle.signal("go", "on")
            assert await handle.result(timeout=20) == "book by bob"
            events = [event.type for event in await handle.history()]
            assert events.count("activity_completed") == 1
            assert sorted(events) == ["activity_completed", "activity_scheduled", "completed", "signal_received", "started"]

    asyncio.run(proof())


async def _claimed_again(client: Client) -> bool:
    """The second attempt's claim has outlived its first beat, and is written: from here on nothing writes by itself."""
    record = await client.frontend.record(client.namespace, "o1")
    return any(note.type == "activity_claimed" and getattr(note, "attempt", 0) == 2 for note in record.notes)


@pytest.mark.timeout(120)
@pytest.mark.rule("F4")
@pytest.mark.rule("F5")
@pytest.mark.scenario(28)
def test_a_frozen_workers_decision_is_dropped(serve: Any) -> None:
    """It freezes while it decides, another decides in its place; what it posts when it wakes is dropped, the history bytes stay."""

    async def proof() -> None:
        async with serve() as (built, client):
            zombie = await built.worker(CHILD, "ann", "freeze")
            handle = await client.start("hesitant", "book", id="o1")
            await handle.signal("begin", "now")
            await zombie.freezes()
            other = await built.worker(CHILD, "bob")

            async def has_decided() -> bool:
                return any(event.type == "timer_started" for event in await handle.history())

            await built.until(has_decided)
            before = await built.exported(client, "o1")
            zombie.signal(signal.SIGCONT)
            await zombie.drains()
            assert await built.exported(client, "o1") == before
            await handle.signal("go", "on")
            assert await handle.result(timeout=20) == "book by bob"
            await other.drains()

    asyncio.run(proof())


@pytest.mark.timeout(120)
@pytest.mark.rule("F3")
@pytest.mark.rule("O1")
@pytest.mark.scenario(54)
@pytest.mark.scenario(63)
def test_an_activity_outlives_its_node_twice(serve: Any) -> None:
    """The node is killed under a connected worker, twice; the attempt goes on, and its result is taken by the third."""

    async def proof() -> None:
        async with serve() as (built, client):
            worker = await built.worker(CHILD, "ann")
            handle = await client.start("order", "book", id="o1")
            await worker.says("began", "1")
            for _ in range(2):
                built.node.signal(signal.SIGKILL)
                await built.node.process.wait()
                await built.serve()
                await asyncio.sleep(LIVES_S / 2)  # it lives on through what is left of a claim's period, and beyond
                assert (await handle.describe()).status == "running"
            await asyncio.sleep(LIVES_S)
            built.open_gate(worker)
            await worker.says("ended", "1")
            await handle.signal("go", "on")
            assert await handle.result(timeout=20) == "book by ann"
            notes = [entry.type for entry in await handle.history(notes=True)]
            assert "attempt_failed" not in notes
            await worker.drains()

    asyncio.run(proof())
