"""Runs as the HTTP API shows them: times as ISO 8601 text in UTC, payloads as the JSON they are, nothing said that is empty."""

from datetime import datetime
from typing import Any, Final

from msgspec import UNSET, Raw, Struct, UnsetType

from perdure.core.description import Description, Pending
from perdure.core.events import Attribute
from perdure.core.failure import Failure, FailureKind
from perdure.core.payload import NULL, Payload, is_absent
from perdure.core.replies import RunResult, Status
from perdure.ports import Record, RunSummary
from perdure.sdk.duration import aware


class FailureView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What user code raised, or why an activity or child came to nothing. `type` is the class name."""

    type: str
    message: str = ""
    kind: FailureKind = "error"
    name: str = ""
    """Of an activity's or child's error: its type name."""
    attempts: int = 0
    non_retryable: bool = False
    details: Raw | UnsetType = UNSET
    notes: tuple[str, ...] = ()
    traceback: str = ""
    cause: "FailureView | None" = None
    parts: "tuple[FailureView, ...]" = ()
    """Members of an exception group."""


class Parent(Struct, frozen=True, kw_only=True):
    """The run that asked for this one as its child."""

    workflow_id: str
    run_id: str


class PendingView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing a run waits for. `event_id` is the command's number in the history."""

    kind: str
    event_id: int = 0
    name: str = ""
    state: str = ""
    attempt: int = 0
    worker: str = ""
    until: datetime | None = None
    failure: FailureView | None = None
    summary: str = ""
    workflow_id: str = ""
    since: datetime | None = None
    attempts_max: int = 0
    """0 = unlimited."""
    deadline: datetime | None = None
    """When an activity, or its attempt, runs out of time."""
    queue: str = ""
    build_id: str = ""


class RunView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run as of now. Without `closed_at` it is open."""

    workflow_id: str
    run_id: str
    type: str
    status: Status
    queue: str
    started_at: datetime
    closed_at: datetime | None = None
    result: Raw | UnsetType = UNSET
    failure: FailureView | None = None
    reason: str = ""
    pending: tuple[PendingView, ...] = ()
    attributes: dict[str, Attribute] = {}
    attribute_datetimes: tuple[str, ...] = ()
    """Names of the attributes that are datetimes."""
    memo: dict[str, Raw] = {}
    details: str = ""
    build_id: str = ""
    parent: Parent | None = None
    history_length: int = 0
    next_run_id: str = ""
    """The run it went on as."""


class Outcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a run ended: `result` when it returned, `failure` when it raised, `reason` when it was stopped; or how it stands."""

    workflow_id: str
    run_id: str
    status: Status
    result: Raw | UnsetType = UNSET
    failure: FailureView | None = None
    reason: str = ""


class Summary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One row of a listing."""

    workflow_id: str
    run_id: str
    type: str
    status: Status
    queue: str
    started_at: datetime
    closed_at: datetime | None = None
    history_length: int = 0
    parent: str = ""
    """Workflow id of the run that asked for it."""
    build_id: str = ""
    attributes: dict[str, Attribute] = {}
    attribute_datetimes: tuple[str, ...] = ()


class RunList(Struct, frozen=True, kw_only=True):
    """One page, newest first. `cursor` is null on the last one."""

    items: tuple[Summary, ...]
    cursor: str | None


class Count(Struct, frozen=True, kw_only=True):
    """How many."""

    count: int


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event or note, with fields of its own beside these; in them instants and durations are integer microseconds."""

    id: int
    time: datetime
    type: str
    note: bool = False


class History(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a history, in order. `cursor` is what `after` is to be for the next part; null when there will be no other."""

    workflow_id: str
    run_id: str
    items: tuple[Entry, ...]
    cursor: str | None
    damage: str | None = None
    """Why entries that once stood behind these are lost."""


_UNSAID: Final = frozenset({"id", "time", "token", "incarnation", "encoded"})
"""Said elsewhere, or nobody's business: a claim's token is the right to report on it."""


def when(instant: int) -> datetime | None:
    """Microseconds as a time; None for 0."""
    return aware(instant) if instant else None


def view_of(run: Description) -> RunView:
    """What `describe` shows."""
    parent = run.parent
    return RunView(
        workflow_id=run.workflow_id,
        run_id=run.run_id,
        type=run.type,
        status=run.status,
        queue=run.queue,
        started_at=aware(run.started_at),
        closed_at=when(run.closed_at),
        result=_given(run.result),
        failure=failure_of(run.failure),
        reason=run.reason,
        pending=tuple(map(pending_of, run.pending)),
        attributes=run.attributes,
        attribute_datetimes=run.attribute_datetimes,
        memo=run.memo,
        details=run.details,
        build_id=run.build_id,
        parent=None if parent is None else Parent(workflow_id=parent.workflow_id, run_id=parent.run_id),
        history_length=run.history_length,
        next_run_id=run.next_run_id,
    )


def pending_of(item: Pending) -> PendingView:
    return PendingView(
        kind=item.kind,
        event_id=item.command,
        name=item.name,
        state=item.state,
        attempt=item.attempt,
        worker=item.worker,
        until=when(item.until),
        failure=failure_of(item.failure),
        summary=item.summary,
        workflow_id=item.workflow_id,
        since=when(item.since),
        attempts_max=item.attempts_max,
        deadline=when(item.deadline),
        queue=item.queue,
        build_id=item.build_id,
    )


def outcome_of(workflow_id: str, run: RunResult | Description) -> Outcome:
    """How a run ended or stands. What returned nothing has the result null."""
    return Outcome(
        workflow_id=workflow_id,
        run_id=run.run_id,
        status=run.status,
        result=NULL if run.status == "completed" and is_absent(run.result) else _given(run.result),
        failure=failure_of(run.failure),
        reason=run.reason,
    )


def failure_of(failure: Failure | None) -> FailureView | None:
    """A failure, with what it came from."""
    if failure is None:
        return None
    return FailureView(
        type=failure.type,
        message=failure.message,
        kind=failure.kind,
        name=failure.name,
        attempts=failure.attempts,
        non_retryable=failure.non_retryable,
        details=_given(failure.details),
        notes=failure.notes,
        traceback=failure.traceback,
        cause=failure_of(failure.cause),
        parts=tuple(part for each in failure.parts if (part := failure_of(each)) is not None),
    )


def _given(payload: Payload) -> Raw | UnsetType:
    return UNSET if is_absent(payload) else payload


def summary_of(run: RunSummary) -> Summary:
    """One row of a listing."""
    return Summary(
        workflow_id=run.workflow_id,
        run_id=run.run_id,
        type=run.type,
        status=run.status,
        queue=run.queue,
        started_at=aware(run.started_at),
        closed_at=when(run.closed_at),
        history_length=run.length,
        parent=run.parent,
        build_id=run.build_id,
        attributes=run.attributes,
        attribute_datetimes=run.attribute_datetimes,
    )


def entries_of(record: Record, events_after: int, notes_after: int, *, notes: bool) -> list[tuple[int, bool, dict[str, Any]]]:
    """What stands behind these numbers, in order: each entry's number, whether it is a note, and what is shown of it."""
    found = [(event.id, 0, False, event) for event in record.events if event.id > events_after]
    beside = [(note.after, note.id, True, note) for note in record.notes if note.id > notes_after] if notes else []
    merged = sorted([*found, *beside], key=lambda item: item[:2])
    return [(entry.id, is_note, _shown(entry, is_note)) for _, _, is_note, entry in merged]


def _shown(entry: Any, is_note: bool) -> dict[str, Any]:
    fields = entry.__struct_fields__
    defaults = dict(zip(reversed(fields), reversed(entry.__struct_defaults__), strict=False))
    shown: dict[str, Any] = {"id": entry.id, "time": aware(entry.time), "type": entry.type}
    if is_note:
        shown["note"] = True
    for name in fields:
        value = getattr(entry, name)
        if name not in _UNSAID and not _says_nothing(value, defaults.get(name)):
            shown[name] = value
    return shown


def _says_nothing(value: Any, default: Any) -> bool:
    if isinstance(value, Raw):
        return is_absent(value)
    return bool(value == default) or value in ((), {})
