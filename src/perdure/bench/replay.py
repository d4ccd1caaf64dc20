"""`perdure bench replay`: what a workflow task costs with the run held warm and without, by length of history. Puts the measuring in order.

The same update is sent to runs of growing histories. Warm, a worker is handed only what is new; cold, it is handed the whole history and
runs the code over it first: a cache with room for one run, and two runs that take turns.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import msgspec
from cyclopts import Parameter
from msgspec import Struct

from perdure.bench.figures import Percentiles
from perdure.bench.handed import Handed
from perdure.bench.machine import Machine, machine_at
from perdure.bench.place import place_of
from perdure.bench.progress import Progress
from perdure.bench.report import Format, Table, aligned, machine_table, piped
from perdure.bench.workload import Poked, increment
from perdure.core.errors import InvalidArgument
from perdure.node import embedded
from perdure.runtime.chance import RealChance
from perdure.runtime.collector import collector
from perdure.sdk.client import Client
from perdure.sdk.handle import Handle
from perdure.standalone import Worker

if TYPE_CHECKING:
    from perdure.ports import Frontend

LENGTHS: Final = (50, 500, 5_000)
EVENTS_A_STEP: Final = 2
LENGTH_MIN: Final = 10
WARM_UP: Final = 5


class Tasks(Struct, frozen=True, kw_only=True):
    """Workflow tasks, one after the other: from the update sent to its answer, commit included; `events_each` were handed to the worker."""

    latency: Percentiles
    per_s: float
    events_each: float

    @classmethod
    def of(cls, seconds: Sequence[float], events: int) -> "Tasks":
        latency = Percentiles.of(seconds)
        return cls(latency=latency, per_s=1e6 / latency.p50_us, events_each=events / len(seconds))


class ReplayFigures(Struct, frozen=True, kw_only=True):
    """Both, for a history of so many events."""

    events: int
    warm: Tasks
    cold: Tasks


class ReplayReport(Struct, frozen=True, kw_only=True):
    """What was measured."""

    machine: Machine
    sizes: tuple[ReplayFigures, ...]


def main(
    *,
    lengths: Sequence[int] = LENGTHS,
    tasks: int = 100,
    data: Path | None = None,
    output: Annotated[Format, Parameter(name=["--output", "-o"])] = "text",
) -> int:
    """Measure what a workflow task costs with the run held warm and without, by length of history.

    Args:
        lengths: Events in the histories. Repeat it for more.
        tasks: Tasks that are measured of each kind.
        data: A directory on the disk to measure. A folder in it is made and removed. Default: the system's temporary directory, or
            the current one where that is in memory.
        output: text for people, json, or markdown.
    """
    if not lengths or min(lengths) < LENGTH_MIN:
        raise InvalidArgument(f"lengths must be at least {LENGTH_MIN} each")
    if tasks < 1:
        raise InvalidArgument("tasks must be at least 1")
    with TemporaryDirectory(prefix="perdure-bench-", dir=place_of(data)) as made, Progress() as tell:
        report = asyncio.run(_measure(Path(made), tuple(lengths), tasks, tell))
    sys.stdout.write(_text(report, output))
    return 0


async def _measure(place: Path, lengths: tuple[int, ...], tasks: int, tell: Progress) -> ReplayReport:
    machine = machine_at(place, "asyncio")
    sizes: list[ReplayFigures] = []
    async with embedded(place / "data") as node:
        handed = Handed(node.frontend)
        client = Client(cast("Frontend", handed), RealChance())
        with collector("tuned"):
            for length in lengths:
                tell(f"a history of {length:,} events")
                sizes.append(await _size(client, handed, length, tasks))
    return ReplayReport(machine=machine, sizes=tuple(sizes))


async def _size(client: Client, handed: Handed, length: int, tasks: int) -> ReplayFigures:
    run: Any = Poked.run
    steps = length // EVENTS_A_STEP
    async with Worker(client, workflows=[Poked], activities=[increment]):
        handles = [await client.start(run(steps), id=f"poked-{length}-{number}") for number in range(2)]
        for handle in handles:
            await handle.update(Poked.poke())  # taken when the steps are done
        warm = await _poked(handles[:1], handed, tasks)
    async with Worker(client, workflows=[Poked], activities=[increment], max_cached_runs=1):
        cold = await _poked(handles, handed, tasks)
    for handle in handles:
        await handle.terminate("measured")
    return ReplayFigures(events=length, warm=warm, cold=cold)


async def _poked(handles: Sequence[Handle[Any]], handed: Handed, tasks: int) -> Tasks:
    """Update the runs in turn and time each answer."""
    for number in range(WARM_UP):
        await handles[number % len(handles)].update(Poked.poke())
    before, seconds = handed.events, list[float]()
    for number in range(WARM_UP, WARM_UP + tasks):
        began = perf_counter()
        await handles[number % len(handles)].update(Poked.poke())
        seconds.append(perf_counter() - began)
    return Tasks.of(seconds, handed.events - before)


def _text(report: ReplayReport, output: Format) -> str:
    if output == "json":
        return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"
    layout = aligned if output == "text" else piped
    return "\n".join(layout(table) for table in (machine_table(report.machine), _table(report.sizes)))


def _table(sizes: Sequence[ReplayFigures]) -> Table:
    head = ("history", "warm: a task", "tasks/s", "events handed", "cold: a task", "p99", "tasks/s", "events handed")
    return Table(head, [_row(size) for size in sizes])


def _row(size: ReplayFigures) -> tuple[str, ...]:
    warm, cold = size.warm, size.cold
    return (
        f"{size.events:,} events",
        f"{warm.latency.p50_us:,.0f} µs",
        f"{warm.per_s:,.0f}",
        f"{warm.events_each:,.1f}",
        f"{cold.latency.p50_us / 1e3:,.1f} ms",
        f"{cold.latency.p99_us / 1e3:,.1f} ms",
        f"{cold.per_s:,.0f}",
        f"{cold.events_each:,.0f}",
    )
