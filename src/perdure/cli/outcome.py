"""`perdure workflow result`, and what `start --wait` says: how a run ended, as data or in words, and as an exit code."""

from typing import TYPE_CHECKING, Final

from perdure.cli.exits import FAILED, OK, say, shown
from perdure.cli.options import Output, Place
from perdure.cli.typed import HERE, TEXT, Run, identified

if TYPE_CHECKING:
    from perdure.core.replies import RunResult
    from perdure.sdk.client import Client

ASKING_S: Final = 5.0
"""After a wait that came to nothing: so long may it take to learn how the run stands."""


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
        return await tell_result(client, output, identified(id), run or "", timeout)


async def tell_result(client: "Client", output: Output, id: str, run_id: str, timeout: float | None) -> int:
    """Wait at most `timeout` seconds, print the outcome, return the exit code. Raises `TimeoutError`."""
    import asyncio

    from perdure.cli.show import emit, write
    from perdure.core.payload import NULL, is_absent
    from perdure.sdk.duration import length

    seconds = None if timeout is None else length(timeout, "timeout") / 1_000_000
    try:
        async with asyncio.timeout(seconds):
            found = await client.frontend.result(client.namespace, id, run_id)
    except TimeoutError:
        said = await _held(client, id, run_id) or f"has not ended within {timeout:g} s; it goes on"
        raise TimeoutError(f"workflow {id!r} {said}") from None
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


async def _held(client: "Client", id: str, run_id: str) -> str:
    """Why no time will end the run, and what will; empty when it just goes on, or nobody says in time."""
    import asyncio
    from shlex import quote

    from perdure.core.errors import PerdureError

    try:
        async with asyncio.timeout(ASKING_S):
            found = await client.frontend.describe(client.namespace, id, run_id)
            while found.next_run_id:
                found = await client.frontend.describe(client.namespace, id, found.next_run_id)
    except (TimeoutError, PerdureError):
        return ""
    if found.status == "paused":
        return f"is paused; it goes on after: perdure workflow resume {quote(id)}"
    if found.status != "quarantined":
        return ""
    why = "; ".join(item.state for item in found.pending if item.kind == "resume")
    return (
        f"is quarantined: {why}; it goes on when the code is mended and the worker restarted, "
        f"or after: perdure workflow resume {quote(id)}"
    )


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
