"""What keeping house changes in the index: runs past their keep time go, lines that were copied to another file are found there.

Each function is one short piece of work on one connection, within a transaction of its caller's where it changes anything.
"""

import sqlite3
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple, TypeAlias

_EXPIRED: Final = (
    "SELECT runs.id, runs.workflow, runs.first, runs.last, runs.type != '' AND is_open, runs.namespace, runs.workflow_id, runs.run_id"
    " FROM runs JOIN workflows ON workflows.id = runs.workflow"
    " WHERE closed_at > 0 AND closed_at <= ? AND owed IS NULL AND runs.id > ? ORDER BY runs.id LIMIT ?"
)
_FREE_PLACES: Final = (
    "DELETE FROM places WHERE workflow = ? AND number BETWEEN ? AND ? AND NOT EXISTS"
    " (SELECT 1 FROM runs WHERE runs.workflow = places.workflow AND runs.first <= number AND runs.last >= number)"
)


RunKey: TypeAlias = tuple[str, str, str]
"""Namespace, workflow id, run id."""


class Line(NamedTuple):
    """A line that is still wanted, as the index knows it: whose, which of its transitions, and where it begins."""

    workflow: int
    number: int
    offset: int


class Copied(NamedTuple):
    """Where a line is to be found from now on."""

    segment: int
    offset: int
    length: int
    workflow: int
    number: int


def expire(
    connection: sqlite3.Connection, before: int, spared: Collection[RunKey], after: int, limit: int, *, again: bool = False
) -> tuple[int, int]:
    """Drop runs that closed at `before` or earlier and whose workflow id owes no message, and what only they needed.

    Looks at `limit` of them, from the table's row `after` on. `spared` stay whatever their age, and a run stays while an earlier one of
    its workflow id does. `again`: they were dropped once, so of a workflow id that is open only those go whose beginning is gone
    already. Says how many went, and from which row on to look next (0: there are no more).
    """
    found = connection.execute(_EXPIRED, (before, after, limit)).fetchall()
    gone = 0
    for run, workflow, first, last, may_matter, *key in found:
        if (again and may_matter) or tuple(key) in spared or _has_earlier(connection, workflow, run):
            continue
        gone += 1
        connection.execute("DELETE FROM runs WHERE id = ?", (run,))
        connection.execute("DELETE FROM attributes WHERE run = ?", (run,))
        connection.execute("UPDATE workflows SET last_run = 0, is_open = 0 WHERE id = ? AND last_run = ?", (workflow, run))
        connection.execute(_FREE_PLACES, (workflow, first, last))
        if connection.execute("SELECT 1 FROM runs WHERE workflow = ?", (workflow,)).fetchone() is None:
            connection.execute("DELETE FROM workflows WHERE id = ?", (workflow,))
            connection.execute("DELETE FROM places WHERE workflow = ?", (workflow,))
    return gone, found[-1][0] if len(found) == limit else 0


def _has_earlier(connection: sqlite3.Connection, workflow: int, run: int) -> bool:
    return connection.execute("SELECT 1 FROM runs WHERE workflow = ? AND id < ?", (workflow, run)).fetchone() is not None


def forebears(connection: sqlite3.Connection, before: int) -> list[RunKey]:
    """Runs that closed at `before` or earlier and whose workflow id has an open run."""
    return list(
        connection.execute(
            "SELECT runs.namespace, runs.workflow_id, runs.run_id FROM runs JOIN workflows ON workflows.id = runs.workflow"
            " WHERE closed_at > 0 AND closed_at <= ? AND is_open",
            (before,),
        )
    )


def wanted(connection: sqlite3.Connection) -> dict[int, int]:
    """Bytes of lines that are still wanted, by segment."""
    return dict(connection.execute("SELECT segment, sum(length) FROM places GROUP BY segment").fetchall())


def lines(connection: sqlite3.Connection, segment: int) -> list[Line]:
    """Every line of a segment that is still wanted, in order."""
    found = connection.execute("SELECT workflow, number, offset FROM places WHERE segment = ?", (segment,))
    return sorted((Line(*values) for values in found), key=lambda line: line.offset)


def move(connection: sqlite3.Connection, copied: Sequence[Copied]) -> None:
    """Lines lie elsewhere now."""
    connection.executemany("UPDATE places SET segment = ?, offset = ?, length = ? WHERE workflow = ? AND number = ?", copied)


def nothing(connection: sqlite3.Connection) -> None:
    """For a transaction that only makes those before it durable."""
