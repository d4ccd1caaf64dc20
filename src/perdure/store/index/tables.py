"""Writing the index: a batch of what came, by workflow id, as one SQLite transaction together with the position it makes the index complete to."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from perdure.core.listing.columns import cells_of
from perdure.core.transition import Transition
from perdure.store.index.item import Item, Key, Written
from perdure.store.index.known import INSERT, UPDATE, Known, Run, changing_of, fixed_of, known, owed_text
from perdure.store.index.presence import Presence

T = TypeVar("T")

Batch = Mapping[Key, Sequence[Item]]

_INSERT_WORKFLOW: Final = "INSERT INTO workflows (namespace, workflow_id, transitions, last_run, is_open, wake_at, owed, id) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_UPDATE_WORKFLOW: Final = "UPDATE workflows SET transitions = ?, last_run = ?, is_open = ?, wake_at = ?, owed = ? WHERE id = ?"
_INSERT_PLACE: Final = "INSERT INTO places (workflow, number, segment, offset, length) VALUES (?, ?, ?, ?, ?)"
_INSERT_ATTRIBUTE: Final = "INSERT INTO attributes (run, name, kind, value) VALUES (?, ?, ?, ?)"
_SET_STATE: Final = "INSERT OR REPLACE INTO state VALUES (1, ?, ?, ?)"


class Tables:
    """Used by one thread at a time. After an exception nothing of the batch is kept."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._next_workflow = _one(connection, "SELECT coalesce(max(id), 0) FROM workflows") + 1
        self._next_run = _one(connection, "SELECT coalesce(max(id), 0) FROM runs") + 1
        self.newest: int = _one(connection, "SELECT coalesce(max(newest), 0) FROM state")
        """The latest time written down in the journal (microseconds), as far as it is indexed."""
        self.presence = Presence(_one(connection, "SELECT count(*) FROM workflows"))
        for namespace, workflow_id in connection.execute("SELECT namespace, workflow_id FROM workflows"):
            self.presence.add(namespace, workflow_id)

    def position(self) -> bytes | None:
        """What the index is complete to, as it was given; None for one that never was."""
        found = self.connection.execute("SELECT position FROM state").fetchone()
        return found[0] if found is not None and isinstance(found[0], bytes) else None

    def write(self, batch: Batch, position: bytes, number: int) -> None:
        """Everything of batch `number`, or nothing of it."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            self.put(batch)
            self.reached(position, number)
            self.connection.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise

    def change(self, work: Callable[[sqlite3.Connection], T], *, durably: bool = False) -> T:
        """Do a piece of work in one transaction; `durably`: with everything before it, it survives a loss of power."""
        connection = self.connection
        if durably:
            connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        try:
            found = work(connection)
            if durably:
                connection.execute("UPDATE state SET batch = batch")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        finally:
            if durably:
                connection.execute("PRAGMA synchronous = NORMAL")
        return found

    def reached(self, position: bytes, number: int) -> None:
        """Note what the index is complete to and the batch that made it so, within a transaction of the caller's."""
        self.connection.execute(_SET_STATE, (position, self.newest, number))

    def put(self, batch: Batch) -> None:
        """Write a batch, within a transaction of the caller's."""
        changes = _Changes()
        for key, items in batch.items():
            found = known(self.connection, key) if key in self.presence else Known(key=key)
            found.take(items, self.connection)
            is_new = not found.id
            if is_new:
                found.id, self._next_workflow = self._next_workflow, self._next_workflow + 1
                self.presence.add(*key)
            for run in found.runs.values():
                self._run(changes, found, run)
            _workflow(changes, found, is_new=is_new)
            self.newest = max(self.newest, _newest(items))
        changes.write(self.connection)

    def _run(self, changes: "_Changes", found: Known, run: Run) -> None:
        row = run.row
        is_new = not run.id
        if is_new:
            run.id, self._next_run = self._next_run, self._next_run + 1
            changes.new_runs.append((run.id, found.id, *fixed_of(row), *changing_of(row)))
        else:
            changes.runs.append((*changing_of(row), run.id))
        if row.attributes is not run.kept:
            if run.kept:
                changes.bare.append((run.id,))
            for name, value in row.attributes.items():
                for cell in cells_of(value, is_datetime=name in row.datetimes):
                    changes.attributes.append((run.id, name, cell.kind, cell.value))


class _Changes:
    """Rows on their way to the tables, so that each kind is written in one go."""

    def __init__(self) -> None:
        self.new_workflows: list[tuple[Any, ...]] = []
        self.workflows: list[tuple[Any, ...]] = []
        self.new_runs: list[tuple[Any, ...]] = []
        self.runs: list[tuple[Any, ...]] = []
        self.places: list[tuple[int, int, int, int, int]] = []
        self.bare: list[tuple[int]] = []
        """Runs whose attributes there are not theirs any more."""
        self.attributes: list[tuple[Any, ...]] = []

    def write(self, connection: sqlite3.Connection) -> None:
        for statement, rows in (
            (_INSERT_WORKFLOW, self.new_workflows),
            (_UPDATE_WORKFLOW, self.workflows),
            (INSERT, self.new_runs),
            (UPDATE, self.runs),
            (_INSERT_PLACE, self.places),
            ("DELETE FROM attributes WHERE run = ?", self.bare),
            (_INSERT_ATTRIBUTE, self.attributes),
        ):
            if rows:
                connection.executemany(statement, rows)


def _workflow(changes: _Changes, found: Known, *, is_new: bool) -> None:
    last_run = found.last.id if found.last is not None else 0
    values = (found.transitions, last_run, found.is_open, found.wake_at, owed_text(found.owed), found.id)
    if is_new:
        changes.new_workflows.append((*found.key, *values))
    else:
        changes.workflows.append(values)
    first = found.transitions - len(found.places)
    changes.places += [
        (found.id, number, place.segment, place.offset, place.length) for number, place in enumerate(found.places, first)
    ]


def _newest(items: Sequence[Item]) -> int:
    last = next((item for item in reversed(items) if isinstance(item, Written)), None)
    return time_of(last.transition) if last is not None else 0


def time_of(transition: Transition) -> int:
    """The latest time in it: a run's entries are in order, each kind by itself."""
    return max((part[-1].time for change in transition.runs for part in (change.events, change.notes) if part), default=0)


def _one(connection: sqlite3.Connection, query: str) -> int:
    found: int = connection.execute(query).fetchone()[0]
    return found
