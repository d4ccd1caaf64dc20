"""A data directory without a node, read only: what a stopped engine would answer about runs it has written down.

Nothing is locked, cut or written, so reading never keeps a node from starting. A node that starts meanwhile only appends, and what it is
just writing counts as torn here: left out.
"""

import asyncio
import fcntl
import logging
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from perdure.core.description import Description, describe, result_of
from perdure.core.errors import HistoryDamaged, NotFound, Unavailable
from perdure.core.machine import apply_transition
from perdure.core.machine.apply import apply, in_order
from perdure.core.machine.targets import not_found
from perdure.core.machine.updates import standing
from perdure.core.queries import Query, QueryAnswer, QueryReply, TakeQuery
from perdure.core.replies import RunResult, UpdateResult
from perdure.core.requests import AnyRequest
from perdure.core.state import RunState, WorkflowState
from perdure.engine.damaged import state_of
from perdure.ports import (
    Answer,
    AppendFile,
    Deliver,
    Record,
    RunFilter,
    RunPage,
    Subscription,
    TaskKind,
    Wake,
    WorkerIdentity,
    closing_of,
)
from perdure.runtime.chance import RealChance
from perdure.runtime.clock import RealClock
from perdure.runtime.files import LocalFiles
from perdure.store.index.index import Index
from perdure.store.index.schema import INDEX_FILE
from perdure.store.journal.store import JournalStore

_FLOCK: Final = "hhqqi"


def holder_of(directory: Path) -> int | None:
    """The pid of the process that holds a data directory; None when nobody does. Takes no lock itself, not even for a moment."""
    try:
        with (directory / "lock").open("rb") as file:
            asked = struct.pack(_FLOCK, fcntl.F_WRLCK, 0, 0, 0, 0)
            found = struct.unpack(_FLOCK, fcntl.fcntl(file.fileno(), fcntl.F_GETLK, asked))
    except FileNotFoundError:
        return None
    return None if found[0] == fcntl.F_UNLCK else found[4]


class _Reading:
    """`ports.Files` that changes nothing. Its lock is none."""

    def __init__(self, directory: Path) -> None:
        self._files = LocalFiles(directory)

    def names(self, folder: str) -> Sequence[str]:
        return self._files.names(folder)

    def size(self, name: str) -> int:
        return self._files.size(name)

    def read(self, name: str, offset: int, length: int) -> bytes:
        return self._files.read(name, offset, length)

    def truncate(self, name: str, size: int) -> None:
        """A torn tail stays where it is; nobody reads it."""

    def open_append(self, name: str, *, room: int = 0) -> AppendFile:  # noqa: ARG002  nothing is opened
        raise AssertionError(f"{name} is only read here")

    def replace(self, name: str, by: str) -> None:  # noqa: ARG002
        raise AssertionError(f"{name} is only read here")

    def remove(self, name: str) -> None:
        """What is superseded stays where it is; nobody reads it."""

    def free(self) -> int | None:
        return self._files.free()

    def lock(self) -> Wake:
        return _NoLock()


class _NoLock:
    def cancel(self) -> None:
        pass


class StoppedFrontend:
    """`ports.Frontend` over a journal nobody serves. Reads answer; what would change or wait for anything raises `Unavailable`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._clock = RealClock()
        self._store: JournalStore | None = None

    async def close(self) -> None:
        """There is nothing to let go of: the store was never locked, and a footer must not be written."""

    async def _opened(self) -> JournalStore:
        if self._store is None:
            # It would tell of a cut that is not made, and of damage that concerns other runs than the one asked for.
            logging.getLogger("perdure.store.journal").setLevel(logging.CRITICAL)
            store = JournalStore(
                _Reading(self._directory), self._clock, RealChance(), index=Index(copy_of=self._directory / INDEX_FILE)
            )
            await store.open()
            self._store = store
        return self._store

    def _unavailable(self, what: str) -> Unavailable:
        return Unavailable(
            f"{what}no node is running on {self._directory}; start one with: perdure dev MODULE --data {self._directory}"
        )

    def send(self, request: AnyRequest, answer: Answer) -> None:  # noqa: ARG002  whatever it asks
        answer(None, self._unavailable(""))

    def call(self, request: AnyRequest) -> "asyncio.Future[Any]":  # noqa: ARG002  whatever it asks
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answer.set_exception(self._unavailable(""))
        return answer

    def subscribe(
        self,
        queue: str,  # noqa: ARG002
        kind: TaskKind,  # noqa: ARG002
        worker: WorkerIdentity,  # noqa: ARG002
        deliver: Deliver,  # noqa: ARG002
        credits: int,  # noqa: ARG002
    ) -> Subscription:
        raise self._unavailable("")

    async def result(self, namespace: str, workflow_id: str, run_id: str = "", *, follow: bool = True) -> RunResult:
        while True:
            record = await self.record(namespace, workflow_id, run_id)
            last = closing_of(record)
            if last is None and record.damage is not None:
                why = f"run {record.run_id} of workflow {workflow_id!r} is quarantined: {record.damage.reason}"
                raise HistoryDamaged(why, run_id=record.run_id)
            if last is None:
                raise self._unavailable(f"workflow {workflow_id!r} is open and ")
            found = result_of(record.run_id, last)
            if not follow or not found.next_run_id:
                return found
            run_id = found.next_run_id

    async def update_result(self, namespace: str, workflow_id: str, run_id: str, update_id: str) -> UpdateResult:
        record = await self.record(namespace, workflow_id, run_id)
        found = standing(run_id, update_id, record.events)
        if found is None:
            raise NotFound(f"run {run_id} of workflow {workflow_id!r} has accepted no update {update_id!r}")
        if found.status == "accepted":
            raise self._unavailable(f"update {update_id!r} has not ended and ")
        return found

    async def query(self, query: Query) -> QueryReply:  # noqa: ARG002  whatever it asks
        raise self._unavailable("a worker answers queries, and ")

    def take_query(self, request: TakeQuery, answer: Answer) -> None:  # noqa: ARG002  there is none
        answer(None, self._unavailable(""))

    def answer_query(self, answer: QueryAnswer) -> None:
        """Nobody asks anything here."""

    async def record(self, namespace: str, workflow_id: str, run_id: str = "") -> Record:
        record = await (await self._opened()).record(namespace, workflow_id, run_id)
        if record is None:
            raise NotFound(not_found(WorkflowState(namespace=namespace, workflow_id=workflow_id), run_id).message)
        return record

    async def describe(self, namespace: str, workflow_id: str, run_id: str = "") -> Description:
        state = await self._state(namespace, workflow_id)
        if state.run is not None and run_id and run_id != state.run.run_id:
            record = await self.record(namespace, workflow_id, run_id)
            state = _state_of(namespace, record)
        run: RunState | None = state.run
        if run is None:
            raise NotFound(not_found(state, run_id).message)
        found = describe(state, run, self._clock.now())
        if found.closed_at:
            return found
        return replace(found, standstill=(f"no node is running on {self._directory}", *found.standstill))

    async def _state(self, namespace: str, workflow_id: str) -> WorkflowState:
        state = WorkflowState(namespace=namespace, workflow_id=workflow_id)
        try:
            for transition in await (await self._opened()).load(namespace, workflow_id):
                apply_transition(state, transition)
        except HistoryDamaged:
            return state_of(namespace, await self.record(namespace, workflow_id))
        return state

    async def runs(self, filter: RunFilter, limit: int, cursor: str = "") -> RunPage:
        return await (await self._opened()).runs(filter, limit, cursor)

    async def count(self, filter: RunFilter) -> int:
        return await (await self._opened()).count(filter)

    def now(self) -> int:
        return self._clock.now()


def _state_of(namespace: str, record: Record) -> WorkflowState:
    if record.damage is not None:
        return state_of(namespace, record)
    state = WorkflowState(namespace=namespace, workflow_id=record.workflow_id)
    for entry in in_order(record.events, record.notes):
        apply(state, entry)
    return state
