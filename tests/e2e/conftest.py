"""A node and its workers in processes of their own, for tests of what becomes of them."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import perdure
from perdure.sdk.client import Client
from perdure.store.export import lines_of

FOLDER = Path(__file__).parent
LIVES_S = 3.0
"""So long do claims live here."""


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

    async def worker(self, script: str, build: str, *more: str) -> Child:
        """Start a worker: a script of this folder that says `ready` when it is."""
        child = await self._spawn(sys.executable, str(FOLDER / script), self.url, str(self.place), build, *more)
        await child.says("ready")
        return child

    async def exported(self, client: Client, workflow_id: str, *, notes: bool = True) -> bytes:
        """A run as it is exported."""
        record = await client.frontend.record(client.namespace, workflow_id)
        return b"".join(lines_of(client.namespace, record if notes else replace(record, notes=())))

    async def until(self, holds: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Ask a node until it says so."""
        async with asyncio.timeout(30):
            while not (found := await holds()):  # noqa: ASYNC110 – it is in another process
                await asyncio.sleep(0.05)
        return found

    def open_gate(self, child: Child) -> None:
        """Let the activity that waits in a worker end."""
        descriptor = os.open(self.place / f"gate-{child.pid}", os.O_WRONLY)
        os.close(descriptor)

    async def end(self) -> None:
        for child in self.children:
            if child.process.returncode is None:
                child.process.kill()
            await child.process.wait()


@asynccontextmanager
async def house(place: Path) -> AsyncIterator[tuple[House, Client]]:
    built = House(place)
    try:
        await built.serve()
        async with await perdure.connect(built.url) as client:
            yield built, client
    finally:
        await built.end()


@pytest.fixture
def serve(tmp_path: Path) -> Callable[[], AbstractAsyncContextManager[tuple[House, Client]]]:
    """Begins a house with a running node, and a client of it."""
    return lambda: house(tmp_path)
