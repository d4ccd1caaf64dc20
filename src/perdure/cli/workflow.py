"""`perdure workflow …`: starting runs, talking to them, looking at them. Needs a node; what only reads also works on a stopped one's journal."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from perdure.cli.exits import FAILED, OK, say, shown
from perdure.cli.options import Output, Place

if TYPE_CHECKING:
    from perdure.core.replies import RunResult
    from perdure.sdk.client import Client

app = App(name="workflow", help="Start runs, talk to them, look at them.")

Json = Annotated[list[str] | None, Parameter(json_list=False, allow_leading_hyphen=True)]
Run = Annotated[str | None, Parameter(name="--run")]
Status = Literal["running", "completed", "failed", "cancelled", "terminated", "timed_out", "continued", "quarantined", "paused"]

HERE = Place()
TEXT = Output()


@app.command
async def start(
    type: str,
    /,
    *,
    id: str | None = None,
    input: Json = None,
    queue: str | None = None,
    on_conflict: Literal["fail", "attach", "terminate"] = "fail",
    reuse: Literal["always", "failed", "never"] = "always",
    timeout: float | None = None,
    wait: bool = False,
    wait_timeout: float | None = None,
    place: Place = HERE,
    output: Output = TEXT,
) -> int:
    """Start a run of workflow TYPE, and print its id.

    Args:
        type: The workflow type: the function's or class's name, unless it was given another.
        id: The workflow id; a fresh one when left out.
        input: One argument, as JSON. Repeat it for more.
        queue: The task queue its tasks go to (default: "default").
        on_conflict: What an open run of that id means.
        reuse: Whether the id of a closed run may be used again: always, after failed runs only, never.
        timeout: Seconds the run may take before the engine ends it; no bound when left out.
        wait: Wait for the end and print the result, as `result` does.
        wait_timeout: With --wait: seconds to wait. The run goes on.
    """
    from perdure.cli.connection import connected
    from perdure.cli.show import emit, text

    values = payloads(input)
    async with connected(place) as client:
        handle = await client.start(type, *values, id=id, queue=queue, on_conflict=on_conflict, reuse=reuse, timeout=timeout)
        run_id = handle._first_run_id  # pyright: ignore[reportPrivateUsage]
        if wait:
            return await _tell_result(client, output, handle.id, run_id, wait_timeout)
        if output.is_json:
            emit({"workflow_id": handle.id, "run_id": run_id}, output.output)
        else:
            text(f"{handle.id} {run_id}")
    return OK


@app.command
async def result(
    id: str, /, *, run: Run = None, timeout: float | None = None, place: Place = HERE, output: Output = TEXT
) -> int:
    """Wait for a run to end and print its result, as JSON. Exits with 1 when it ended in any other way than by returning.

    Args:
        id: The workflow id.
        run: A run of it; the current one when left out. Runs it continued as are followed.
        timeout: Seconds to wait (exit code 124). The run goes on.
    """
    from perdure.cli.connection import connected

    async with connected(place) as client:
        return await _tell_result(client, output, identified(id), run or "", timeout)


async def _tell_result(client: "Client", output: Output, id: str, run_id: str, timeout: float | None) -> int:
    import asyncio

    from perdure.cli.show import emit, write
    from perdure.core.payload import NULL, is_absent
    from perdure.sdk.duration import length

    seconds = None if timeout is None else length(timeout, "timeout") / 1_000_000
    try:
        async with asyncio.timeout(seconds):
            found = await client.frontend.result(client.namespace, id, run_id)
    except TimeoutError:
        raise TimeoutError(f"workflow {id!r} has not ended within {timeout:g} s; it goes on") from None
    value = NULL if is_absent(found.result) else found.result
    if output.is_json:
        emit(_outcome(id, found, value), output.output)
    elif found.status == "completed":
        write(bytes(value))
    if found.status == "completed":
        return OK
    if not output.is_json:
        say(f"perdure: {_ending(id, found)}")
    return FAILED


def _outcome(id: str, found: "RunResult", value: object) -> dict[str, object]:
    outcome: dict[str, object] = {"workflow_id": id, "run_id": found.run_id, "status": found.status}
    if found.status == "completed":
        outcome["result"] = value
    if found.failure is not None:
        outcome["failure"] = found.failure
    if found.reason:
        outcome["reason"] = found.reason
    return outcome


def _ending(id: str, found: "RunResult") -> str:
    """How a run ended, and what its failure came from."""
    lines = [f"workflow {id!r} {'timed out' if found.status == 'timed_out' else found.status}"]
    if found.status in {"cancelled", "terminated"}:
        lines = [f"workflow {id!r} was {found.status}"]
    links = [] if found.failure is None else found.failure.chain()
    for link in links:
        lines.append(f"{link.type}: {link.message}" if link.message else link.type)
    if found.reason:
        lines.append(found.reason)
    text = ": ".join(lines[:2])
    return shown("\n  caused by ".join([text, *lines[2:]]))


@app.command
async def signal(
    id: str,
    name: str,
    /,
    *,
    input: Json = None,
    signal_id: str | None = None,
    run: Run = None,
    place: Place = HERE,
    output: Output = TEXT,
) -> int:
    """Send a run a signal; acknowledged when it is on disk.

    Args:
        id: The workflow id.
        name: The signal's name.
        input: Its value, as JSON; null when left out.
        signal_id: The same signal id to the same workflow id is delivered once.
        run: A run of it; the current one when left out.
    """
    from perdure.cli.connection import connected
    from perdure.core.errors import InvalidArgument

    values = payloads(input)
    if len(values) > 1:
        raise InvalidArgument("a signal has one value: give --input once")
    async with connected(place) as client:
        value = values[0] if values else None
        await client.handle(identified(id), run).signal(name, value, signal_id=signal_id)
    return _done(id, f"signal {name!r} taken", output)


@app.command
async def cancel(id: str, /, *, reason: str | None = None, run: Run = None, place: Place = HERE, output: Output = TEXT) -> int:
    """Ask a run to stop: its code sees it at its next await and may clean up.

    Args:
        id: The workflow id.
        reason: Why, for people.
        run: A run of it; the current one when left out.
    """
    from perdure.cli.connection import connected

    async with connected(place) as client:
        await client.handle(identified(id), run).cancel(reason)
    return _done(id, "cancel requested", output)


@app.command
async def terminate(
    id: str, /, *, reason: str | None = None, run: Run = None, place: Place = HERE, output: Output = TEXT
) -> int:
    """End a run now. Its code gets no chance to clean up.

    Args:
        id: The workflow id.
        reason: Why, for people.
        run: A run of it; the current one when left out.
    """
    from perdure.cli.connection import connected

    async with connected(place) as client:
        await client.handle(identified(id), run).terminate(reason)
    return _done(id, "terminated", output)


@app.command
async def resume(id: str, /, *, reason: str | None = None, run: Run = None, place: Place = HERE, output: Output = TEXT) -> int:
    """Take a run out of quarantine, or offer one that waits for a newer build again.

    Args:
        id: The workflow id.
        reason: Why, for people.
        run: A run of it; the current one when left out.
    """
    from perdure.cli.connection import connected

    async with connected(place) as client:
        await client.handle(identified(id), run).resume(reason)
    return _done(id, "resumed", output)


def _done(id: str, what: str, output: Output) -> int:
    from perdure.cli.show import emit

    if output.is_json:
        emit({"workflow_id": id}, output.output)
    else:
        say(f"{shown(id)}: {shown(what)}")
    return OK


@app.command(name="list")
async def list_runs(
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
            status=status,
            type=type,
            started_after=_aware(started_after),
            started_before=_aware(started_before),
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


@app.command
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
                parts = (item.kind, item.name, item.state, attempt, until, item.failure.replace("\n", " "), item.summary)
                text(f"  {' · '.join(part for part in parts if part)}")
        else:
            label = name.replace("_", " ") + ":"
            text(f"{label:<16}{moment(value) if isinstance(value, datetime) else compact(value)}")
    return OK


@app.command
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
    from perdure.cli.show import compact, emit, text, write
    from perdure.sdk.views import data, entries_of
    from perdure.store.export import lines_of

    async with connected(place) as client:
        record = await client.frontend.record(client.namespace, identified(id), run or "")
    if jsonl or output.output == "jsonl":
        for line in lines_of(place.namespace, record):
            write(line)
        return OK
    entries = entries_of(record, notes=notes)
    if output.output == "json":
        emit(
            [
                {"id": entry.id, "time": entry.time, "type": entry.type, **({"note": True} if entry.is_note else {})}
                | {name: data(value) for name, value in entry.fields().items()}
                for entry in entries
            ],
            "json",
        )
        return OK
    for entry in entries:
        number = "·" if entry.is_note else str(entry.id)
        told = "  ".join(f"{name}={compact(value)}" for name, value in entry.fields().items())
        text(f"{number:>5}  {entry.time:%H:%M:%S.%f}  {entry.type:<24} {told}".rstrip())
    return OK


# ----------------------------------------------------------------------------------------------------------- what was typed


def payloads(texts: list[str] | None) -> list[Any]:
    """Each `--input` as the payload it is, untouched. Raises `InvalidArgument` for what is no JSON."""
    from msgspec import MsgspecError, Raw, json

    from perdure.core.errors import InvalidArgument

    found: list[Any] = []
    for text in texts or []:
        try:
            json.decode(text, type=Raw)
        except (MsgspecError, ValueError, RecursionError) as error:
            shortened = text if len(text) <= 60 else text[:60] + "…"
            hint = f"; text needs quotes of its own: '\"{text}\"'" if text.isidentifier() else ""
            raise InvalidArgument(f"--input {shortened} is not JSON: {error}{hint}") from error
        found.append(Raw(json.format(text.encode(), indent=-1)))
    return found


def identified(id: str) -> str:
    """A workflow id as typed. Raises `InvalidArgument` for what can be none."""
    from perdure.sdk.options import identifier

    return identifier(id, "workflow id")


def _aware(instant: datetime | None) -> datetime | None:
    return instant.replace(tzinfo=UTC) if instant is not None and instant.tzinfo is None else instant
