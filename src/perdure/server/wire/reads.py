"""What is asked of a node without changing anything, on one connection: each a task that ends with the connection, and is asked again."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

from msgspec import MsgspecError, Raw

from perdure.core.errors import InvalidArgument, PerdureError, ResourceExhausted
from perdure.core.payload import NULL
from perdure.core.principal import Principal
from perdure.core.queries import QueryTaken, TakeQuery
from perdure.ports import Frontend, Record
from perdure.runtime.wire_limits import WireLimits
from perdure.wire import messages as ms
from perdure.wire.faults import fault_of
from perdure.wire.frames import text_of

PART_BYTES_MIN: Final = 256 * 1024
"""A part of a history ends with the entry that brings it to this size."""

log: Final = logging.getLogger(__name__)


class Reads:
    """`say` puts the text of a message on its way; `takes` hears that a worker takes a query, and raises when it may not.

    `room` waits until there is room for more: answers to many asks at once, or a long history, go no faster than they are read."""

    def __init__(
        self,
        frontend: Frontend,
        principal: Principal,
        limits: WireLimits,
        say: Callable[[bytes], None],
        takes: Callable[[TakeQuery], None],
        room: Callable[[], Awaitable[None]],
    ) -> None:
        self._frontend = frontend
        self._principal = principal
        self._limits = limits
        self._say = say
        self._takes = takes
        self._room = room
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def ask(self, ask: ms.Read) -> None:
        """Begin to answer. What may not be asked is answered at once."""
        number = ask.id
        if number in self._tasks:
            return  # asked twice
        try:
            if isinstance(ask, ms.AskTakeQuery):
                self._principal.require("work")
                self._takes(ask.take)
            else:
                self._principal.require("read")
            if len(self._tasks) >= self._limits.asks_max:
                raise ResourceExhausted(
                    f"{self._limits.asks_max:,} asks of this connection are unanswered (wire.asks_max)", retry_after=1.0
                )
        except PerdureError as error:
            self._fail(number, error)
            return
        if isinstance(ask, ms.AskTakeQuery):
            self._frontend.take_query(ask.take, lambda reply, error: self._taken(number, reply, error))
            return
        self._tasks[number] = asyncio.get_running_loop().create_task(self._answer(ask), name="perdure wire ask")

    def forget(self, number: int) -> None:
        """Nobody waits for it any more."""
        task = self._tasks.get(number)
        if task is not None:
            task.cancel()

    async def stop(self) -> None:
        """The connection is gone."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)

    def _taken(self, number: int, reply: Any, error: BaseException | None) -> None:
        if error is not None:
            self._fail(number, error)
        else:
            self._found(number, reply if isinstance(reply, QueryTaken) else NULL)

    async def _answer(self, ask: ms.Read) -> None:
        try:
            await self._room()
            if isinstance(ask, ms.AskRecord):
                await self._tell_record(ask)
            else:
                found = await self._look(ask)
                await self._room()
                self._found(ask.id, found)
        except PerdureError as error:
            self._fail(ask.id, error)
        except Exception as error:
            log.exception("answering an ask failed")
            self._fail(ask.id, error)
        finally:
            self._tasks.pop(ask.id, None)

    async def _look(self, ask: ms.Read) -> object:
        frontend = self._frontend
        match ask:
            case ms.AskResult():
                return await frontend.result(ask.namespace, ask.workflow_id, ask.run_id, follow=ask.follow)
            case ms.AskUpdate():
                return await frontend.update_result(ask.namespace, ask.workflow_id, ask.run_id, ask.update_id)
            case ms.AskQuery():
                return await frontend.query(ask.query)
            case ms.AskDescribe():
                return await frontend.describe(ask.namespace, ask.workflow_id, ask.run_id)
            case ms.AskRuns():
                if ask.limit > self._limits.rows_max:
                    raise InvalidArgument(f"limit must lie between 1 and {self._limits.rows_max:,}, not {ask.limit:,}")
                return await frontend.runs(ask.filter, ask.limit, ask.cursor)
            case ms.AskCount():
                return await frontend.count(ask.filter)
            case ms.AskRecord() | ms.AskTakeQuery():
                raise AssertionError(ask)

    async def _tell_record(self, ask: ms.AskRecord) -> None:
        record = await self._frontend.record(ask.namespace, ask.workflow_id, ask.run_id)
        for part in parts_of(record):
            self._found(ask.id, part, more=True)
            await asyncio.sleep(0)
            await self._room()
        last = ms.RecordPart(workflow_id=record.workflow_id, run_id=record.run_id, damage=record.damage)
        self._found(ask.id, last)

    def _found(self, number: int, value: object, *, more: bool = False) -> None:
        try:
            self._say(text_of(ms.Found(id=number, ok=Raw(text_of(value)), more=more)))
        except (MsgspecError, ValueError, TypeError) as error:
            self._fail(number, InvalidArgument(f"the answer cannot be written as JSON: {error}"))

    def _fail(self, number: int, error: BaseException) -> None:
        self._say(text_of(ms.Failed(id=number, error=fault_of(error))))


def parts_of(record: Record) -> Iterator[ms.RecordPart]:
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


def _part(record: Record, name: str, entries: list[Any]) -> ms.RecordPart:
    fields: dict[str, Any] = {name: tuple(entries)}
    return ms.RecordPart(workflow_id=record.workflow_id, run_id=record.run_id, **fields)
