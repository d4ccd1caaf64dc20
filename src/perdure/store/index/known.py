"""One workflow id as an index knows it, and how it changes with what comes: the same fold for what is written and for what waits to be."""

import sqlite3
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import Struct

from perdure.core.events import Attribute
from perdure.core.transition import RunChange, Transition
from perdure.store.index.item import Damaged, Item, Key, Parked, Place, Written
from perdure.store.rows import NOTHING_OWED, RunRow, begun, owed_after

_Attributes = tuple[dict[str, Attribute], tuple[str, ...]]
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(_Attributes).decode

_decode_owed: Final = msgspec.json.Decoder(frozenset[str]).decode

_FIXED: Final = ("namespace", "workflow_id", "run_id", "started_at", "type", "queue", "parent", "first")
_CHANGING: Final = ("status", "closed_at", "length", "build_id", "paused", "quarantined", "attributes", "last")
COLUMNS: Final = (*_FIXED, *_CHANGING)
"""Of a row, as the table `runs` has them; the row's id and its workflow's come before these."""
SELECTED: Final = ", ".join(f"runs.{name}" for name in COLUMNS)
UPDATE: Final = f"UPDATE runs SET {', '.join(f'{name} = ?' for name in _CHANGING)} WHERE id = ?"
INSERT: Final = f"INSERT INTO runs (id, workflow, {', '.join(COLUMNS)}) VALUES ({', '.join('?' * (len(COLUMNS) + 2))})"


def fixed_of(row: RunRow) -> tuple[Any, ...]:
    """What never changes of a row."""
    return (
        row.namespace,
        row.workflow_id,
        row.run_id,
        row.started_at,
        row.type,
        row.queue,
        row.parent,
        row.first,
    )


def changing_of(row: RunRow) -> tuple[Any, ...]:
    """What may change of a row."""
    return (
        row.status,
        row.closed_at,
        row.length,
        row.build_id,
        row.paused,
        row.quarantined,
        _encode((row.attributes, row.datetimes)) if row.attributes else None,
        row.last,
    )


def row_of(values: tuple[Any, ...]) -> RunRow:
    """A row from the values of `COLUMNS`."""
    *rest, attributes, last = values
    row = RunRow(**dict(zip(COLUMNS, rest, strict=False)), last=last)
    row.paused, row.quarantined = bool(row.paused), bool(row.quarantined)
    if attributes is not None:
        row.attributes, row.datetimes = _decode(attributes)
    return row


def owed_text(owed: frozenset[str]) -> bytes | None:
    """Messages that are not delivered, as the table `workflows` has them."""
    return _encode(sorted(owed)) if owed else None


class Run(Struct, kw_only=True):
    """A row, its number in the table (0: not there yet) and the attributes it has there."""

    row: RunRow
    id: int = 0
    kept: dict[str, Attribute] = {}


class Known(Struct, kw_only=True):
    """A workflow id. `runs` are those that were asked for or changed, by run id; `last_run` is the newest one's."""

    key: Key
    id: int = 0
    transitions: int = 0
    last: Run | None = None
    wake_at: int | None = None
    owed: frozenset[str] = NOTHING_OWED
    """Messages in its outbox that are not delivered."""
    runs: dict[str, Run] = {}
    places: list[Place] = []
    """Of the transitions taken in here; the first is number `transitions - len(places)`."""

    @property
    def is_open(self) -> bool:
        """It must be taken up at start-up: its last run is open, or a closed one left messages."""
        return bool(self.owed) or (self.last is not None and not self.last.row.closed_at)

    def take(self, items: Iterable[Item], connection: sqlite3.Connection) -> None:
        """Take in what came, in order; runs not known so far are looked up."""
        for item in items:
            if isinstance(item, Written):
                self._written(item.transition, connection)
                self.places.append(item.place)
                self.wake_at = None
            elif isinstance(item, Parked):
                self.wake_at = item.wake_at
            else:
                self._damaged(item, connection)

    def _written(self, transition: Transition, connection: sqlite3.Connection) -> None:
        for change in transition.runs:
            run = self.last
            if run is None or run.row.run_id != change.run_id:
                run = self.find(change.run_id, connection)
                if run is None and change.notes and not change.events:
                    continue  # of a run that was dropped
                run = run or self._begin(change)
            elif not run.id or change.run_id not in self.runs:
                self.runs[change.run_id] = run
            run.row.fold(change)
            run.row.last = self.transitions
        self.transitions += 1
        if transition.outbox or self.owed:
            self.owed = owed_after(self.owed, transition)

    def _begin(self, change: RunChange) -> Run:
        run = self.runs[change.run_id] = self.last = Run(row=begun(*self.key, change, self.transitions))
        return run

    def _damaged(self, item: Damaged, connection: sqlite3.Connection) -> None:
        run = self.find(item.run_id, connection)
        if run is not None:
            run.row.set_aside(end_lost=item.end_lost)

    def find(self, run_id: str, connection: sqlite3.Connection) -> Run | None:
        """A run of it, from here or from the table; it then counts as changed."""
        run = self.runs.get(run_id)
        if run is None and self.last is not None and self.last.row.run_id == run_id:
            run = self.runs[run_id] = self.last
        if run is None and self.id:
            found = connection.execute(
                f"SELECT id, {SELECTED} FROM runs WHERE workflow = ? AND run_id = ?", (self.id, run_id)
            ).fetchone()
            if found is not None:
                run = self.runs[run_id] = _run_of(found)
        return run


def known(connection: sqlite3.Connection, key: Key) -> Known:
    """What the tables say of a workflow id; of one that is not there, nothing."""
    found = connection.execute(
        f"SELECT workflows.id, transitions, wake_at, owed, runs.id, {SELECTED} FROM workflows LEFT JOIN runs ON runs.id = last_run"
        " WHERE workflows.namespace = ? AND workflows.workflow_id = ?",
        key,
    ).fetchone()
    if found is None:
        return Known(key=key)
    return Known(
        key=key,
        id=found[0],
        transitions=found[1],
        wake_at=found[2],
        owed=_decode_owed(found[3]) if found[3] is not None else NOTHING_OWED,
        last=_run_of(found[4:]) if found[4] is not None else None,
    )


def _run_of(values: tuple[Any, ...]) -> Run:
    row = row_of(values[1:])
    return Run(row=row, id=values[0], kept=row.attributes)
