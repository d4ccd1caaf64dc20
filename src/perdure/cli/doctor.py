"""`perdure doctor`: will a node run well here? Looks, measures, and leaves nothing behind."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perdure.cli.exits import FAILED, OK
from perdure.cli.options import Data, Output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perdure.cli.health.check import Check

TEXT = Output()
PORT_MAX: Final = 65_535


def doctor(
    *, data: Data = Path("perdure-data"), host: str = "127.0.0.1", port: int | None = None, output: Output = TEXT
) -> int:
    """Look whether a node will run well here. Exits with 1 when something must be mended first.

    Args:
        data: The data directory the node has or will have.
        host: With --port: the address it is asked for on.
        port: A port to try, for what you mean to run beside the node, which itself needs none.
    """
    from perdure.core.errors import InvalidArgument

    if port is not None and not 0 <= port <= PORT_MAX:
        raise InvalidArgument(f"--port must be from 0 to {PORT_MAX}, not {port}")
    checks: list[Check] = []
    for check in _checks(data, host, port):
        checks.append(check)
        _tell(check, output)
    if output.output == "json":
        from perdure.cli.show import emit

        emit(checks, "json")
    return FAILED if any(check.status == "fail" for check in checks) else OK


def _checks(data: Path, host: str, port: int | None) -> "Iterator[Check]":
    """One after the other, so that people see what takes long."""
    from perdure.cli.health import place, process
    from perdure.cli.health.check import tried

    for check in (process.python, process.dependencies, process.import_time, process.open_files, process.clock):
        yield tried(check.__name__.replace("_", " "), check)
    writable = tried("directory", partial(place.directory, data))
    yield writable
    at_place: list[Callable[[Path], Check]] = [place.space, place.lock, place.journal]
    if writable.status == "ok":
        at_place = [place.disk_sync, place.preallocation, *at_place]
    for look in at_place:
        yield tried(look.__name__.replace("_", " "), partial(look, data))
    if port is not None:
        yield tried("port", partial(place.port, host, port, data))


def _tell(check: "Check", output: Output) -> None:
    from perdure.cli.show import emit, text

    if output.output == "jsonl":
        emit(check, "jsonl")
    elif output.output == "text":
        text(f"{check.status:<5} {check.name:<14} {check.found}")
        if check.mend:
            text(f"{'':<20} → {check.mend}")
