"""`perdure workflow …`: starting runs and talking to them. All of it needs a running node; looking at runs is in `looking` and `outcome`."""

from typing import Literal

from cyclopts import App

from perdure.cli.exits import OK, say, shown
from perdure.cli.options import Output, Place
from perdure.cli.typed import HERE, TEXT, Json, Run, identified, payloads

app = App(name="workflow", help="Start runs, talk to them, look at them.")
app.command("perdure.cli.looking:list_runs", name="list", help="List runs, newest first.")
app.command("perdure.cli.looking:count", name="count", help="Count runs.")
app.command("perdure.cli.looking:describe", name="describe", help="Show how a run stands, and what it waits for.")
app.command("perdure.cli.looking:history", name="history", help="Print every event of a run.")
app.command("perdure.cli.stack:stack", name="stack", help="Show what a run waits for, who holds it, and why nobody moves it.")
app.command("perdure.cli.query:query", name="query", help="Ask a run what its code says of itself.")
app.command(
    "perdure.cli.outcome:result",
    name="result",
    help="Wait for a run to end and print its result, as JSON. Exits with 1 when it ended in any other way than by returning.",
)

app.command("perdure.cli.updating:update", name="update", help="Ask a run's code for something and print its answer, as JSON.")


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
    start_delay: float | None = None,
    origin: str = "default",
    wait: bool = False,
    wait_timeout: float | None = None,
    place: Place = HERE,
    output: Output = TEXT,
) -> int:
    """Start a run of workflow TYPE, and print its id.

    Only workers know the code behind TYPE: queue and timeout are those given here, not its decorator's, and a run that fails is not tried
    again, whatever retry the decorator names.

    Args:
        type: The workflow type: the function's or class's name, unless it was given another.
        id: The workflow id; a fresh one when left out.
        input: One argument, as JSON. Repeat it for more.
        queue: The task queue its tasks go to (default: "default").
        on_conflict: What an open run of that id means.
        reuse: Whether the id of a closed run may be used again: always, after failed runs only, never.
        timeout: Seconds the run may take before the engine ends it; no bound when left out.
        start_delay: Seconds until its code begins; at once when left out.
        origin: What the start comes from: a node may have a quota for it.
        wait: Wait for the end and print the result, as `result` does.
        wait_timeout: With --wait: seconds to wait. The run goes on.
    """
    from perdure.cli.connection import connected
    from perdure.cli.outcome import tell_result
    from perdure.cli.show import emit, text
    from perdure.core.errors import WorkflowAlreadyStarted

    values = payloads(input)
    async with connected(place) as client:
        try:
            handle = await client.start(
                type,
                *values,
                id=id,
                queue=queue,
                on_conflict=on_conflict,
                reuse=reuse,
                timeout=timeout,
                start_delay=start_delay,
                origin=origin,
            )
        except WorkflowAlreadyStarted as error:
            raise WorkflowAlreadyStarted(_with_flags(error.message), run_id=error.run_id) from error
        run_id = handle.run_id or ""
        if wait:
            return await tell_result(client, output, handle.id, run_id, wait_timeout)
        if output.is_json:
            emit({"workflow_id": handle.id, "run_id": run_id}, output.output)
        else:
            text(f"{handle.id} {run_id}")
    return OK


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
        input: Its value, as JSON; none when left out.
        signal_id: The same signal id to the same workflow id is delivered once.
        run: A run of it; the current one when left out.
    """
    from perdure.cli.connection import connected
    from perdure.core.errors import InvalidArgument

    values = payloads(input)
    if len(values) > 1:
        raise InvalidArgument("a signal has one value: give --input once")
    async with connected(place) as client:
        await client.handle(identified(id), run).signal(name, *values, signal_id=signal_id)
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
async def reset(
    id: str,
    /,
    *,
    event: int,
    reason: str | None = None,
    run: Run = None,
    place: Place = HERE,
    output: Output = TEXT,
) -> int:
    """Begin a new run from a run's history, and print its id. An open run is terminated.

    Args:
        id: The workflow id.
        event: The last event the new run takes over, by its number in `history`.
        reason: Why, for people.
        run: A run of it; the current one when left out.
    """
    from perdure.cli.connection import connected
    from perdure.cli.show import emit, text

    async with connected(place) as client:
        handle = await client.handle(identified(id), run).reset(event, reason)
    if output.is_json:
        emit({"workflow_id": handle.id, "run_id": handle.run_id}, output.output)
    else:
        text(f"{handle.id} {handle.run_id}")
    return OK


@app.command
async def pause(id: str, /, *, reason: str | None = None, run: Run = None, place: Place = HERE, output: Output = TEXT) -> int:
    """Hold a run where it is until it is resumed. What comes meanwhile is kept; what was started goes on.

    Args:
        id: The workflow id.
        reason: Why, for people.
        run: A run of it; the current one when left out.
    """
    from perdure.cli.connection import connected

    async with connected(place) as client:
        await client.handle(identified(id), run).pause(reason)
    return _done(id, "paused", output)


@app.command
async def resume(id: str, /, *, reason: str | None = None, run: Run = None, place: Place = HERE, output: Output = TEXT) -> int:
    """End a pause, take a run out of quarantine, or offer one that waits for a newer build again.

    Args:
        id: The workflow id.
        reason: Why, for people.
        run: A run of it; the current one when left out.
    """
    from perdure.cli.connection import connected

    async with connected(place) as client:
        await client.handle(identified(id), run).resume(reason)
    return _done(id, "resumed", output)


def _with_flags(message: str) -> str:
    """What to do about a taken id, as it is done here: the engine says it as Python does."""
    found, _, advice = message.partition("; on_conflict=")
    if advice:
        return f"{found}; --on-conflict attach waits for that run, --on-conflict terminate ends it first"
    return found.replace("(reuse='", "(--reuse ").replace("')", ")")


def _done(id: str, what: str, output: Output) -> int:
    from perdure.cli.show import emit

    if output.is_json:
        emit({"workflow_id": id}, output.output)
    else:
        say(f"{shown(id)}: {shown(what)}")
    return OK
