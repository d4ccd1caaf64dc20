"""A node's local socket, the node's side: `DATA/socket`, through which the command line of the same user reaches a running node.

Serves clients only: no worker's or engine's request is taken. Bounded in connections, questions under way and line length; an asker that
reads slowly holds up nobody else. It ends with `stop`, which must come before the node's own, while the directory is still locked.
"""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Self

from msgspec import MsgspecError, Raw

from perdure.core.errors import InvalidArgument, LimitExceeded, PerdureError, ResourceExhausted, Unavailable
from perdure.ports import Frontend, Record
from perdure.runtime import local_socket
from perdure.server.exchange import (
    ANSWER_BYTES_MAX,
    PART_BYTES_MIN,
    PIECE_BYTES,
    QUESTION_BYTES_MAX,
    ROWS_MAX,
    Answer,
    AnyQuestion,
    AskCall,
    AskCount,
    AskDescribe,
    AskQuery,
    AskRecord,
    AskResult,
    AskRuns,
    AskUpdate,
    Forget,
    RecordPart,
    fault_of,
    line_of,
    number_of,
    read_question,
    text_of,
)

SOCKET: Final = "socket"
"""Name of the socket in the data directory."""
CONNECTIONS_MAX: Final = 100
QUESTIONS_MAX: Final = 100
"""Questions of one connection under way at once."""

log: Final = logging.getLogger(__name__)


class LocalServer:
    """Answers at `directory/socket` for a frontend. `start` once, when the directory is locked; `stop` any number of times."""

    def __init__(self, frontend: Frontend, directory: Path) -> None:
        self.path = directory / SOCKET
        self._frontend = frontend
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Raises `Unavailable` or OSError when the socket cannot be made."""
        bound = local_socket.bind(self.path)
        try:
            self._server = await asyncio.start_server(self._welcome, sock=bound, limit=QUESTION_BYTES_MAX)
        except BaseException:
            bound.close()
            raise

    async def stop(self) -> None:
        """Take no more, tell whoever still waits, close."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        local_socket.remove(self.path)
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Called for every connection. The task is this server's own, so that `stop` can end it and wait for it."""
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer), name="perdure local connection")
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(self._frontend, reader, writer)
        try:
            if len(self._serving) > CONNECTIONS_MAX:
                await connection.say(0, ResourceExhausted(f"{CONNECTIONS_MAX} connections are open at once (connections_max)"))
            else:
                await connection.serve()
        except* ConnectionError:
            pass  # the asker is gone, and nobody else cares
        except* Exception:
            log.exception("a connection of the local socket failed")
        finally:
            writer.close()


class _Connection:
    """One asker. Its questions are answered as they are ready, in any order."""

    def __init__(self, frontend: Frontend, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._frontend = frontend
        self._reader = reader
        self._writer = writer
        self._writing = asyncio.Lock()
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        """Until the asker leaves or breaks the frame, or this is cancelled: then whoever waits hears that the node is stopping."""
        async with asyncio.TaskGroup() as group:
            try:
                while await self._take(group):
                    pass
            except asyncio.CancelledError:
                for number in self._tasks:
                    self._writer.write(line_of(Answer(id=number, error=fault_of(_stopping()))))
                raise
            finally:
                for task in self._tasks.values():
                    task.cancel()

    async def _take(self, group: asyncio.TaskGroup) -> bool:
        """Read one line and begin to answer it; false when there will be no other."""
        try:
            line = await self._reader.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return False
        except asyncio.LimitOverrunError:
            await self.say(0, LimitExceeded(f"a line of more than {QUESTION_BYTES_MAX} bytes (question_bytes_max)"))
            return False
        try:
            question = read_question(line)
        except (MsgspecError, RecursionError) as error:
            await self.say(number_of(line), InvalidArgument(f"this is no question the node knows: {error}"))
            return True
        if isinstance(question, Forget):
            if (task := self._tasks.get(question.id)) is not None:
                task.cancel()
        elif question.id in self._tasks or question.id < 1:
            await self.say(0, InvalidArgument(f"question {question.id}: the number is in use or below 1"))
        elif len(self._tasks) >= QUESTIONS_MAX:
            await self.say(question.id, ResourceExhausted(f"{QUESTIONS_MAX} questions are under way (questions_max)"))
        else:
            self._tasks[question.id] = group.create_task(self._answer(question))
        return True

    async def _answer(self, question: AnyQuestion) -> None:
        try:
            if isinstance(question, AskRecord):
                await self._tell_record(question)
            else:
                await self._tell(question.id, text_of(await self._found(question)))
        except PerdureError as error:
            await self.say(question.id, error)
        except ConnectionError:
            pass
        except Exception as error:
            log.exception("answering a question of the local socket failed")
            await self.say(question.id, PerdureError(f"the node failed at this: {error!r}"))
        finally:
            self._tasks.pop(question.id, None)

    async def _found(self, question: AnyQuestion) -> object:
        frontend = self._frontend
        match question:
            case AskCall(request=request):
                return await frontend.call(request)
            case AskResult():
                return await frontend.result(question.namespace, question.workflow_id, question.run_id, follow=question.follow)
            case AskUpdate():
                return await frontend.update_result(
                    question.namespace, question.workflow_id, question.run_id, question.update_id
                )
            case AskQuery():
                return await frontend.query(question.query)
            case AskDescribe():
                return await frontend.describe(question.namespace, question.workflow_id, question.run_id)
            case AskRuns():
                if question.limit > ROWS_MAX:
                    raise InvalidArgument(f"limit must lie between 1 and {ROWS_MAX}, not {question.limit}")
                return await frontend.runs(question.filter, question.limit, question.cursor)
            case AskCount():
                return await frontend.count(question.filter)
            case AskRecord() | Forget():
                raise AssertionError(question)

    async def _tell_record(self, question: AskRecord) -> None:
        record = await self._frontend.record(question.namespace, question.workflow_id, question.run_id)
        for part in parts_of(record):
            await self._tell(question.id, text_of(part), more=True)
        await self._tell(
            question.id, text_of(RecordPart(workflow_id=record.workflow_id, run_id=record.run_id, damage=record.damage))
        )

    async def _tell(self, number: int, text: bytes, *, more: bool = False) -> None:
        if len(text) <= ANSWER_BYTES_MAX:
            await self._write(Answer(id=number, ok=Raw(text), more=more))
            return
        for at in range(0, len(text), PIECE_BYTES):
            end = at + PIECE_BYTES
            await self._write(Answer(id=number, piece=text[at:end], unended=end < len(text), more=more))

    async def say(self, number: int, error: PerdureError) -> None:
        """Answer a question with an error."""
        await self._write(Answer(id=number, error=fault_of(error)))

    async def _write(self, answer: Answer) -> None:
        async with self._writing:
            self._writer.write(line_of(answer))
            await self._writer.drain()


def _stopping() -> Unavailable:
    return Unavailable("the node is stopping; the run goes on when it is back")


def parts_of(record: Record) -> Iterator[RecordPart]:
    """A record in pieces of some hundred kilobytes, its events first."""
    for name, entries in (("events", record.events), ("notes", record.notes)):
        part: list[Any] = []
        size = 0
        for entry in entries:
            part.append(entry)
            size += len(text_of(entry))
            if size >= PART_BYTES_MIN:
                yield _part(record, name, part)
                part, size = [], 0
        if part:
            yield _part(record, name, part)


def _part(record: Record, name: str, entries: list[Any]) -> RecordPart:
    fields: dict[str, Any] = {name: tuple(entries)}
    return RecordPart(workflow_id=record.workflow_id, run_id=record.run_id, **fields)
