"""Listing runs: one row a run, folded from committed transitions and held in memory. The reference for stores that hold rows elsewhere.

Called by a store after a commit, never before.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

from msgspec import Struct

from perdure.core.errors import InvalidArgument
from perdure.core.listing.condition import holds
from perdure.core.listing.cursor import Key, decode_cursor, encode_cursor
from perdure.core.listing.grammar import parse
from perdure.core.shards import SHARDS, shard_of
from perdure.core.transition import RunChange, Transition
from perdure.ports import Census, RunFilter, RunPage, RunSummary
from perdure.store.rows import NOTHING_OWED, RunRow, begun, owed_after


class _Workflow(Struct, kw_only=True, gc=False):
    """All runs of one workflow id, oldest first, and how many transitions they have in all."""

    rows: list[RunRow]
    transitions: int = 0
    owed: frozenset[str] = NOTHING_OWED

    @property
    def is_open(self) -> bool:
        """It must be taken up at start-up: its last run is open, or a closed one left messages."""
        return bool(self.owed) or (bool(self.rows) and not self.rows[-1].closed_at)


class Visibility:
    """Rows of all runs, in the order of listings."""

    def __init__(self) -> None:
        self._workflows: dict[tuple[str, str], _Workflow] = {}
        self._order: list[RunRow] = []
        self._open: dict[tuple[str, str], None] = {}
        self._parked: dict[tuple[str, str], int] = {}
        """When each wakes; 0 = never."""

    def apply(self, transition: Transition) -> None:
        """Take in a committed transition; those of one workflow id come in order."""
        key = (transition.namespace, transition.workflow_id)
        workflow = self._workflows.get(key)
        if workflow is None:
            workflow = self._workflows[key] = _Workflow(rows=[])
        rows = workflow.rows
        was_open = workflow.is_open
        self._parked.pop(key, None)
        for change in transition.runs:
            if rows and rows[-1].run_id == change.run_id:
                row = rows[-1]
            else:
                row = _find(rows, change.run_id) or self._begin(key, rows, change, workflow.transitions)
            row.fold(change)
            row.last = workflow.transitions
        workflow.transitions += 1
        if transition.outbox or workflow.owed:
            workflow.owed = owed_after(workflow.owed, transition)
        is_open = workflow.is_open
        if is_open and not was_open:
            self._open[key] = None
        elif was_open and not is_open:
            del self._open[key]

    def _begin(self, workflow: tuple[str, str], rows: list[RunRow], change: RunChange, transition: int) -> RunRow:
        row = begun(*workflow, change, transition)
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

    def rows(self, namespace: str, workflow_id: str) -> Sequence[RunRow]:
        """The rows of all runs of a workflow id, oldest first."""
        workflow = self._workflows.get((namespace, workflow_id))
        return workflow.rows if workflow is not None else ()

    def mark_damaged(self, namespace: str, workflow_id: str, run_id: str) -> None:
        """Part of the run's history is lost: see `RunRow.set_aside`."""
        row = self.row(namespace, workflow_id, run_id)
        if row is not None:
            row.set_aside()

    def open_workflows(self, shards: Sequence[int]) -> list[tuple[str, str]]:
        """(namespace, workflow id) of every id of these shards that is not parked and whose last run is open or which has messages to deliver."""
        wanted = set(shards)
        restless = [key for key in self._open if key not in self._parked]
        return restless if len(wanted) == SHARDS else [key for key in restless if shard_of(*key) in wanted]

    def census(self) -> Census:
        """Who is open, of all namespaces."""
        rows = [row for key in self._open if not (row := self._workflows[key].rows[-1]).closed_at]
        return Census(
            open=len(rows),
            paused=tuple(row.run_id for row in rows if row.paused),
            quarantined=tuple(row.run_id for row in rows if row.quarantined),
        )

    def park(self, key: tuple[str, str], wake_at: int) -> None:
        """The open run only waits until then; its next transition ends that."""
        if key in self._open:
            self._parked[key] = wake_at

    def waking(self, until: int) -> tuple[list[tuple[str, str]], int]:
        """Parked ids that wake by `until`, soonest first, and when the next one after them does; 0 = none."""
        due = sorted((wake_at, key) for key, wake_at in self._parked.items() if wake_at)
        later = [wake_at for wake_at, _ in due if wake_at > until]
        return [key for wake_at, key in due if wake_at <= until], min(later, default=0)

    def page(self, filter: RunFilter, limit: int, cursor: str = "") -> RunPage:
        """Newest first. Raises `InvalidArgument` for a limit below 1, a cursor that is none or a query that cannot be read."""
        if limit < 1:
            raise InvalidArgument(f"limit must be at least 1, not {limit}")
        items: list[RunSummary] = []
        last: RunRow | None = None
        for row in self._matching(filter, decode_cursor(cursor) if cursor else None):
            if last is not None and len(items) == limit:
                return RunPage(items=tuple(items), cursor=encode_cursor(last.key))
            items.append(row.summary())
            last = row
        return RunPage(items=tuple(items))

    def count(self, filter: RunFilter) -> int:
        """Raises `InvalidArgument` for a query that cannot be read."""
        return sum(1 for _ in self._matching(filter, None))

    def _matching(self, filter: RunFilter, below: Key | None) -> Iterator[RunRow]:
        condition = parse(filter.query)
        rows = self._order
        end = len(rows) if below is None else bisect_left(rows, below, key=_key)
        for index in range(end - 1, -1, -1):
            row = rows[index]
            if row.namespace == filter.namespace and holds(condition, row.cells):
                yield row


def _key(row: RunRow) -> Key:
    return row.key


def _find(rows: list[RunRow], run_id: str) -> RunRow | None:
    return next((row for row in reversed(rows) if row.run_id == run_id), None)
