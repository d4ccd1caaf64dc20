"""Asking the index. Every function takes a connection and sees what was written before; what waits to be is its callers' to add."""

import sqlite3
from typing import Final, NamedTuple

from perdure.core.errors import InvalidArgument
from perdure.core.listing.condition import All, Compare, Condition
from perdure.core.listing.cursor import decode_cursor, encode_cursor
from perdure.core.listing.grammar import parse
from perdure.ports import Census, RunFilter, RunPage
from perdure.store.index.item import Key, Place
from perdure.store.index.known import SELECTED, row_of
from perdure.store.index.sql import where
from perdure.store.rows import RunRow

FEW_MAX: Final = 1_000
"""So many candidates are sooner fetched and sorted than looked for in the order of the listing."""
WAKING_MAX: Final = 1_000
"""Workflow ids told at once that are to wake."""


class Writer(NamedTuple):
    """Who wrote a line: its workflow id, and those of its runs that the line may be of."""

    namespace: str
    workflow_id: str
    run_ids: tuple[str, ...]


def batch(connection: sqlite3.Connection) -> int:
    """Number of the batch that was written last."""
    found = connection.execute("SELECT batch FROM state").fetchone()
    return found[0] if found is not None else 0


def places(connection: sqlite3.Connection, key: Key, first: int = 0, last: int | None = None) -> list[Place]:
    """Places of a workflow id's transitions number `first` to `last` (all of them without it), counted from 0."""
    found = connection.execute(
        "SELECT segment, offset, length FROM places WHERE workflow = (SELECT id FROM workflows WHERE namespace = ? AND workflow_id = ?)"
        " AND number >= ? AND number <= ? ORDER BY number",
        (*key, first, last if last is not None else 2**62),
    )
    return [Place(*values) for values in found]


def rows(connection: sqlite3.Connection, key: Key) -> list[RunRow]:
    """The rows of all runs of a workflow id, oldest first."""
    found = connection.execute(f"SELECT {SELECTED} FROM runs WHERE namespace = ? AND workflow_id = ? ORDER BY id", key)
    return [row_of(values) for values in found]


def page(connection: sqlite3.Connection, filter: RunFilter, limit: int, cursor: str) -> RunPage:
    """Newest first. Raises `InvalidArgument` for a limit below 1, a cursor that is none or a query that cannot be read."""
    if limit < 1:
        raise InvalidArgument(f"limit must be at least 1, not {limit}")
    condition = parse(filter.query)
    # A plus before a column keeps SQLite from walking its index: with few candidates it is better to fetch and sort those.
    plain = "+" if _are_few(connection, condition) else ""
    text, values = where(condition)
    behind = ""
    if cursor:
        behind = f" AND ({plain}started_at, run_id, workflow_id) < (?, ?, ?)"
        values += decode_cursor(cursor)
    found = connection.execute(
        f"SELECT {SELECTED} FROM runs WHERE {plain}namespace = ? AND {text}{behind}"
        f" ORDER BY {plain}started_at DESC, run_id DESC, workflow_id DESC LIMIT ?",
        (filter.namespace, *values, limit + 1),
    ).fetchall()
    listed = [row_of(row) for row in found[:limit]]
    more = encode_cursor(listed[-1].key) if len(found) > limit else ""
    return RunPage(items=tuple(row.summary() for row in listed), cursor=more)


def _are_few(connection: sqlite3.Connection, condition: Condition) -> bool:
    """True when an attribute that every run of the listing must have with that value is rare."""
    parts = condition.parts if isinstance(condition, All) else (condition,)
    for part in parts:
        if isinstance(part, Compare) and part.column.kind is None and part.operator == "=":
            alike = " UNION ALL ".join(
                ["SELECT 1 FROM attributes WHERE name = ? AND kind = ? AND value = ?"] * len(part.operands)
            )
            values = [value for cell in part.operands for value in (part.column.name, cell.kind, cell.value)]
            found = connection.execute(f"SELECT count(*) FROM ({alike} LIMIT {FEW_MAX + 1})", values).fetchone()[0]
            if found <= FEW_MAX:
                return True
    return False


def count(connection: sqlite3.Connection, filter: RunFilter) -> int:
    """Raises `InvalidArgument` for a query that cannot be read."""
    condition, values = where(parse(filter.query))
    found: int = connection.execute(
        f"SELECT count(*) FROM runs WHERE namespace = ? AND {condition}", (filter.namespace, *values)
    ).fetchone()[0]
    return found


def census(connection: sqlite3.Connection) -> Census:
    """Who is open, of all namespaces."""
    last = "FROM workflows JOIN runs ON runs.id = last_run WHERE is_open AND NOT closed_at"
    unusual = connection.execute(f"SELECT run_id, paused, quarantined {last} AND (paused OR quarantined)").fetchall()
    return Census(
        open=connection.execute(f"SELECT count(*) {last}").fetchone()[0],
        paused=tuple(run_id for run_id, paused, _ in unusual if paused),
        quarantined=tuple(run_id for run_id, _, quarantined in unusual if quarantined),
    )


def restless(connection: sqlite3.Connection) -> list[Key]:
    """Every workflow id whose last run is open and that is not parked."""
    return list(
        connection.execute("SELECT namespace, workflow_id FROM workflows WHERE is_open AND wake_at IS NULL ORDER BY id")
    )


def waking(connection: sqlite3.Connection, until: int) -> tuple[list[Key], int]:
    """Parked workflow ids that wake at `until` or before, soonest first and not all at once, and the next instant another one does (0: never)."""
    due = connection.execute(
        "SELECT namespace, workflow_id, wake_at FROM workflows WHERE is_open AND wake_at > 0 ORDER BY wake_at LIMIT ?",
        (WAKING_MAX + 1,),
    ).fetchall()
    now = [(namespace, workflow_id) for namespace, workflow_id, instant in due[:WAKING_MAX] if instant <= until]
    return now, due[len(now)][2] if len(now) < len(due) else 0


def who_wrote(connection: sqlite3.Connection, segment: int, offset: int) -> Writer | None:
    """Whose line holds that byte of that segment; None when no line known here does. Looks through all places: not for every day."""
    found = connection.execute(
        "SELECT workflows.id, namespace, workflow_id, number FROM places JOIN workflows ON workflows.id = workflow"
        " WHERE segment = ? AND offset <= ? AND offset + length > ?",
        (segment, offset, offset),
    ).fetchone()
    if found is None:
        return None
    workflow, namespace, workflow_id, number = found
    runs = connection.execute(
        "SELECT run_id FROM runs WHERE workflow = ? AND first <= ? AND last >= ? ORDER BY id", (workflow, number, number)
    )
    return Writer(namespace, workflow_id, tuple(run_id for (run_id,) in runs))
