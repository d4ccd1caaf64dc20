"""`perdure workflow result`, and what `start --wait` says: how a run ended, as data or in words, and as an exit code."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from perdure.cli.exits import FAILED, OK, say, shown
from perdure.cli.options import Output, Place
from perdure.cli.typed import HERE, TEXT, Run, identified

if TYPE_CHECKING:
    from perdure.core.description import Description
    from perdure.core.replies import RunResult
    from perdure.sdk.client import Client

ASKING_S: Final = 5.0
"""So long may it take to learn how the run stands."""
WORD_S: Final = 3.0
"""After so long a wait the command looks whether anybody moves the run at all, and says so if nobody does."""
WORD_AGAIN_MAX_S: Final = 60.0
"""It looks again after twice as long each time, and at least this often."""


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
        async with asyncio.timeout(seconds), _telling(client, id, run_id, is_silent=output.is_json):
            found = await client.frontend.result(client.namespace, id, run_id)
    except TimeoutError:
        said = _held(await _standing(client, id, run_id), f"has not ended within {timeout:g} s; it goes on")
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


@asynccontextmanager
async def _telling(client: "Client", id: str, run_id: str, *, is_silent: bool) -> AsyncIterator[None]:
    """Meanwhile, say why nobody moves the run: a wait for a worker that does not exist looks like any other."""
    import asyncio

    if is_silent:
        yield
        return
    task = asyncio.create_task(_tell_standstill(client, id, run_id), name="perdure standstill")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _tell_standstill(client: "Client", id: str, run_id: str) -> None:
    import asyncio

    told, pause = "", WORD_S
    while True:
        await asyncio.sleep(pause)
        pause = min(2 * pause, WORD_AGAIN_MAX_S)
        said = _held(await _standing(client, id, run_id), "")
        if said and said != told:
            say(f"perdure: workflow {shown(id)!r} {shown(said)}; waiting for it")
            told = said


async def _standing(client: "Client", id: str, run_id: str) -> "Description | None":
    """How the run stands, or the one it continues as; None when nobody says in time."""
    import asyncio

    from perdure.core.errors import PerdureError

    try:
        async with asyncio.timeout(ASKING_S):
            found = await client.frontend.describe(client.namespace, id, run_id)
            while found.next_run_id:
                found = await client.frontend.describe(client.namespace, id, found.next_run_id)
    except (TimeoutError, PerdureError):
        return None
    return found


def _held(found: "Description | None", otherwise: str) -> str:
    """Why nobody moves the run, and what will, behind what there is to say `otherwise`; for one held back no time will end it."""
    from shlex import quote

    if found is None:
        return otherwise
    if found.status == "paused":
        return f"is paused; it goes on after: perdure workflow resume {quote(found.workflow_id)}"
    if found.status == "quarantined":
        why = "; ".join(item.state for item in found.pending if item.kind == "resume")
        return (
            f"is quarantined: {why}; it goes on when the code is mended and the worker restarted, "
            f"or after: perdure workflow resume {quote(found.workflow_id)}"
        )
    if not found.standstill:
        return otherwise
    still = f"stands still: {'; '.join(found.standstill)}"
    return f"{otherwise}, but {still}" if otherwise else still


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
    text = ": ".join(lines[:2]) + (_place(links[0].traceback) if links else "")
    return shown("\n  caused by ".join([text, *lines[2:]]))


def _place(traceback: str) -> str:
    """The last line of code a failure went through, where it is known."""
    lines = [line.strip() for line in traceback.splitlines()]
    at = max((number for number, line in enumerate(lines) if line.startswith("File ")), default=-1)
    return "" if at < 0 else f"\n  {': '.join(lines[at : at + 2])}"
