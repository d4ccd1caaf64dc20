"""One run as listings know it: folded from committed transitions, the same in every store."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from perdure.core.events import (
    AnyEvent,
    Attribute,
    AttributesSet,
    Cancelled,
    Completed,
    ContinuedAsNew,
    Failed,
    Reset,
    Started,
    Terminated,
    TimedOut,
)
from perdure.core.listing.columns import Cell, Column, cells_of
from perdure.core.listing.cursor import Key
from perdure.core.machine.attributes import merged
from perdure.core.notes import AnyNote, DecidedBy, Delivered, Paused, Quarantined, Resumed
from perdure.core.replies import Status
from perdure.core.transition import RunChange, Transition
from perdure.ports import RunSummary

_CLOSED: Final[dict[type[AnyEvent], Status]] = {
    Completed: "completed",
    Failed: "failed",
    Cancelled: "cancelled",
    ContinuedAsNew: "continued",
    Terminated: "terminated",
    TimedOut: "timed_out",
}

_TELLING: Final[frozenset[type[AnyNote]]] = frozenset({Quarantined, Paused, Resumed, DecidedBy})


class RunRow(Struct, kw_only=True, gc=False):
    """One run. Holds no events; `first` and `last` say which of the workflow id's transitions, counted from 0, changed it."""

    namespace: str
    workflow_id: str
    run_id: str
    started_at: int
    type: str = ""
    queue: str = ""
    status: Status = "running"
    closed_at: int = 0
    length: int = 0
    parent: str = ""
    build_id: str = ""
    attributes: dict[str, Attribute] = {}
    datetimes: tuple[str, ...] = ()
    """Names of the attributes that are datetimes."""
    paused: bool = False
    quarantined: bool = False
    first: int = 0
    last: int = 0

    @property
    def key(self) -> Key:
        return self.started_at, self.run_id, self.workflow_id

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
            parent=self.parent,
            build_id=self.build_id,
            attributes=self.attributes,
            attribute_datetimes=self.datetimes,
        )

    def cells(self, column: Column) -> Sequence[Cell]:
        """What a list query finds in a column of this row."""
        if column.kind is None:
            return cells_of(self.attributes.get(column.name), is_datetime=column.name in self.datetimes)
        value: str | int = getattr(self, _FIELDS.get(column.name, column.name))
        return (Cell(column.kind, value),) if value or column.name not in _MAY_LACK else ()

    def fold(self, change: RunChange) -> None:
        """Take in what a transition appends to this run."""
        events = change.events
        if events:
            last = events[-1]
            self.length = last.id
            status = _CLOSED.get(type(last))
            if status is not None:
                self.status, self.closed_at = status, last.time
            for event in events:
                if type(event) is AttributesSet:
                    self._set_attributes(event)
        if change.notes and not _TELLING.isdisjoint(map(type, change.notes)):
            self._fold_notes(change.notes)

    def set_aside(self, *, end_lost: bool = False) -> None:
        """Part of the run's history is lost. Of one that somebody terminated nothing more is wanted, as long as that is written."""
        self.quarantined = True
        if self.status != "terminated" or end_lost:
            self.status = "quarantined"

    def _set_attributes(self, event: AttributesSet) -> None:
        self.attributes, self.datetimes = merged(self.attributes, self.datetimes, event)

    def _fold_notes(self, notes: Sequence[AnyNote]) -> None:
        for note in notes:
            if isinstance(note, DecidedBy):
                self.build_id = note.build_id
            elif isinstance(note, Quarantined):
                self.quarantined = True
            elif isinstance(note, Paused):
                self.paused = True
            elif isinstance(note, Resumed):
                self.quarantined = False
                self.paused = self.paused and bool(note.by_build)
        if not self.closed_at:
            self.status = "quarantined" if self.quarantined else "paused" if self.paused else "running"


_FIELDS: Final = {"build": "build_id"}
"""Columns that queries call by another name than the row does."""
_MAY_LACK: Final = frozenset({"closed_at", "parent", "build"})


NOTHING_OWED: Final[frozenset[str]] = frozenset()


def owed_after(owed: frozenset[str], transition: Transition) -> frozenset[str]:
    """Request ids of the messages in a workflow id's outbox that are not delivered, once a transition is taken in."""
    left = {*owed, *(message.request_id for message in transition.outbox)}
    for change in transition.runs:
        for note in change.notes:
            if isinstance(note, Delivered):
                left.difference_update(note.messages)
    return frozenset(left)


def begun(namespace: str, workflow_id: str, change: RunChange, transition: int) -> RunRow:
    """The row of a run whose first change this is, by the workflow id's transition of that number; the change is not folded yet."""
    started = change.events[0] if change.events and isinstance(change.events[0], Started) else None
    started_at = started.time if started is not None else 0
    for event in change.events[1:]:
        if isinstance(event, Reset):  # the events before it were copied from the run it came from, with that one's start
            started_at = max(started_at, event.time)
    row = RunRow(namespace=namespace, workflow_id=workflow_id, run_id=change.run_id, started_at=started_at, first=transition)
    if started is not None:  # always, but a listing is no place to stop a node over it
        row.type, row.queue, row.paused = started.workflow_type, started.queue, started.paused
        row.status = "paused" if started.paused else "running"
        row.attributes, row.datetimes = started.attributes, started.attribute_datetimes
        if started.parent is not None:
            row.parent = started.parent.workflow_id
    return row
