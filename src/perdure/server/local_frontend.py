"""A node's local socket, the asker's side: `ports.Frontend` for clients in another process of the same machine.

Waits are the node's: nothing is asked twice and nothing is polled. When the node goes away, everything asked fails with `Unavailable`.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from msgspec import MsgspecError, Raw, json

from perdure.core.description import Description
from perdure.core.errors import InvalidArgument, PerdureError, Unavailable
from perdure.core.queries import Query, QueryAnswer, QueryReply, TakeQuery
from perdure.core.replies import AnyReply, RunResult, UpdateResult
from perdure.core.requests import AnyRequest, ClientRequest
from perdure.ports import Answer as Answering
from perdure.ports import Clock, Deliver, Record, RunFilter, RunPage, Subscription, TaskKind, WorkerIdentity
from perdure.runtime import local_socket
from perdure.server.exchange import (
    ANSWER_BYTES_MAX,
    QUESTION_BYTES_MAX,
    Answer,
    AskCall,
    AskCount,
    AskDescribe,
    AskQuery,
    AskRecord,
    AskResult,
    AskRuns,
    AskUpdate,
    Forget,
    Question,
    RecordPart,
    error_of,
    line_of,
    read_answer,
)

_FRAME_BYTES: Final = 64 * 1024
"""What surrounds the longest answer on its line, and more."""

_reply: Final = json.Decoder(AnyReply).decode
_query_reply: Final = json.Decoder(QueryReply).decode
_result: Final = json.Decoder(RunResult).decode
_update_result: Final = json.Decoder(UpdateResult).decode
_description: Final = json.Decoder(Description).decode
_page: Final = json.Decoder(RunPage).decode
_count: Final = json.Decoder(int).decode
_part: Final = json.Decoder(RecordPart).decode


class _Asked:
    """A question under way: how to read its answer, and the parts, and pieces of one, that have come."""

    __slots__ = ("answer", "parts", "pieces", "read")

    def __init__(self, answer: "asyncio.Future[Any]", read: Callable[[Raw], Any]) -> None:
        self.answer = answer
        self.read = read
        self.parts: list[Any] = []
        self.pieces: list[bytes] = []


class LocalFrontend:
    """Use it with `connect` and `close`. One connection; questions may overlap."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, clock: Clock, place: Path) -> None:
        self._reader = reader
        self._writer = writer
        self._clock = clock
        self._place = place
        self._asked: dict[int, _Asked] = {}
        self._last = 0
        self._gone: Unavailable | None = None
        self._reading = asyncio.get_running_loop().create_task(self._read(), name="perdure local frontend")

    @classmethod
    async def connect(cls, path: Path, clock: Clock) -> Self:
        """Reach the node whose socket is `path`. Raises `Unavailable` when none listens there."""
        connected = local_socket.connect(path)
        reader, writer = await asyncio.open_connection(sock=connected, limit=ANSWER_BYTES_MAX + _FRAME_BYTES)
        return cls(reader, writer, clock, path.parent)

    async def close(self) -> None:
        """Leave. What is still asked fails. Idempotent."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        self._writer.close()

    # --------------------------------------------------------------------------------------------------------------- asking

    def send(self, request: AnyRequest, answer: Answering) -> None:
        """See `ports.Frontend.send`. Only requests of clients go this way."""
        self.call(request).add_done_callback(partial(_hand_over, answer))

    def call(self, request: AnyRequest) -> "asyncio.Future[Any]":
        """See `ports.Frontend.call`. Only requests of clients go this way."""
        if isinstance(request, ClientRequest):
            return self._ask(AskCall(id=self._next(), request=request), _reply)
        refused: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        refused.set_exception(
            InvalidArgument(f"{type(request).__name__} does not come from a client and is not taken over a local socket")
        )
        return refused

    def subscribe(
        self,
        queue: str,  # noqa: ARG002
        kind: TaskKind,  # noqa: ARG002
        worker: WorkerIdentity,  # noqa: ARG002
        deliver: Deliver,  # noqa: ARG002
        credits: int,  # noqa: ARG002
    ) -> Subscription:
        """Workers live in the node's own process; there is no way for them through here."""
        raise InvalidArgument("a worker cannot be connected over a local socket")

    async def result(self, namespace: str, workflow_id: str, run_id: str = "", *, follow: bool = True) -> RunResult:
        question = AskResult(id=self._next(), namespace=namespace, workflow_id=workflow_id, run_id=run_id, follow=follow)
        found: RunResult = await self._ask(question, _result)
        return found

    async def update_result(self, namespace: str, workflow_id: str, run_id: str, update_id: str) -> UpdateResult:
        question = AskUpdate(id=self._next(), namespace=namespace, workflow_id=workflow_id, run_id=run_id, update_id=update_id)
        found: UpdateResult = await self._ask(question, _update_result)
        return found

    async def query(self, query: Query) -> QueryReply:
        found: QueryReply = await self._ask(AskQuery(id=self._next(), query=query), _query_reply)
        return found

    def take_query(self, request: TakeQuery, answer: Answering) -> None:  # noqa: ARG002  no worker is on this side
        answer(None, InvalidArgument("a worker cannot be connected over a local socket"))

    def answer_query(self, answer: QueryAnswer) -> None:
        """No worker is on this side."""

    async def record(self, namespace: str, workflow_id: str, run_id: str = "") -> Record:
        question = AskRecord(id=self._next(), namespace=namespace, workflow_id=workflow_id, run_id=run_id)
        parts: list[RecordPart] = await self._ask(question, _part)
        return Record(
            workflow_id=parts[-1].workflow_id,
            run_id=parts[-1].run_id,
            events=tuple(event for part in parts for event in part.events),
            notes=tuple(note for part in parts for note in part.notes),
            damage=parts[-1].damage,
        )

    async def describe(self, namespace: str, workflow_id: str, run_id: str = "") -> Description:
        question = AskDescribe(id=self._next(), namespace=namespace, workflow_id=workflow_id, run_id=run_id)
        found: Description = await self._ask(question, _description)
        return found

    async def runs(self, filter: RunFilter, limit: int, cursor: str = "") -> RunPage:
        found: RunPage = await self._ask(AskRuns(id=self._next(), filter=filter, limit=limit, cursor=cursor), _page)
        return found

    async def count(self, filter: RunFilter) -> int:
        found: int = await self._ask(AskCount(id=self._next(), filter=filter), _count)
        return found

    def now(self) -> int:
        """The machine's clock, which is the node's too."""
        return self._clock.now()

    def _next(self) -> int:
        self._last += 1
        return self._last

    def _ask(self, question: Question, read: Callable[[Raw], Any]) -> "asyncio.Future[Any]":
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            line = line_of(question)
        except (MsgspecError, ValueError, TypeError) as error:
            answer.set_exception(InvalidArgument(f"the request cannot be written as JSON: {error}"))
            return answer
        if self._gone is not None:
            answer.set_exception(self._gone)
        elif len(line) > QUESTION_BYTES_MAX:
            answer.set_exception(InvalidArgument(f"the request has {len(line)} bytes, more than {QUESTION_BYTES_MAX}"))
        else:
            self._asked[question.id] = _Asked(answer, read)
            answer.add_done_callback(lambda done: self._forget(question.id) if done.cancelled() else None)
            self._writer.write(line)
        return answer

    def _forget(self, number: int) -> None:
        if self._asked.pop(number, None) is not None and self._gone is None:
            self._writer.write(line_of(Forget(id=number)))

    # ------------------------------------------------------------------------------------------------------------ answers

    async def _read(self) -> None:
        """Until the node goes away; then nothing that was asked is left waiting."""
        try:
            while True:
                self._take(read_answer(await self._reader.readuntil(b"\n")))
        except (asyncio.IncompleteReadError, ConnectionError):
            self._lose(f"the node at {self._place} went away; what it had taken goes on when it is back")
        except (MsgspecError, asyncio.LimitOverrunError) as error:
            self._lose(f"the node at {self._place} answered with something this version cannot read: {error}")
        except asyncio.CancelledError:
            self._lose("this client was closed")
            raise

    def _take(self, answer: Answer) -> None:
        if answer.id == 0 and answer.error is not None:
            raise ConnectionError(answer.error.message)
        asked = self._asked.get(answer.id)
        if asked is None:
            return  # it was forgotten meanwhile
        if not answer.more and not answer.unended:
            del self._asked[answer.id]
        if asked.answer.done():
            return
        if answer.error is not None:
            asked.answer.set_exception(error_of(answer.error))
            return
        text = answer.ok
        if answer.piece:
            asked.pieces.append(answer.piece)
            if answer.unended:
                return
            text, asked.pieces = Raw(b"".join(asked.pieces)), []
        try:
            value = asked.read(text)
        except MsgspecError as error:
            asked.answer.set_exception(PerdureError(f"the node's answer cannot be read by this version: {error}"))
            return
        if isinstance(value, RecordPart):
            asked.parts.append(value)
            value = asked.parts
        if not answer.more:
            asked.answer.set_result(value)

    def _lose(self, why: str) -> None:
        self._gone = Unavailable(why)
        asked, self._asked = self._asked, {}
        for each in asked.values():
            if not each.answer.done():
                each.answer.set_exception(self._gone)


def _hand_over(answer: Answering, done: "asyncio.Future[Any]") -> None:
    error = done.exception()
    answer(None, error) if error is not None else answer(done.result(), None)
