"""`perdure bench storage`: a journal of a size, and what restarts, listings and single runs cost then. Puts them in order.

The journal is filled through the store itself, by transitions as the engine writes them, so that every line is real; no code runs.
Restarts are a node's: from nothing to taking requests.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated, Any, Final

import msgspec
from cyclopts import Parameter
from msgspec import Raw, Struct

from perdure.bench.figures import Percentiles
from perdure.bench.machine import Machine, machine_at, resident_bytes
from perdure.bench.place import place_of
from perdure.bench.progress import Progress
from perdure.bench.report import Format, Table, aligned, machine_table, piped
from perdure.core.errors import InvalidArgument
from perdure.core.events import ActivityCompleted, ActivityScheduled, Completed, SignalReceived, Started
from perdure.core.shards import SHARDS
from perdure.core.transition import RunChange, Transition
from perdure.node import Node, embedded
from perdure.ports import Lease
from perdure.runtime.chance import RealChance
from perdure.runtime.clock import RealClock
from perdure.runtime.files import LocalFiles
from perdure.store.index.file import remove
from perdure.store.index.index import Index
from perdure.store.index.schema import INDEX_FILE
from perdure.store.journal.store import JournalStore

STEPS: Final = 4
"""Activities of each run that ends."""
EVENTS_A_RUN: Final = 2 * STEPS + 2
OPEN_EVERY: Final = 50
"""One run in so many is left waiting for a signal."""
GROUP: Final = 100
SAMPLES: Final = 200
CUSTOMERS: Final = 1_000
STRIDE: Final = 7_919
"""Asking goes through the runs by such steps, so that no two neighbours are asked one after the other."""


class StorageReport(Struct, frozen=True, kw_only=True):
    """What was measured, in seconds, bytes and counts as each name says."""

    machine: Machine
    events: int
    transitions: int
    workflows: int
    open_workflows: int
    journal_bytes: int
    index_bytes: int
    fill_seconds: float
    stop_seconds: float
    restart_seconds: float
    restart_lines_read: int
    restart_without_index_seconds: float
    memory_bytes: int
    """What the process grew by with the restart with an index."""
    latencies: dict[str, Percentiles]


def main(
    *,
    events: int = 1_000_000,
    data: Path | None = None,
    output: Annotated[Format, Parameter(name=["--output", "-o"])] = "text",
) -> int:
    """Measure restarts, listings and single runs on a journal of a size.

    Args:
        events: Events in the journal.
        data: A directory on the disk to measure. A folder in it is made and removed. Default: the system's temporary directory, or
            the current one where that is in memory.
        output: text for people, json, or markdown.
    """
    if events < EVENTS_A_RUN:
        raise InvalidArgument(f"events must be at least {EVENTS_A_RUN}")
    with TemporaryDirectory(prefix="perdure-bench-", dir=place_of(data)) as made, Progress() as tell:
        report = asyncio.run(_measure(Path(made), events, tell))
    sys.stdout.write(_text(report, output))
    return 0


async def _measure(place: Path, events: int, tell: Progress) -> StorageReport:
    machine = machine_at(place, "asyncio")
    runs = max(1, events // EVENTS_A_RUN)
    opened = -(-runs // OPEN_EVERY)
    tell(f"filling a journal with {events:,} events")
    store, lease = await _store(place)
    began = perf_counter()
    transitions = await _fill(store, lease, runs)
    filled = perf_counter() - began
    stop = await _seconds(store.close())
    tell("a restart with the index")
    before = resident_bytes()
    node = embedded(place)
    restart = await _seconds(node.start())
    grown = resident_bytes() - before
    lines = _lines_read(node)
    tell("listings and single runs")
    latencies = await _latencies(node, runs)
    await node.stop()
    index_bytes = (place / INDEX_FILE).stat().st_size
    tell("a restart without the index")
    remove(place / INDEX_FILE)
    node = embedded(place)
    anew = await _seconds(node.start())
    await node.stop()
    return StorageReport(
        machine=machine,
        events=runs * EVENTS_A_RUN - opened * (EVENTS_A_RUN - 2),
        transitions=transitions,
        workflows=runs,
        open_workflows=opened,
        journal_bytes=sum(file.stat().st_size for file in (place / "journal").iterdir()),
        index_bytes=index_bytes,
        fill_seconds=filled,
        stop_seconds=stop,
        restart_seconds=restart,
        restart_lines_read=lines,
        restart_without_index_seconds=anew,
        memory_bytes=grown,
        latencies=latencies,
    )


async def _store(place: Path) -> tuple[JournalStore, Lease]:
    store = JournalStore(LocalFiles(place), RealClock(), RealChance(), index=Index(place / INDEX_FILE))
    await store.open()
    return store, await store.acquire("bench", range(SHARDS))


def _lines_read(node: Node) -> int:
    assert isinstance(node.store, JournalStore)
    return node.store.recovery.lines


async def _seconds(work: Awaitable[Any]) -> float:
    began = perf_counter()
    await work
    return perf_counter() - began


# -------------------------------------------------------------------------------------------------------------------- filling


async def _fill(store: JournalStore, lease: Lease, runs: int) -> int:
    batch: list[Transition] = []
    written = 0
    for transition in _transitions(runs):
        batch.append(transition)
        if len(batch) == GROUP:
            await store.commit(lease, batch)
            written, batch = written + len(batch), []
    await store.commit(lease, batch)
    return written + len(batch)


def _transitions(runs: int) -> Iterator[Transition]:
    """Runs one after the other as far as each is concerned, `GROUP` of them side by side."""
    chance = RealChance()
    now = RealClock().now()
    for first in range(0, runs, GROUP):
        numbers = range(first, min(runs, first + GROUP))
        parts = [list(_run(f"order-{n}", chance.run_id(), now + n, n, waits=n % OPEN_EVERY == 0)) for n in numbers]
        for step in range(STEPS + 1):
            yield from (part[step] for part in parts if step < len(part))


def _run(workflow_id: str, run_id: str, time: int, number: int, *, waits: bool) -> Iterator[Transition]:
    def change(*events: Any) -> Transition:
        return Transition(workflow_id=workflow_id, runs=(RunChange(run_id=run_id, events=events),))

    started = Started(
        id=1,
        time=time,
        workflow_type="fulfil",
        queue="default",
        run_id=run_id,
        seed=number,
        input=(Raw(b'{"id":"order-%d","cents":999}' % number),),
        attributes={"customer": f"c{number % CUSTOMERS}", "cents": number % 10_000},
    )
    if waits:
        yield change(started)
        yield change(SignalReceived(id=2, time=time, name="unread", input=(Raw(b"true"),)))
        return
    last: tuple[Any, ...] = (started,)
    for step in range(STEPS):
        at = 2 * step + 1
        yield change(*last, ActivityScheduled(id=at + 1, time=time, at=at, based_on=at, name="charge", ordinal=step + 1))
        last = (ActivityCompleted(id=at + 2, time=time, command=at + 1, result=Raw(b'"receipt"')),)
    at = 2 * STEPS + 1
    yield change(*last, Completed(id=at + 1, time=time, at=at, based_on=at, result=Raw(b'"done"')))


# --------------------------------------------------------------------------------------------------------------------- asking


async def _latencies(node: Node, runs: int) -> dict[str, Percentiles]:
    client = node.client
    deep = await _deep_cursor(node, runs // 2)
    numbers = (n * STRIDE % runs for n in count(1))

    def one() -> str:
        return f"order-{next(numbers)}"

    questions: dict[str, Callable[[], Awaitable[Any]]] = {
        "first page of 100": client.list,
        "page in the middle": lambda: client.list(cursor=deep),
        "page of running ones": lambda: client.list("status = 'running'"),
        "page of one customer's": lambda: client.list(f"attr.customer = 'c{next(numbers) % CUSTOMERS}'"),
        "one workflow id": lambda: client.list(f"workflow_id = '{one()}'"),
        "count of running ones": lambda: client.count("status = 'running'"),
        "describe": lambda: client.handle(one()).describe(),
        "history": lambda: client.handle(one()).history(),
    }
    measured = {name: Percentiles.of([await _seconds(ask()) for _ in range(SAMPLES)]) for name, ask in questions.items()}
    slow: dict[str, Callable[[], Awaitable[Any]]] = {
        "count of all": client.count,
        "count by a condition on every row": lambda: client.count("length > 3 and attr.cents < 5000"),
    }
    for name, ask in slow.items():
        measured[name] = Percentiles.of([await _seconds(ask()) for _ in range(5)])
    return measured


async def _deep_cursor(node: Node, rows: int) -> str | None:
    """Where a reader is after so many rows."""
    cursor: str | None = None
    for _ in range(max(1, rows // 1_000)):
        page = await node.client.list(limit=1_000, cursor=cursor)
        cursor = page.cursor
    return cursor


# ------------------------------------------------------------------------------------------------------------------- printing


def _text(report: StorageReport, output: Format) -> str:
    if output == "json":
        return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"
    drawn = aligned if output == "text" else piped
    return "\n".join(map(drawn, (machine_table(report.machine), _sizes(report), _answers(report))))


def _sizes(report: StorageReport) -> Table:
    rows = [
        ("events", f"{report.events:,} in {report.transitions:,} lines"),
        ("runs", f"{report.workflows:,}, {report.open_workflows:,} of them open"),
        ("journal", f"{report.journal_bytes / 2**20:,.0f} MiB"),
        ("index", f"{report.index_bytes / 2**20:,.0f} MiB"),
        ("filling it, durably", f"{report.fill_seconds:,.1f} s ({report.events / report.fill_seconds:,.0f} events/s)"),
        ("stop", f"{report.stop_seconds:,.2f} s"),
        ("restart with the index", f"{report.restart_seconds:,.2f} s, {report.restart_lines_read:,} lines read"),
        ("restart without it", f"{report.restart_without_index_seconds:,.1f} s"),
        ("memory a restart takes", f"{report.memory_bytes / 2**20:,.0f} MiB"),
    ]
    return Table(("storage", ""), rows)


def _answers(report: StorageReport) -> Table:
    rows = [
        (name, f"{found.p50_us / 1000:,.2f} ms", f"{found.p99_us / 1000:,.2f} ms") for name, found in report.latencies.items()
    ]
    return Table(("an answer takes", "p50", "p99"), rows)
