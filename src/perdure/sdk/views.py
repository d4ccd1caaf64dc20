"""What the engine knows, in the form people read: datetimes instead of microseconds, values instead of payloads."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from msgspec import Raw, Struct

from perdure.core.description import Description, Pending
from perdure.core.failure import Failure
from perdure.core.payload import is_absent
from perdure.ports import Record, RunSummary
from perdure.sdk.attributes import AttributeValue, read
from perdure.sdk.duration import aware
from perdure.sdk.payloads import CONVERTER


@dataclass(frozen=True, slots=True)
class PendingItem:
    """One thing a run waits for: an activity (with its attempt and last failure), a timer (until), a signal or a condition (`name`: of
    the signal, where the condition is written), a child or a message to another run (`workflow_id`: whose), an update, a decision, a
    build, a resume.

    `since`: when that began; `until`: when a timer fires, or a retry or delayed start may begin; `deadline`: when an activity, or its
    attempt, runs out of time; `attempts_max` 0 = unlimited; `worker` and `build_id`: who holds it.
    """

    kind: str
    name: str = ""
    state: str = ""
    attempt: int = 0
    worker: str = ""
    until: datetime | None = None
    failure: str = ""
    summary: str = ""
    event_id: int = 0
    workflow_id: str = ""
    since: datetime | None = None
    attempts_max: int = 0
    deadline: datetime | None = None
    queue: str = ""
    build_id: str = ""


@dataclass(frozen=True, slots=True)
class WorkflowDescription:
    """One run as of now. `result` is plain JSON data; `failure` holds class, message and causes."""

    workflow_id: str
    run_id: str
    type: str
    status: str
    queue: str
    started_at: datetime
    closed_at: datetime | None = None
    result: Any = None
    failure: Failure | None = None
    reason: str = ""
    pending: tuple[PendingItem, ...] = ()
    attributes: dict[str, AttributeValue] = field(default_factory=dict[str, AttributeValue])
    memo: dict[str, Any] = field(default_factory=dict[str, Any])
    details: str = ""
    build_id: str = ""
    parent: tuple[str, str] | None = None
    history_length: int = 0
    last_event_at: datetime | None = None
    covered: int = 0
    """The code has seen the history up to this event, as of its last decision."""
    standstill: tuple[str, ...] = ()
    """Why nobody moves it, in words; empty while somebody does, or while what it waits for comes by itself."""


@dataclass(frozen=True, slots=True)
class WorkflowSummary:
    """One row of a listing."""

    workflow_id: str
    run_id: str
    type: str
    status: str
    queue: str
    started_at: datetime
    closed_at: datetime | None = None
    history_length: int = 0
    parent: str | None = None
    """Workflow id of the run that asked for it."""
    build_id: str = ""
    attributes: dict[str, AttributeValue] = field(default_factory=dict[str, AttributeValue])


class HistoryEntry:
    """One event or note: `.id`, `.time` (aware), `.type`, and the fields of its kind with payloads as plain values."""

    __slots__ = ("_entry", "is_note")

    def __init__(self, entry: Any, *, is_note: bool = False) -> None:
        self._entry = entry
        self.is_note = is_note

    @property
    def id(self) -> int:
        """Its number; events and notes are numbered apart."""
        number: int = self._entry.id
        return number

    @property
    def type(self) -> str:
        """`activity_scheduled`, `signal_received` …"""
        kind: str = self._entry.type
        return kind

    @property
    def time(self) -> datetime:
        return aware(self._entry.time)

    def __getattr__(self, name: str) -> Any:
        return plain(getattr(self._entry, name))

    def __repr__(self) -> str:
        fields = " ".join(f"{name}={value!r}" for name, value in self.fields().items())
        return f"<{'note' if self.is_note else 'event'} {self._entry.id} {self._entry.type}{' ' if fields else ''}{fields}>"

    def fields(self) -> dict[str, Any]:
        """The fields of its kind that say something, without id, time and type."""
        entry = self._entry
        defaults = dict(zip(reversed(entry.__struct_fields__), reversed(entry.__struct_defaults__), strict=False))
        found: dict[str, Any] = {}
        for name in entry.__struct_fields__:
            value = getattr(entry, name)
            if name not in _UNSAID and not _says_nothing(value, defaults.get(name)):
                found[name] = plain(value)
        return found


_UNSAID = frozenset({"id", "time", "token", "incarnation", "encoded"})
"""Said elsewhere, or nobody's business: a claim's token is the right to report on it."""


def _says_nothing(value: Any, default: Any) -> bool:
    if isinstance(value, Raw):
        return is_absent(value)
    return bool(value == default) or value in ((), {})


def plain(value: Any) -> Any:
    """A field's value with payloads read as JSON data."""
    if isinstance(value, Raw):
        return None if is_absent(value) else CONVERTER.decode(value, Any, "payload")
    if isinstance(value, tuple):
        return [plain(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in cast("dict[str, Any]", value).items()}
    return value


def data(value: Any) -> Any:
    """Like `plain`, all the way down to what JSON can hold: structs become objects without their empty fields."""
    if isinstance(value, Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return {name: data(item) for name, item in fields.items() if item not in ("", (), {}, None) and not _absent(item)}
    if isinstance(value, list | tuple):
        return [data(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {key: data(item) for key, item in cast("dict[str, Any]", value).items()}
    return plain(value)


def _absent(value: Any) -> bool:
    return isinstance(value, Raw) and is_absent(value)


def entries_of(record: Record, *, notes: bool) -> list[HistoryEntry]:
    """A run's events in order; with `notes`, each note behind the event after which it was written."""
    entries = [HistoryEntry(event) for event in record.events]
    if not notes:
        return entries
    merged = [(event.id, 0, HistoryEntry(event)) for event in record.events]
    merged += [(note.after, note.id, HistoryEntry(note, is_note=True)) for note in record.notes]
    return [entry for _, _, entry in sorted(merged, key=lambda item: item[:2])]


def _when(instant: int) -> datetime | None:
    return aware(instant) if instant else None


def view_of(description: Description) -> WorkflowDescription:
    """What `describe` gives."""
    return WorkflowDescription(
        workflow_id=description.workflow_id,
        run_id=description.run_id,
        type=description.type,
        status=description.status,
        queue=description.queue,
        started_at=aware(description.started_at),
        closed_at=_when(description.closed_at),
        result=plain(description.result),
        failure=description.failure,
        reason=description.reason,
        pending=tuple(map(_pending, description.pending)),
        attributes=read(description.attributes, description.attribute_datetimes),
        memo=plain(description.memo),
        details=description.details,
        build_id=description.build_id,
        parent=None if description.parent is None else (description.parent.workflow_id, description.parent.run_id),
        history_length=description.history_length,
        last_event_at=_when(description.last_event_at),
        covered=description.covered,
        standstill=description.standstill,
    )


def _pending(item: Pending) -> PendingItem:
    return PendingItem(
        kind=item.kind,
        name=item.name,
        state=item.state,
        attempt=item.attempt,
        worker=item.worker,
        until=_when(item.until),
        failure=f"{item.failure.type}: {item.failure.message}" if item.failure is not None else "",
        summary=item.summary,
        event_id=item.command,
        workflow_id=item.workflow_id,
        since=_when(item.since),
        attempts_max=item.attempts_max,
        deadline=_when(item.deadline),
        queue=item.queue,
        build_id=item.build_id,
    )


def summary_of(run: RunSummary) -> WorkflowSummary:
    """One row of a listing."""
    return WorkflowSummary(
        workflow_id=run.workflow_id,
        run_id=run.run_id,
        type=run.type,
        status=run.status,
        queue=run.queue,
        started_at=aware(run.started_at),
        closed_at=_when(run.closed_at),
        history_length=run.length,
        parent=run.parent or None,
        build_id=run.build_id,
        attributes=read(run.attributes, run.attribute_datetimes),
    )
