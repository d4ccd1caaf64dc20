"""Workers and nodes in processes of their own that freeze, die and come back: what a zombie does changes nothing, what lives is kept."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.sdk.client import Client
from perdure.store.export import lines_of

CHILD = Path(__file__).with_name("zombie_child.py")
LIVES_S = 3.0
"""So long do claims live here."""
SLACK_S = 6.0
"""What a crowded machine may take on top."""


class Child:
    """A process, and what it says."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @property
    def pid(self) -> int:
        return self.process.pid

    async def says(self, *words: str) -> None:
        """Wait until it says that; what it says before is not of interest."""
        assert self.process.stdout is not None
        async with asyncio.timeout(30):
            while line := (await self.process.stdout.readline()).decode():
                if line.split() == list(words):
                    return
        raise AssertionError(f"it never said {' '.join(words)!r}")

    async def freezes(self) -> None:
        """Wait until it has stopped itself."""
        async with asyncio.timeout(30):
            await asyncio.to_thread(os.waitid, os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def drains(self) -> None:
        """Tell it to leave in order, and wait until everything it had to say has been answered."""
        self.signal(signal.SIGTERM)
        await self.says("drained")
        assert await asyncio.wait_for(self.process.wait(), 30) == 0


class House:
    """One data directory, the node that serves it, and workers."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.children: list[Child] = []
        self.url = ""
        self.node: Child

    async def _spawn(self, *command: str, **env: str) -> Child:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, env={**os.environ, **env}
        )
        self.children.append(Child(process))
        return self.children[-1]

    async def serve(self) -> None:
        """Start a node, on the port of the one before if there was one."""
        port = self.url.rpartition(":")[2] or "0"
        command = [sys.executable, "-m", "perdure", "server", "--data", str(self.place / "data"), "--port", port]
        self.node = await self._spawn(*command, PERDURE_LIMITS__CLAIM_LIVES_S=str(LIVES_S))
        assert self.node.process.stdout is not None
        line = (await asyncio.wait_for(self.node.process.stdout.readline(), 30)).decode()
        self.url = next(word for word in line.split() if word.startswith("http"))

    async def worker(self, build: str, *more: str) -> Child:
        child = await self._spawn(sys.executable, str(CHILD), self.url, str(self.place), build, *more)
        await child.says("ready")
        return child

    def open_gate(self, child: Child) -> None:
        """Let the activity that waits in a worker end."""
        descriptor = os.open(self.place / f"gate-{child.pid}", os.O_WRONLY)
        os.close(descriptor)

    async def end(self) -> None:
        for child in self.children:
            if child.process.returncode is None:
                child.process.kill()
            await child.process.wait()


async def exported(client: Client, workflow_id: str) -> bytes:
    """A run as it is exported, notes and all."""
    return b"".join(lines_of(client.namespace, await client.frontend.record(client.namespace, workflow_id)))


async def until(holds: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Ask the node until it says so."""
    async with asyncio.timeout(30):
        while not (found := await holds()):  # noqa: ASYNC110 – it is in another process
            await asyncio.sleep(0.05)
    return found


@asynccontextmanager
async def house(place: Path) -> AsyncIterator[tuple[House, Client]]:
    built = House(place)
    try:
        await built.serve()
        async with await perdure.connect(built.url) as client:
            yield built, client
    finally:
        await built.end()


@pytest.mark.timeout(120)
@pytest.mark.rule("F5")
@pytest.mark.rule("F6")
@pytest.mark.scenario(43)
def test_a_frozen_workers_result_and_heartbeat_are_dropped(tmp_path: Path) -> None:
    """It is stopped past its claim, another worker takes the attempt that follows; when the first wakes, beats and reports, not a byte of
    the history changes, and the second one's claim stands."""

    async def proof() -> None:
        async with house(tmp_path) as (built, client):
            zombie = await built.worker("ann")
            handle = await client.start("order", "book", id="o1")
            await zombie.says("began", "1")
            zombie.signal(signal.SIGSTOP)
            frozen = time.monotonic()
            other = await built.worker("bob")
            await other.says("began", "2")
            assert time.monotonic() - frozen < LIVES_S + SLACK_S  # lease expiry redelivers
            await until(lambda: _claimed_again(client))
            before = await exported(client, "o1")
            zombie.signal(signal.SIGCONT)
            built.open_gate(zombie)
            await zombie.says("ended", "1")
            await zombie.drains()
            assert await exported(client, "o1") == before
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
def test_a_frozen_workers_decision_is_dropped(tmp_path: Path) -> None:
    """It freezes while it decides, another decides in its place; what it posts when it wakes is dropped, the history bytes stay."""

    async def proof() -> None:
        async with house(tmp_path) as (built, client):
            zombie = await built.worker("ann", "freeze")
            handle = await client.start("hesitant", "book", id="o1")
            await handle.signal("begin", "now")
            await zombie.freezes()
            other = await built.worker("bob")

            async def has_decided() -> bool:
                return any(event.type == "timer_started" for event in await handle.history())

            await until(has_decided)
            before = await exported(client, "o1")
            zombie.signal(signal.SIGCONT)
            await zombie.drains()
            assert await exported(client, "o1") == before
            await handle.signal("go", "on")
            assert await handle.result(timeout=20) == "book by bob"
            await other.drains()

    asyncio.run(proof())


@pytest.mark.timeout(120)
@pytest.mark.rule("F3")
@pytest.mark.rule("O1")
@pytest.mark.scenario(54)
@pytest.mark.scenario(63)
def test_an_activity_outlives_its_node_twice(tmp_path: Path) -> None:
    """The node is killed under a connected worker, twice; the attempt goes on, and its result is taken by the third."""

    async def proof() -> None:
        async with house(tmp_path) as (built, client):
            worker = await built.worker("ann")
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
