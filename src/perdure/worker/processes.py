"""Child processes for process activities: a bounded pool, started when first needed and used again.

A child that is killed (its attempt was cut short or deaf to its cancel) or dies is replaced when the next attempt needs one. Children end
with the worker, also when that is killed.
"""

import asyncio
import logging
import signal
import socket
import sys
from asyncio import subprocess
from collections import deque
from contextlib import suppress
from typing import Any, Final, Protocol, TypeAlias

from perdure.core.failure import Failure
from perdure.core.payload import Payload
from perdure.core.replies import ActivityClaim
from perdure.sdk.activity import Activity
from perdure.sdk.context import CompletesLater
from perdure.sdk.importable import place_of
from perdure.worker import child_messages as ms

log = logging.getLogger(__name__)

Answer: TypeAlias = ms.Done | ms.Failed | ms.Later

CANCEL_S: Final = 5.0
"""So long may a function take to end when its cancel was asked for; then its process is killed."""
LAST_WORDS_S: Final = 1.0
"""So long is what a process said before it ended waited for."""
LEAVE_S: Final = 2.0
"""So long may an idle child take to end when the worker stops."""


class Attempt(Protocol):
    """The attempt that runs, as the pool needs it."""

    claim: ActivityClaim
    cancelled: bool
    wanted: bool

    @property
    def task_token(self) -> str: ...

    def is_stopping(self) -> bool: ...

    def heartbeat(self, details: Payload) -> None: ...


class FailedInChild(Exception):  # noqa: N818 – a verdict on an attempt
    """How an attempt in a child failed."""

    def __init__(self, failure: Failure, *, final: bool = False, cancelled: bool = False) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.final = final
        self.cancelled = cancelled


class _Child:
    """One process and the socket to it."""

    def __init__(self, process: subprocess.Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.process = process
        self._reader = reader
        self._writer = writer
        self.usable = True

    @classmethod
    async def start(cls) -> "_Child":
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "perdure.worker.child",
                    str(theirs.fileno()),
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                )
            except BaseException:
                ours.close()
                raise
        reader, writer = await asyncio.open_connection(sock=ours, limit=ms.LINE_BYTES_MAX)
        child = cls(process, reader, writer)
        child.say(ms.Welcome(path=tuple(sys.path)))
        return child

    def say(self, message: ms.Message) -> None:
        self._writer.write(ms.line_of(message))

    async def talk(self, run: ms.Run, attempt: Attempt) -> Answer:
        """Run one attempt. Ends with its answer or with the process, so whoever wants an end to it kills that."""
        loop = asyncio.get_running_loop()
        self.say(run)
        reading = loop.create_task(self._read(attempt))
        dying = loop.create_task(self.process.wait())
        try:
            # Its death is looked for too: a process it has forked may hold the other end of the socket open.
            await asyncio.wait((reading, dying), return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                await asyncio.wait((reading,), timeout=LAST_WORDS_S)
            answer = reading.result() if reading.done() else None
        finally:
            reading.cancel()
            dying.cancel()
            await asyncio.gather(reading, dying, return_exceptions=True)
        if answer is None:
            self.usable = False
            return ms.Failed(failure=_died(attempt.claim.scheduled.name, await self.process.wait()))
        return answer

    async def _read(self, attempt: Attempt) -> Answer | None:
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                return None
            message = ms.read_in_worker(line)
            if not isinstance(message, ms.Beat):
                return message
            attempt.heartbeat(message.details)

    def kill(self) -> None:
        self.usable = False
        with suppress(ProcessLookupError):
            self.process.kill()

    async def close(self) -> None:
        """End the process: it sees the socket close. One that does not end by itself is killed."""
        self.usable = False
        self._writer.close()
        try:
            async with asyncio.timeout(LEAVE_S):
                await self.process.wait()
        except TimeoutError:
            self.kill()
            await self.process.wait()


class ProcessPool:
    """Runs attempts in at most `limit` child processes; more wait for their turn."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._children: set[_Child] = set()
        self._count = 0
        """Children there are or are being started."""
        self._idle: list[_Child] = []
        self._turns: deque[asyncio.Future[None]] = deque()
        self._closing: set[asyncio.Task[None]] = set()

    async def run(
        self,
        definition: Activity[..., Any],
        attempt: Attempt,
        input: tuple[Payload, ...],
        keywords: dict[str, Payload],
    ) -> Payload:
        """Run one attempt and give its result's payload. Raises `FailedInChild`, `CompletesLater`, `InvalidArgument`, `CancelledError`.

        Cancelled, it asks the function to end and waits up to `CANCEL_S` if it was the attempt that was asked to stop, then kills the process.
        """
        run = _run_of(definition, attempt, input, keywords)
        child = await self._take()
        talk = asyncio.get_running_loop().create_task(child.talk(run, attempt), name="perdure child")
        try:
            answer = await self._answer(child, talk, attempt)
        finally:
            if not talk.done():
                child.kill()
                await asyncio.wait((talk,))
            self._give_back(child)
        if isinstance(answer, ms.Done):
            return answer.result
        if isinstance(answer, ms.Later):
            raise CompletesLater
        raise FailedInChild(answer.failure, final=answer.final, cancelled=answer.cancelled)

    async def _answer(self, child: _Child, talk: "asyncio.Task[Answer]", attempt: Attempt) -> Answer:
        try:
            return await asyncio.shield(talk)
        except asyncio.CancelledError:
            if not talk.done() and attempt.cancelled and attempt.wanted:
                child.say(ms.Cancel())
                await asyncio.wait((talk,), timeout=CANCEL_S)
            if talk.done():
                return talk.result()
            if attempt.cancelled and attempt.wanted:
                name = attempt.claim.scheduled.name
                log.warning("process activity %s did not end within %g s of its cancel: its process was killed", name, CANCEL_S)
            raise

    def stopping(self) -> None:
        """Tell every child that the worker drains."""
        for child in self._children:
            child.say(ms.Stopping())

    async def stop(self) -> None:
        """End every child, idle or not. Idempotent."""
        children, self._children, self._idle = self._children, set(), []
        await asyncio.gather(*(child.close() for child in children), *self._closing)

    # ----------------------------------------------------------------------------------------------------------------- children

    async def _take(self) -> _Child:
        while True:
            while self._idle:
                child = self._idle.pop()
                if child.process.returncode is None:
                    return child
                self._drop(child)
            if self._count < self.limit:
                return await self._start()
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._turns.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._next()  # it was this one's turn already
                raise

    async def _start(self) -> _Child:
        self._count += 1
        try:
            child = await _Child.start()
        except BaseException:
            self._count -= 1
            self._next()
            raise
        self._children.add(child)
        return child

    def _give_back(self, child: _Child) -> None:
        if child.usable and child in self._children:
            self._idle.append(child)
        else:
            self._drop(child)
        self._next()

    def _drop(self, child: _Child) -> None:
        self._count -= 1
        self._children.discard(child)
        closing = asyncio.get_running_loop().create_task(child.close(), name="perdure child ends")
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _next(self) -> None:
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():
                turn.set_result(None)
                return


def _run_of(
    definition: Activity[..., Any], attempt: Attempt, input: tuple[Payload, ...], keywords: dict[str, Payload]
) -> ms.Run:
    place, claim = place_of(definition), attempt.claim
    scheduled = claim.scheduled
    return ms.Run(
        module=place.module,
        qualname=place.qualname,
        file=place.file,
        name=definition.name,
        workflow_id=claim.workflow_id,
        run_id=claim.run_id,
        activity_id=scheduled.id,
        attempt=claim.attempt,
        queue=claim.queue,
        idempotency_key=claim.idempotency_key,
        task_token=attempt.task_token,
        input=input,
        keywords=keywords,
        heartbeat_details=claim.heartbeat_details,
        deadline=claim.deadline or None,
        stopping=attempt.is_stopping(),
    )


def _died(name: str, code: int) -> Failure:
    how = f"was ended by {_signal(-code)}" if code < 0 else f"ended with exit code {code}"
    return Failure(type="ProcessDied", message=f"the process that ran activity {name} {how} before it had a result")


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
