"""`perdure bench parked`: many runs that wait for a signal, on a node as it comes: memory, answers about them, restarts. Puts them in order."""

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated, Any, Final

import msgspec
from cyclopts import Parameter
from msgspec import Struct

from perdure.bench.figures import Percentiles
from perdure.bench.machine import Machine, machine_at, resident_bytes
from perdure.bench.place import place_of
from perdure.bench.progress import Progress
from perdure.bench.report import Format, Table, aligned, machine_table, piped
from perdure.bench.workload import parked
from perdure.core.errors import InvalidArgument
from perdure.core.limits import LIMITS
from perdure.node import Node, embedded
from perdure.runtime.collector import collector
from perdure.worker.sessions import KEPT

TOGETHER: Final = 100
SAMPLES: Final = 200
STRIDE: Final = 7_919
LOOK_AGAIN_S: Final = 0.5
LIMIT_S: Final = 1_800.0


class ParkedReport(Struct, frozen=True, kw_only=True):
    """What was measured, in seconds and bytes as each name says. `bytes_each` is all that the process grew by, shared out."""

    machine: Machine
    runs: int
    start_seconds: float
    park_seconds: float
    """From the last start until only so many idle runs as a node keeps were in memory."""
    in_memory: int
    warm: int
    bytes_each: float
    stop_seconds: float
    restart_seconds: float
    restart_in_memory: int
    restart_bytes: int
    latencies: dict[str, Percentiles]


def main(
    *,
    runs: int = 20_000,
    data: Path | None = None,
    output: Annotated[Format, Parameter(name=["--output", "-o"])] = "text",
) -> int:
    """Measure what runs cost that wait for a signal: memory, answers, restarts.

    Args:
        runs: Runs that wait.
        data: A directory on the disk to measure. A folder in it is made and removed. Default: the system's temporary directory, or
            the current one where that is in memory.
        output: text for people, json, or markdown.
    """
    if runs < TOGETHER:
        raise InvalidArgument(f"runs must be at least {TOGETHER}")
    with TemporaryDirectory(prefix="perdure-bench-", dir=place_of(data)) as made, Progress() as tell:
        report = asyncio.run(_measure(Path(made), runs, tell))
    sys.stdout.write(_text(report, output))
    return 0


async def _measure(place: Path, runs: int, tell: Progress) -> ParkedReport:
    machine = machine_at(place, "asyncio")
    with collector("tuned"):
        node = _node(place)
        await node.start()
        await _started(node, "warm-up", TOGETHER)
        gc.collect()
        before = resident_bytes()
        tell(f"{runs:,} starts")
        starting = await _seconds(_started(node, "parked", runs))
        tell("the time it takes until they are parked")
        parking = await _seconds(_until_parked(node))
        gc.collect()
        grown = resident_bytes() - before
        in_memory, warm = _in_memory(node), node.worker.warm_runs
        tell("answers about them")
        latencies = await _latencies(node, runs)
        stopping = await _seconds(node.stop())
        tell("a restart")
        before = resident_bytes()
        node = _node(place)
        restarting = await _seconds(node.start())
        again, regrown = _in_memory(node), resident_bytes() - before
        await node.stop()
    return ParkedReport(
        machine=machine,
        runs=runs,
        start_seconds=starting,
        park_seconds=parking,
        in_memory=in_memory,
        warm=warm,
        bytes_each=grown / runs,
        stop_seconds=stopping,
        restart_seconds=restarting,
        restart_in_memory=again,
        restart_bytes=regrown,
        latencies=latencies,
    )


def _node(place: Path) -> Node:
    node = embedded(place)
    node.register(parked)
    return node


def _in_memory(node: Node) -> int:
    return sum(1 for _ in node.frontend.live_workflows())


async def _started(node: Node, name: str, runs: int) -> None:
    for first in range(0, runs, TOGETHER):
        numbers = range(first, min(runs, first + TOGETHER))
        await asyncio.gather(*(node.client.start(parked(), id=f"{name}-{n}") for n in numbers))


async def _until_parked(node: Node) -> None:
    until = perf_counter() + LIMIT_S
    while _in_memory(node) > LIMITS.idle_runs_kept or node.worker.warm_runs > KEPT:
        if perf_counter() > until:
            raise TimeoutError(
                f"{_in_memory(node):,} runs are still in memory, {node.worker.warm_runs:,} warm, after {LIMIT_S:g} s"
            )
        await asyncio.sleep(LOOK_AGAIN_S)


async def _latencies(node: Node, runs: int) -> dict[str, Percentiles]:
    client = node.client
    numbers = (n * STRIDE % runs for n in count(1))

    async def goes_on() -> None:
        handle = client.handle(f"parked-{next(numbers)}", workflow=parked)
        await handle.signal("go", "on")
        if await handle.result() != "on":
            raise AssertionError("a parked run did not go on")

    questions: dict[str, Callable[[], Awaitable[Any]]] = {
        "describe": lambda: client.handle(f"parked-{next(numbers)}").describe(),
        "page of running ones": lambda: client.list("status = 'running'"),
        "count of running ones": lambda: client.count("status = 'running'"),
        "signal, and its result": goes_on,
    }
    return {name: Percentiles.of([await _seconds(ask()) for _ in range(SAMPLES)]) for name, ask in questions.items()}


async def _seconds(work: Awaitable[Any]) -> float:
    began = perf_counter()
    await work
    return perf_counter() - began


def _text(report: ParkedReport, output: Format) -> str:
    if output == "json":
        return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"
    drawn = aligned if output == "text" else piped
    return "\n".join(map(drawn, (machine_table(report.machine), _sizes(report), _answers(report))))


def _sizes(report: ParkedReport) -> Table:
    rows = [
        ("starting them", f"{report.start_seconds:,.1f} s"),
        ("until they are parked", f"{report.park_seconds:,.1f} s more"),
        ("open runs in memory then", f"{report.in_memory:,}, and {report.warm:,} warm in the worker"),
        ("memory the process grew by", f"{report.bytes_each * report.runs / 2**20:,.0f} MiB"),
        ("for each run", f"{report.bytes_each / 1024:.2f} KiB"),
        ("stop", f"{report.stop_seconds:,.2f} s"),
        ("restart", f"{report.restart_seconds:,.2f} s, with {report.restart_in_memory:,} runs in memory"),
        ("memory of a restart", f"{report.restart_bytes / 2**20:,.0f} MiB"),
    ]
    return Table((f"{report.runs:,} runs that wait", ""), rows)


def _answers(report: ParkedReport) -> Table:
    rows = [
        (name, f"{found.p50_us / 1000:,.2f} ms", f"{found.p99_us / 1000:,.2f} ms") for name, found in report.latencies.items()
    ]
    return Table(("an answer takes", "p50", "p99"), rows)
