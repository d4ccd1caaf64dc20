"""The tables of an index and what is not in them yet: told what became durable, written down a little later by a thread of its own.

What is not written yet is the *tail*: it is in memory. An index in memory is written on the loop's thread, whenever something is asked of
it, so that simulations stay the same. Whoever reads asks `Index`; nothing here answers a question.

An index that cannot be written or read any more stops nothing: it goes on in memory until the next start.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from perdure.core.transition import Transition
from perdure.store.index import file
from perdure.store.index.checking import Checking
from perdure.store.index.item import Damaged, Item, Key, Parked, Place, Written
from perdure.store.index.position import Position, decode_position, encode_position
from perdure.store.index.schema import connect
from perdure.store.index.tables import Tables
from perdure.store.index.tail import Tail

T = TypeVar("T")

Again = Callable[[Position], Iterator[tuple[Transition, Place]]]
"""Reads the journal from its beginning up to a position."""

BEHIND_S: Final = 0.25
"""So long may the tables stay behind when nobody asks: many runs begin and end within it and are written once."""
BATCH: Final = 5_000
"""Items after which the tables are written at once."""
TAIL_MAX: Final = 50_000
"""Items in memory after which commits wait for the tables."""
WAKE_MAX: Final = 2**63 - 1
"""The largest instant a table can hold (microseconds). What is later than that wakes nobody alive."""
CHUNK: Final = 500
"""Transitions read again before others get a turn."""

_log: Final = logging.getLogger(__name__)


class WriteBehind:
    """Without a `path` it is in memory. Opened, told everything behind the position it knew, settled; then in use until it is closed.

    `copy_of` is the file of an index that must not be changed: one in memory begins with what is in it.
    """

    def __init__(self, path: Path | None = None, *, copy_of: Path | None = None) -> None:
        self._path = path
        self._copy_of = copy_of
        self._tail = Tail()
        self._position = Position()
        """Up to where lines were told."""
        self._safe = Position()
        """Up to where they are written."""
        self._batch = 0
        """Number of the batch that was handed over last: what is in the tables says which it holds."""
        self._is_open = False
        self._is_building = False
        self._tables: Tables
        self._points: sqlite3.Connection
        """For questions about one workflow id, asked on the loop's thread."""
        self._scans: sqlite3.Connection
        """For listings, asked on a thread of their own."""
        self._elder: sqlite3.Connection | None = None
        """What was known before everything is told anew: it may say whose a line was that cannot be read any more."""
        self._writer: ThreadPoolExecutor | None = None
        self._scanner: ThreadPoolExecutor | None = None
        self._task: asyncio.Task[None] | None = None
        self._soon: asyncio.TimerHandle | None = None
        self._checking: Checking | None = None
        self._check_task: asyncio.Task[None] | None = None
        self._is_foreign = False
        """The file that was found is of another journal."""
        self._again: Again | None = None

    # ------------------------------------------------------------------------------------------------------------ opening

    def open(self) -> Position | None:
        """Open what an earlier process left; says what it is complete to, None when everything must be told. Raises `sqlite3.Error`."""
        self._tail, self._is_open, self._is_building, self._again = Tail(), True, False, None
        self._is_foreign = False
        found = self._found()
        stored = found.position() if found is not None else None
        position = decode_position(stored) if stored is not None else None
        if found is not None:
            self._use(found)
        if position is None:
            self.clear()
            return None
        self._begin(position)
        return position

    def _found(self) -> Tables | None:
        if self._path is not None:
            return file.reopened(self._path)
        return file.copied(self._copy_of) if self._copy_of is not None else None

    def clear(self) -> None:
        """Forget everything: it will be told from the journal's beginning. Raises `sqlite3.Error`."""
        if self._path is not None and self._elder is None and hasattr(self, "_tables") and not self._is_foreign:
            self._elder = connect(self._path, read_only=True)
        self._close_connections()
        self._tail, self._is_building = Tail(), self._path is not None
        self._use(file.fresh(None) if self._path is None else file.begun(self._path))
        self._begin(Position())

    def disown(self) -> None:
        """What was known before is of another journal: it can say of no line here whose it was. Idempotent."""
        self._is_foreign = True
        self._let_go_of_elder()

    def _let_go_of_elder(self) -> None:
        if self._elder is not None:
            self._elder.close()
            self._elder = None

    def forsake(self, error: BaseException) -> None:
        """The file is of no use: forget everything, and be in memory."""
        self._give_up_file(error)
        self.clear()

    def settle(self, position: Position, again: Again) -> None:
        """Everything there was is told: from here on it is in use. Raises `sqlite3.Error`.

        `again` is for when the file turns out to be damaged while it is used.
        """
        self._put()
        self._position = self._safe = position
        self._tables.reached(encode_position(position), self._batch)
        self._tables.connection.execute("COMMIT")
        self._again = again
        self._let_go_of_elder()
        if self._path is None:
            return
        was_built, self._is_building = self._is_building, False
        if was_built:
            self._tables.connection = file.finished(self._tables.connection, self._path)
        else:
            self._checking = Checking(self._path)
            self._check_task = asyncio.get_running_loop().create_task(self._check(self._checking), name="perdure index check")
        self._points, self._scans = connect(self._path, read_only=True), connect(self._path, read_only=True)

    def _begin(self, position: Position) -> None:
        self._position = self._safe = position
        self._tables.connection.execute("BEGIN IMMEDIATE")

    def _put(self) -> None:
        """While it is opened: into the tables within the one transaction that ends when it is settled."""
        self._tables.put(self._tail.take())
        self._tail.done()

    def _use(self, tables: Tables) -> None:
        self._tables = tables
        self._points = self._scans = tables.connection

    @property
    def newest(self) -> int:
        """The latest time written down in the tables (microseconds)."""
        return self._tables.newest

    @property
    def behind(self) -> int:
        """Items told that are not in the tables yet."""
        return self._tail.size

    # ------------------------------------------------------------------------------------------------------------ telling

    def add(self, transition: Transition, segment: int, offset: int, length: int) -> None:
        """A transition is durable; its line lies there."""
        self._tail.tell((transition.namespace, transition.workflow_id), Written(transition, Place(segment, offset, length)))
        if self._again is None and self._tail.size >= BATCH:
            self._put()

    def reach(self, position: Position) -> None:
        """All lines up to there were told."""
        self._position = position
        self._write_soon()

    def park(self, key: Key, wake_at: int) -> None:
        """Nothing will happen to the workflow id by itself before `wake_at` (0: ever), unless another of its transitions is told."""
        self._tail.tell(key, Parked(min(wake_at, WAKE_MAX)))
        self._write_soon()

    def mark_damaged(self, key: Key, run_id: str, *, end_lost: bool = False) -> None:
        """Part of the run's history is lost, `end_lost`: its last entry too. See `RunRow.set_aside`."""
        self._tail.tell(key, Damaged(run_id, end_lost))
        if self._again is not None:
            self._write_soon()

    # ------------------------------------------------------------------------------------------------------------ writing

    def _write_soon(self) -> None:
        if self._path is None:
            if self._tail.size >= BATCH:
                self._write_here()
        elif self._task is None and self._tail.size >= BATCH:
            self._kick()
        elif self._task is None and self._soon is None:
            self._soon = asyncio.get_running_loop().call_later(BEHIND_S, self._kick)

    def _write_here(self) -> None:
        """In memory: on this thread, at once."""
        if self._tail.young:
            self._tables.write(self._tail.take(), encode_position(self._position), self._batch)
            self._tail.done()

    def _kick(self) -> None:
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        if self._task is None and self._tail.young and self._path is not None:
            self._task = asyncio.get_running_loop().create_task(self._write_behind(), name="perdure index")

    async def _write_behind(self) -> None:
        """Write the tail as it is now, and again as long as it has grown long meanwhile."""
        if self._writer is None:
            self._writer = ThreadPoolExecutor(1, thread_name_prefix="perdure-index")
        loop = asyncio.get_running_loop()
        try:
            while self._tail.young and self._path is not None:
                batch, position = self._tail.take(), self._position
                self._batch += 1
                try:
                    text = encode_position(position)
                    await loop.run_in_executor(self._writer, self._tables.write, batch, text, self._batch)
                except (sqlite3.Error, OSError) as error:
                    await self._go_on_in_memory(error)
                self._safe = position
                self._tail.done()
                if self._tail.size < BATCH:
                    break
        finally:
            self._task = None
            if self._tail.young and self._is_open:
                self._write_soon()

    async def room(self) -> None:
        """Wait while far too much is in memory."""
        if self._tail.size >= TAIL_MAX:
            await self.reached()

    async def reached(self) -> None:
        """Wait until everything told so far is in the tables."""
        target = self._tail.told
        while self._path is not None and self._tail.written < target:
            self._kick()
            if self._task is None:
                raise RuntimeError("the index is closed")
            await asyncio.wait([self._task])
        if self._path is None:
            self._write_here()

    async def close(self, position: Position) -> None:
        """Write what is left, together with where the journal ends now, and let go of the file. Idempotent."""
        if not self._is_open:
            return
        await self._stop_checking()
        try:
            await self.reached()
            self._is_open = False
            if self._task is not None:
                await asyncio.wait([self._task])
            if self._path is not None:
                self._tables.write({}, encode_position(position), self._batch)
        except (sqlite3.Error, OSError) as error:
            _log.warning("the index %s was not finished; the next start reads on from where it ends: %s", self._path, error)
        finally:
            self.let_go()

    def let_go(self) -> None:
        """Close the file without writing anything. Idempotent."""
        self._is_open = False
        if self._checking is not None:
            self._checking.stop()
            self._checking = None
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        for executor in (self._writer, self._scanner):
            if executor is not None:
                executor.shutdown()
        self._writer = self._scanner = None
        self._close_connections()
        self._let_go_of_elder()

    def _close_connections(self) -> None:
        if hasattr(self, "_tables"):
            for connection in (self._points, self._scans, self._tables.connection):
                connection.close()

    async def _keep_house(self, work: Callable[[sqlite3.Connection], T], *, durably: bool = False) -> T:
        """One piece of work on the tables, in one transaction, between two batches. Raises `sqlite3.Error`."""
        await self.reached()
        while self._task is not None:
            await asyncio.wait([self._task])
        if self._path is None:
            return self._tables.change(work)
        if self._writer is None:
            self._writer = ThreadPoolExecutor(1, thread_name_prefix="perdure-index")
        return await asyncio.get_running_loop().run_in_executor(
            self._writer, lambda: self._tables.change(work, durably=durably)
        )

    # ------------------------------------------------------------------------------------------------------------ mending

    async def _go_on_in_memory(self, error: BaseException) -> None:
        """What is being written was not: take what the tables hold into memory, and that with it."""
        tables: Tables | None = None
        if isinstance(error, (sqlite3.OperationalError, OSError)):  # no room, say: what is there can be read
            try:
                tables = await asyncio.get_running_loop().run_in_executor(self._writer, file.in_memory, self._tables)
            except (sqlite3.Error, OSError) as worse:
                error = worse
        if tables is None:
            tables = await self._read_again()
        tables.write(self._tail.old, encode_position(self._position), self._batch)
        self._close_connections()
        if not isinstance(error, (sqlite3.OperationalError, OSError)) and self._path is not None:
            file.set_aside(self._path, error)
        self._give_up_file(error)
        self._use(tables)

    async def _read_again(self) -> Tables:
        """Everything that was written, from the journal."""
        assert self._again is not None
        tables = file.fresh(None)
        batch: dict[Key, list[Item]] = {}
        for number, (transition, place) in enumerate(self._again(self._safe), 1):
            batch.setdefault((transition.namespace, transition.workflow_id), []).append(Written(transition, place))
            if number % CHUNK == 0:
                tables.put(batch)
                batch = {}
                await asyncio.sleep(0)
        tables.put(batch)
        return tables

    def _give_up_file(self, error: BaseException) -> None:
        _log.warning("the index %s goes on in memory until the next start: %s", self._path, error)
        self._path = None

    async def _mend(self, error: sqlite3.Error) -> None:
        """Reading failed."""
        if self._task is not None:
            await asyncio.wait([self._task])
        if self._path is None:
            raise error
        if self._writer is None:
            self._writer = ThreadPoolExecutor(1, thread_name_prefix="perdure-index")
        self._task = asyncio.get_running_loop().create_task(self._mending(error), name="perdure index")
        await asyncio.wait([self._task])

    async def _mending(self, error: sqlite3.Error) -> None:
        try:
            await self._go_on_in_memory(error)
        finally:
            self._task = None

    async def _check(self, checking: Checking) -> None:
        """Look through a file that an earlier process left, and go on without it when it is not in order."""
        fault = await checking.fault()
        if fault and self._is_open and self._path is not None:
            with suppress(sqlite3.Error):  # whoever met it first has mended it
                await self._mend(sqlite3.DatabaseError(f"it does not fit together: {fault}"))

    async def _stop_checking(self) -> None:
        if self._checking is not None and self._check_task is not None:
            self._checking.stop()
            await asyncio.wait([self._check_task])
