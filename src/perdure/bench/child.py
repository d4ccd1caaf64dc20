"""A process that is measured: started with one of perdure's own commands, known by the first line it prints, its CPU told by the system."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from perdure.core.errors import Unavailable

READY_S: Final = 30.0
STOP_S: Final = 20.0
_TICK: Final = os.sysconf("SC_CLK_TCK")


class Child:
    """`facts` is what the process said when it was ready. Use it with `async with`; it is stopped in order, by its own pid."""

    def __init__(self, name: str, *arguments: str, log: Path) -> None:
        """`perdure *arguments --output json`; what it writes to standard error goes to `log`."""
        self.facts: dict[str, Any] = {}
        self._name = name
        self._arguments = arguments
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "perdure",
                *self._arguments,
                "--output",
                "json",
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        try:
            async with asyncio.timeout(READY_S):
                self.facts = await self._first_line()
        except BaseException:
            await self.kill()
            raise
        self._reading = asyncio.get_running_loop().create_task(self._read_on(), name=f"perdure bench {self._name}")
        return self

    async def __aexit__(self, *_: object) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_S):
                await process.wait()
        except TimeoutError:
            await self.kill()
        await self._done()

    async def kill(self) -> None:
        """SIGKILL, now."""
        process = self._process
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()
        await self._done()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def cpu_s(self) -> float:
        """CPU it has used, its own children's not counted; 0.0 where the system does not tell."""
        return cpu_of(self.pid)

    async def _first_line(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            code = await self._process.wait()
            said = self._log.read_text(encoding="utf-8", errors="replace")[-2_000:]
            raise Unavailable(f"the {self._name} ended with code {code} before it was ready: {said}")
        facts: dict[str, Any] = msgspec.json.decode(line)
        return facts

    async def _read_on(self) -> None:
        """Whatever else it prints must not fill the pipe."""
        assert self._process is not None
        assert self._process.stdout is not None
        while await self._process.stdout.read(65_536):
            pass

    async def _done(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)


def cpu_of(pid: int) -> float:
    """CPU seconds of a process, all its threads together; 0.0 where the system does not tell."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0.0
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / _TICK


def waited_s(pid: int) -> float:
    """Seconds in which the main thread of a process was ready to run and had no core; 0.0 where the system does not tell."""
    try:
        text = Path(f"/proc/{pid}/schedstat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0.0
    return int(text.split()[1]) / 1e9
