"""The process above's hold on one worker process: started, ordered, heard, awaited, killed."""

import asyncio
import socket
import sys
from asyncio import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Self

from msgspec import MsgspecError

from perdure.cli.workers import messages as ms

COMMAND: Final = (sys.executable, "-m", "perdure.cli.workers.child")
KILL_AFTER_S: Final = ms.AFTER_GRACE_S + 2.0
"""Past its grace period: one that has not ended itself by then does not run any more, and is killed."""

Heard = Callable[[ms.News], None]


class WorkerProcess:
    """One worker process, from its start to its end. `heard` is called with each of its news, on the loop."""

    def __init__(self, process: subprocess.Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._kill: asyncio.TimerHandle | None = None
        self.failed: ms.Failed | None = None
        """Why it could not be a worker, if that is what it said."""

    @classmethod
    async def start(cls, plan: ms.Plan, command: Sequence[str] = COMMAND) -> Self:
        """Raises OSError when the system has no process or file left to give."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    str(theirs.fileno()),
                    stdin=subprocess.DEVNULL,
                    stdout=sys.stderr.fileno(),  # what user code prints is none of the command's data
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,  # Ctrl-C reaches the process above, which drains this one
                )
            except BaseException:
                ours.close()
                raise
        reader, writer = await asyncio.open_connection(sock=ours, limit=ms.LINE_BYTES_MAX)
        writer.write(ms.line_of(plan))
        return cls(process, reader, writer)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def end(self, heard: Heard) -> int:
        """Hear it until it ends; its exit code, negative for the signal that ended it."""
        hearing = asyncio.get_running_loop().create_task(self._hear(heard), name="perdure worker news")
        try:
            code = await self._process.wait()
            await asyncio.wait((hearing,), timeout=1.0)  # a process it left behind may hold its socket open
        finally:
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)
            self._writer.close()
            if self._kill is not None:
                self._kill.cancel()
        return code

    async def _hear(self, heard: Heard) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError, MsgspecError, asyncio.LimitOverrunError):
            while True:
                news = ms.read_news(await self._reader.readuntil(b"\n"))
                if isinstance(news, ms.Failed):
                    self.failed = news
                heard(news)

    def drain(self, grace: float) -> None:
        """Ask it to leave within `grace` seconds; it is killed when it has not long after."""
        self._order(ms.Order(what="drain", grace=grace))

    def hurry(self) -> None:
        """Ask it to leave now."""
        self._order(ms.Order(what="hurry"))

    def _order(self, order: ms.Order) -> None:
        self._writer.write(ms.line_of(order))
        if self._kill is not None:
            self._kill.cancel()
        self._kill = asyncio.get_running_loop().call_later(order.grace + KILL_AFTER_S, self.kill)

    def kill(self) -> None:
        """End it at once."""
        with suppress(ProcessLookupError):
            self._process.kill()
