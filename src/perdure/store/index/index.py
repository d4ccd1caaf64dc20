"""The index of a journal, as its store uses it: told what became durable, it answers as if it had written it at once.

Every answer about one workflow id is that of the tables with the tail on top. Listings first wait until what was told when they were asked
for is written, and are read on a thread of their own.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Final, TypeVar

from perdure.ports import Census, RunFilter, RunPage
from perdure.store.index import reading, upkeep
from perdure.store.index.item import Key, Place, Written
from perdure.store.index.known import Known, known
from perdure.store.index.writing import CHUNK, WriteBehind
from perdure.store.rows import RunRow

T = TypeVar("T")

MOVED_AT_ONCE: Final = 2_000
"""Lines whose new place is written in one transaction: batches wait for it."""


class Index(WriteBehind):
    """Written behind, asked at any time; and where compaction keeps house."""

    # ------------------------------------------------------------------------------------------------- about a workflow id

    def holds(self, key: Key) -> bool:
        """False only when it is certain that nothing of the workflow id was told."""
        return key in self._tail or key in self._tables.presence

    async def ask(self, question: Callable[[], T]) -> T:
        """The answer to a question about one workflow id, put once more if the file turns out to be damaged."""
        try:
            return question()
        except sqlite3.Error as error:
            await self._mend(error)
            return question()

    def row(self, key: Key, run_id: str = "") -> RunRow | None:
        """The row of a run; without `run_id` the last run's."""
        with self._known(key) as found:
            run = found.find(run_id, self._points) if run_id else found.last
            return run.row if run is not None else None

    def rows(self, key: Key) -> list[RunRow]:
        """The rows of all runs of a workflow id, oldest first."""
        with self._known(key) as found:
            rows = {row.run_id: row for row in reading.rows(self._points, key)}
            rows.update({run_id: run.row for run_id, run in found.runs.items()})
            return list(rows.values())

    def places(self, key: Key, first: int = 0, last: int | None = None) -> list[Place]:
        """Places of a workflow id's transitions number `first` to `last` (all of them without it), counted from 0."""
        with self._known(key) as found:
            written = reading.places(self._points, key, first, last)
            begin = found.transitions - len(found.places)
            end = found.transitions if last is None else last + 1
            return written + found.places[max(0, first - begin) : max(0, end - begin)]

    @contextmanager
    def _known(self, key: Key) -> Iterator[Known]:
        """A workflow id with the tail on top, in one view of the tables: the thread may be writing them now."""
        connection = self._points
        apart = connection is not self._tables.connection
        if apart:
            connection.execute("BEGIN")
        try:
            with_old = reading.batch(connection) < self._batch if apart else True
            found = known(connection, key)
            found.take(self._tail.items(key, with_old=with_old), connection)
            yield found
        finally:
            if apart:
                connection.execute("ROLLBACK")

    def who_wrote(self, segment: int, offset: int) -> reading.Writer | None:
        """Whose line holds that byte of that segment; None when no line known here does. Slow: it looks through all of them."""
        for items in (self._tail.old, self._tail.young):
            for key, told in items.items():
                for item in told:
                    if isinstance(item, Written) and item.place.holds(segment, offset):
                        return reading.Writer(*key, tuple(change.run_id for change in item.transition.runs))
        return reading.who_wrote(self._elder or self._points, segment, offset)

    # ------------------------------------------------------------------------------------------------------ about them all

    async def page(self, filter: RunFilter, limit: int, cursor: str = "") -> RunPage:
        """Newest first. Raises `InvalidArgument` for a limit below 1, a cursor that is none or a query that cannot be read."""
        return await self._scan(lambda connection: reading.page(connection, filter, limit, cursor))

    async def count(self, filter: RunFilter) -> int:
        """Raises `InvalidArgument` for a query that cannot be read."""
        return await self._scan(lambda connection: reading.count(connection, filter))

    async def census(self) -> Census:
        """Who is open, of all namespaces."""
        return await self._scan(reading.census)

    async def restless(self) -> list[Key]:
        """Every workflow id whose last run is open and that is not parked."""
        return await self._scan(reading.restless)

    async def waking(self, until: int) -> tuple[list[Key], int]:
        """Parked workflow ids that wake at `until` or before, soonest first, and the next instant another one does (0: never)."""
        return await self._scan(lambda connection: reading.waking(connection, until))

    async def _scan(self, question: Callable[[sqlite3.Connection], T]) -> T:
        await self.reached()
        if self._path is None:
            return question(self._scans)
        if self._scanner is None:
            self._scanner = ThreadPoolExecutor(1, thread_name_prefix="perdure-listing")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._scanner, question, self._scans)
        except sqlite3.Error as error:
            await self._mend(error)
            await self.reached()
            return question(self._scans)

    # ------------------------------------------------------------------------------------------------------- keeping house

    def expire_again(self, before: int, spared: Collection[upkeep.RunKey]) -> None:
        """While it is opened: drop what was past its keep time when segments were last written anew. Raises `sqlite3.Error`."""
        self._put()
        connection = self._tables.connection
        _, after = upkeep.expire(connection, before, spared, 0, CHUNK, again=True)
        while after:
            _, after = upkeep.expire(connection, before, spared, after, CHUNK, again=True)

    async def forebears(self, before: int) -> list[upkeep.RunKey]:
        """Runs that closed at `before` or earlier and whose workflow id has an open run."""
        return await self._scan(lambda connection: upkeep.forebears(connection, before))

    async def expire(self, before: int, spared: Collection[upkeep.RunKey]) -> int:
        """Drop runs that closed at `before` or earlier, except `spared`; says how many."""
        count = after = 0
        while True:
            gone, after = await self._keep_house(partial(upkeep.expire, before=before, spared=spared, after=after, limit=CHUNK))
            count += gone
            if not after:
                return count

    async def wanted(self) -> dict[int, int]:
        """Bytes of lines that are still wanted, by segment."""
        return await self._scan(upkeep.wanted)

    async def lines(self, segment: int) -> list[upkeep.Line]:
        """Every line of a segment that is still wanted, in order."""
        return await self._scan(lambda connection: upkeep.lines(connection, segment))

    async def move(self, copied: Sequence[upkeep.Copied]) -> None:
        """Lines lie elsewhere now; durable when this returns: what they were copied from may go."""
        for first in range(0, len(copied), MOVED_AT_ONCE):
            part = copied[first : first + MOVED_AT_ONCE]
            await self._keep_house(partial(upkeep.move, copied=part))
        await self._keep_house(upkeep.nothing, durably=True)
