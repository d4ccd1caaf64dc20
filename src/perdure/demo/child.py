"""A process of the demo: started, listened to, killed or stopped, and never left behind.

Each lives in a session of its own, so that Ctrl-C reaches only the demo itself, and holds a pipe from the demo as its standard input:
should the demo be killed, the pipe ends and the process ends with it.
"""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from pathlib import Path
from typing import Final

STOP_GRACE_S: Final = 10.0
"""So long may a process take to stop on request before it is killed."""


class ChildDiedError(Exception):
    """A process of the demo ended by itself, which none should; the message ends with the last lines of its log."""


class Child:
    """One process. Its standard error goes to a log file, its standard output is read line by line."""

    def __init__(self, name: str, process: Process, log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log

    @classmethod
    async def start(cls, module: str, *arguments: str, log: Path, environment: Mapping[str, str] | None = None) -> "Child":
        """Run `python -m module`. `environment` comes on top of what there is."""
        with log.open("ab") as stderr:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", module, *arguments),
                stdin=PIPE,
                stdout=PIPE,
                stderr=stderr,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )
        return cls(module.rpartition(".")[2], process, log)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.returncode

    async def line(self) -> str:
        """The next line it says; empty when it has said its last."""
        assert self._process.stdout is not None
        return (await self._process.stdout.readline()).decode().strip()

    async def wait(self) -> int:
        """Its exit code, when it has ended."""
        return await self._process.wait()

    async def kill(self) -> None:
        """SIGKILL, the way power cuts and out-of-memory killers do it. Returns when it is gone."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    async def stop(self) -> None:
        """Ask it to stop; kill it when it does not. Returns when it is gone."""
        if self._process.returncode is None:
            self._process.terminate()
        try:
            async with asyncio.timeout(STOP_GRACE_S):
                await self._process.wait()
        except TimeoutError:
            await self.kill()

    async def died(self) -> ChildDiedError:
        """The error to raise once it has said its last without being asked to."""
        await self._process.wait()
        last = self._log.read_text(errors="replace").splitlines()[-15:]
        return ChildDiedError("\n".join([f"{self.name} ended by itself (exit code {self._process.returncode})", *last]))
