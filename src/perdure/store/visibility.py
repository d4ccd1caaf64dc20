"""Listing runs: one row a run, folded from committed transitions and held in memory. Used by every store of one process.

Called by a store after a commit, never before. Holds no events; where a run's transitions lie is said by `RunRow.first` and `last`,
which count the workflow id's transitions from 0.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from perdure.core.errors import InvalidArgument
from perdure.core.events import (
    AnyEvent,
    Cancelled,
    Completed,
    ContinuedAsNew,
    Failed,
    Reset,
    Started,
    Terminated,
    TimedOut,
)
from perdure.core.notes import AnyNote, Paused, Quarantined, Resumed
from perdure.core.replies import Status
from perdure.core.shards import SHARDS, shard_of
from perdure.core.transition import RunChange, Transition
from perdure.ports import RunFilter, RunPage, RunSummary

_CLOSED: Final[dict[type[AnyEvent], Status]] = {
    Completed: "completed",
    Failed: "failed",
    Cancelled: "cancelled",
    ContinuedAsNew: "continued",
    Terminated: "terminated",
    TimedOut: "timed_out",
}

_TELLING: Final[frozenset[type[AnyNote]]] = frozenset({Quarantined, Paused, Resumed})

Key = tuple[int, str, str]
"""Sort key of a listing: (started_at, run id, workflow id); the last only in case two runs share an id."""


class RunRow(Struct, kw_only=True, gc=False):
    """One run, as far as listings know it."""

    key: Key
    namespace: str
    workflow_id: str
    run_id: str
    started_at: int
    type: str = ""
    queue: str = ""
    status: Status = "running"
    closed_at: int = 0
    length: int = 0
    paused: bool = False
    quarantined: bool = False
    first: int = 0
    last: int = 0

    def summary(self) -> RunSummary:
        return RunSummary(
            namespace=self.namespace,
            workflow_id=self.workflow_id,
            run_id=self.run_id,
            type=self.type,
            status=self.status,
            queue=self.queue,
            started_at=self.started_at,
            closed_at=self.closed_at,
            length=self.length,
        )

    def fold(self, change: RunChange) -> None:
        """Take in what a transition appends to this run."""
        if change.events:
            last = change.events[-1]
            self.length = last.id
            status = _CLOSED.get(type(last))
            if status is not None:
                self.status, self.closed_at = status, last.time
        if change.notes and not _TELLING.isdisjoint(map(type, change.notes)):
            self._fold_notes(change.notes)

    def _fold_notes(self, notes: Sequence[AnyNote]) -> None:
        for note in notes:
            if isinstance(note, Quarantined):
                self.quarantined = True
            elif isinstance(note, Paused):
                self.paused = True
            elif isinstance(note, Resumed):
                self.paused = self.quarantined = False
        if not self.closed_at:
            self.status = "quarantined" if self.quarantined else "paused" if self.paused else "running"


class _Workflow(Struct, kw_only=True, gc=False):
    """All runs of one workflow id, oldest first, and how many transitions they have in all."""

    rows: list[RunRow]
    transitions: int = 0


class Visibility:
    """Rows of all runs, in the order of listings."""

    def __init__(self) -> None:
        self._workflows: dict[tuple[str, str], _Workflow] = {}
        self._order: list[RunRow] = []
        self._open: dict[tuple[str, str], None] = {}

    def apply(self, transition: Transition) -> None:
        """Take in a committed transition; those of one workflow id come in order."""
        key = (transition.namespace, transition.workflow_id)
        workflow = self._workflows.get(key)
        if workflow is None:
            workflow = self._workflows[key] = _Workflow(rows=[])
        rows = workflow.rows
        was_open = bool(rows) and not rows[-1].closed_at
        for change in transition.runs:
            if rows and rows[-1].run_id == change.run_id:
                row = rows[-1]
            else:
                row = _find(rows, change.run_id) or self._begin(key, rows, change, workflow.transitions)
            row.fold(change)
            row.last = workflow.transitions
        workflow.transitions += 1
        is_open = bool(rows) and not rows[-1].closed_at
        if is_open and not was_open:
            self._open[key] = None
        elif was_open and not is_open:
            del self._open[key]

    def _begin(self, workflow: tuple[str, str], rows: list[RunRow], change: RunChange, transition: int) -> RunRow:
        started = change.events[0] if change.events and isinstance(change.events[0], Started) else None
        started_at = started.time if started is not None else 0
        for event in change.events[1:]:
            if isinstance(event, Reset):  # the events before it were copied from the run it came from, with that one's start
                started_at = max(started_at, event.time)
        namespace, workflow_id = workflow
        row = RunRow(
            key=(started_at, change.run_id, workflow_id),
            namespace=namespace,
            workflow_id=workflow_id,
            run_id=change.run_id,
            started_at=started_at,
            first=transition,
        )
        if started is not None:  # always, but a listing is no place to stop a node over it
            row.type, row.queue, row.paused = started.workflow_type, started.queue, started.paused
            row.status = "paused" if started.paused else "running"
        rows.append(row)
        if not self._order or self._order[-1].key <= row.key:
            self._order.append(row)
        else:
            insort(self._order, row, key=_key)
        return row

    def row(self, namespace: str, workflow_id: str, run_id: str = "") -> RunRow | None:
        """The row of a run; without `run_id` the last run's."""
        workflow = self._workflows.get((namespace, workflow_id))
        if workflow is None or not workflow.rows:
            return None
        return _find(workflow.rows, run_id) if run_id else workflow.rows[-1]

    def open_workflows(self, shards: Sequence[int]) -> list[tuple[str, str]]:
        """(namespace, workflow id) of every id of these shards whose last run is open."""
        wanted = set(shards)
        if len(wanted) == SHARDS:
            return list(self._open)
        return [key for key in self._open if shard_of(*key) in wanted]

    def page(self, filter: RunFilter, limit: int, cursor: str = "") -> RunPage:
        """Newest first. Raises `InvalidArgument` for a limit below 1 or a cursor that is none."""
        if limit < 1:
            raise InvalidArgument(f"limit must be at least 1, not {limit}")
        items: list[RunSummary] = []
        last: RunRow | None = None
        for row in self._matching(filter, _decode_cursor(cursor) if cursor else None):
            if last is not None and len(items) == limit:
                return RunPage(items=tuple(items), cursor=_encode_cursor(last.key))
            items.append(row.summary())
            last = row
        return RunPage(items=tuple(items))

    def count(self, filter: RunFilter) -> int:
        return sum(1 for _ in self._matching(filter, None))

    def _matching(self, filter: RunFilter, below: Key | None) -> Iterator[RunRow]:
        if filter.workflow_id:
            workflow = self._workflows.get((filter.namespace, filter.workflow_id))
            rows = sorted(workflow.rows, key=_key) if workflow is not None else []
        else:
            rows = self._order
        end = len(rows) if below is None else bisect_left(rows, below, key=_key)
        if filter.started_until:
            end = min(end, bisect_left(rows, filter.started_until, key=_started_at))
        start = bisect_left(rows, filter.started_since, key=_started_at) if filter.started_since else 0
        for index in range(end - 1, start - 1, -1):
            row = rows[index]
            if (
                row.namespace == filter.namespace
                and (not filter.type or row.type == filter.type)
                and (not filter.statuses or row.status in filter.statuses)
            ):
                yield row


def _key(row: RunRow) -> Key:
    return row.key


def _started_at(row: RunRow) -> int:
    return row.started_at


def _find(rows: list[RunRow], run_id: str) -> RunRow | None:
    return next((row for row in reversed(rows) if row.run_id == run_id), None)


def _encode_cursor(key: Key) -> str:
    return urlsafe_b64encode(msgspec.json.encode(key)).decode().rstrip("=")


def _decode_cursor(cursor: str) -> Key:
    try:
        return msgspec.json.decode(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)), type=Key)
    except (ValueError, msgspec.DecodeError):
        raise InvalidArgument("cursor is not one that a listing gave out") from None
