"""`perdure workflow list`, `describe`, `history`: looking at runs, of a running node or in a stopped one's journal. Change nothing."""

from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from perdure.cli.exits import OK, say
from perdure.cli.options import Output, Place
from perdure.cli.typed import HERE, TEXT, Run, aware, identified

if TYPE_CHECKING:
    from perdure.ports import Record

Status = Literal["running", "completed", "failed", "cancelled", "terminated", "timed_out", "continued", "quarantined", "paused"]


async def list_runs(
    query: str | None = None,
    /,
    *,
    status: list[Status] | None = None,
    type: str | None = None,
    started_after: datetime | None = None,
    started_before: datetime | None = None,
    limit: int = 100,
    cursor: str | None = None,
    place: Place = HERE,
    output: Output = TEXT,
) -> int:
    """List runs, newest first.

    Args:
        query: Which runs: "status = 'running' and attr.customer = 'c1'", with and, or, not, comparisons, in (…), starts_with, is null,
            over workflow_id, run_id, type, status, queue, started_at, closed_at, length, parent, build and attr.NAME.
        status: Only runs of this status. Repeat it for more.
        type: Only runs of this workflow type.
        started_after: Only runs started then or later: a date or time, UTC unless it says otherwise.
        started_before: Only runs started before.
        limit: Rows at most, 1 to 1000.
        cursor: Where the page before ended: what it printed as cursor.
    """
    from perdure.cli.connection import connected
    from perdure.cli.show import emit, moment, table

    async with connected(place) as client:
        page = await client.list(
            query,
            status=status,
            type=type,
            started_after=aware(started_after),
            started_before=aware(started_before),
            limit=limit,
            cursor=cursor,
        )
    if output.output == "json":
        emit({"items": page.items, "cursor": page.cursor}, "json")
        return OK
    if output.output == "jsonl":
        for item in page.items:
            emit(item, "jsonl")
    else:
        table(
            ("WORKFLOW ID", "RUN ID", "TYPE", "STATUS", "QUEUE", "STARTED", "CLOSED"),
            (
                (i.workflow_id, i.run_id, i.type, i.status, i.queue, moment(i.started_at), moment(i.closed_at, "-"))
                for i in page.items
            ),
        )
    if page.cursor:
        say(f"there are more: --cursor {page.cursor}")
    return OK


async def count(
    query: str | None = None,
    /,
    *,
    status: list[Status] | None = None,
    type: str | None = None,
    started_after: datetime | None = None,
    started_before: datetime | None = None,
    place: Place = HERE,
    output: Output = TEXT,
) -> int:
    """Count runs.

    Args:
        query: Which runs, as for `list`.
        status: Only runs of this status. Repeat it for more.
        type: Only runs of this workflow type.
        started_after: Only runs started then or later: a date or time, UTC unless it says otherwise.
        started_before: Only runs started before.
    """
    from perdure.cli.connection import connected
    from perdure.cli.show import emit, text

    async with connected(place) as client:
        found = await client.count(
            query, status=status, type=type, started_after=aware(started_after), started_before=aware(started_before)
        )
    if output.is_json:
        emit({"count": found}, output.output)
    else:
        text(str(found))
    return OK


async def describe(id: str, /, *, run: Run = None, place: Place = HERE, output: Output = TEXT) -> int:
    """Show how a run stands, and what it waits for.

    Args:
        id: The workflow id.
        run: A run of it; the current one when left out.
    """
    from dataclasses import fields

    from perdure.cli.connection import connected
    from perdure.cli.show import compact, emit, moment, text
    from perdure.sdk.views import data

    async with connected(place) as client:
        view = await client.handle(identified(id), run).describe()
    found: dict[str, Any] = {field.name: getattr(view, field.name) for field in fields(view)}
    if view.status != "completed":
        del found["result"]
    kept = {name: value for name, value in found.items() if name == "result" or value not in (None, "", (), {})}
    if output.is_json:
        emit({name: view.failure if name == "failure" else data(value) for name, value in kept.items()}, output.output)
        return OK
    for name, value in kept.items():
        if name == "pending":
            text("waits for:")
            for item in view.pending:
                until = f"until {moment(item.until)}" if item.until else ""
                attempt = f"attempt {item.attempt}" if item.attempt else ""
                # A run in quarantine waits for either of two things; the name of its item is the build that failed.
                called = f"or a build other than {item.name}" if item.kind == "resume" and item.name else item.name
                parts = (
                    item.kind,
                    called,
                    item.workflow_id,
                    item.state,
                    attempt,
                    until,
                    item.failure.replace("\n", " "),
                    item.summary,
                )
                text(f"  {' · '.join(part for part in parts if part)}")
        elif name == "standstill":
            text("stands still:")
            for reason in view.standstill:
                text(f"  {reason}")
        else:
            label = "seen by code:" if name == "covered" else name.replace("_", " ") + ":"
            text(f"{label:<16}{moment(value) if isinstance(value, datetime) else compact(value)}")
    return OK


async def history(
    id: str,
    /,
    *,
    jsonl: bool = False,
    notes: bool = False,
    run: Run = None,
    place: Place = HERE,
    output: Output = TEXT,
) -> int:
    """Print every event of a run.

    Args:
        id: The workflow id.
        jsonl: Print the run as `journal export` does, notes included: lines under checksums that `replay` reads. The same as -o jsonl.
        notes: Print notes too, where they fell.
        run: A run of it; the current one when left out.
    """
    from perdure.cli.connection import connected
    from perdure.core.errors import HistoryDamaged

    async with connected(place) as client:
        record = await client.frontend.record(client.namespace, identified(id), run or "")
    _show_history(record, place.namespace, "jsonl" if jsonl else output.output, notes=notes)
    if record.damage is not None:
        raise HistoryDamaged(f"this is not all of run {record.run_id}: {record.damage.reason}", run_id=record.run_id)
    return OK


def _show_history(record: "Record", namespace: str, form: str, *, notes: bool) -> None:
    from perdure.cli.show import compact, emit, text, write
    from perdure.sdk.views import data, entries_of
    from perdure.store.export import lines_of

    if form == "jsonl":
        for line in lines_of(namespace, record):
            write(line)
        return
    entries = entries_of(record, notes=notes)
    if form == "json":
        emit(
            [
                {"id": entry.id, "time": entry.time, "type": entry.type, **({"note": True} if entry.is_note else {})}
                | {name: data(value) for name, value in entry.fields().items()}
                for entry in entries
            ],
            "json",
        )
        return
    for entry in entries:
        number = "·" if entry.is_note else str(entry.id)
        told = "  ".join(f"{name}={compact(value)}" for name, value in entry.fields().items())
        text(f"{number:>5}  {entry.time:%H:%M:%S.%f}  {entry.type:<24} {told}".rstrip())
