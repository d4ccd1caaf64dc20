"""`perdure bench remote`: a server, a worker and a client as three processes of this machine; every number in one run.

The server and the worker are perdure's own commands as anybody runs them, this process is the client. Registration and warm-up come before
the clocks, every commit is a real fdatasync.
"""

import asyncio
import sys
import urllib.request
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Annotated, Any, Final, TypeVar

import msgspec
from cyclopts import Parameter

from perdure.bench.child import Child, cpu_of
from perdure.bench.disk import flush_times
from perdure.bench.figures import Percentiles, Spread, Yardstick
from perdure.bench.load import LIMIT_S, python_loop_us
from perdure.bench.machine import machine_at
from perdure.bench.place import place_of
from perdure.bench.progress import Progress
from perdure.bench.remote_figures import (
    Answer,
    RemoteRepeat,
    RemoteReport,
    RemoteSettings,
    RemoteSize,
    RemoteThroughput,
    Role,
    Wire,
)
from perdure.bench.remote_report import REMOTE_FORMATS
from perdure.bench.remote_workload import Counter
from perdure.bench.report import Format
from perdure.bench.workload import chain
from perdure.core.errors import InvalidArgument, Unavailable
from perdure.remote import connect
from perdure.runtime.collector import collector
from perdure.sdk.client import Client
from perdure.sdk.handle import Handle

WARM_UP: Final = 500
SAMPLES_MAX: Final = 2_000
COLD: Final = 3
"""Runs of each length that a new worker is asked about."""
WARM: Final = 100
MODULES: Final = ("perdure.bench.workload", "perdure.bench.remote_workload")
STUCK_S: Final = 60.0
"""A workflow that takes longer is no number but an error."""

T = TypeVar("T")


def main(
    *,
    workflows: int = 5_000,
    in_flight: int = 256,
    repeats: int = 3,
    steps: Sequence[int] = (1, 5),
    events: Sequence[int] = (50, 500, 5_000),
    data: Path | None = None,
    output: Annotated[Format, Parameter(name=["--output", "-o"])] = "text",
) -> int:
    """Measure a server, a worker and a client as three processes of this machine. Every commit is a real fdatasync.

    Exit code 1 when a workflow took fewer commits than its steps + 1.

    Args:
        workflows: Workflows in each repeat of a throughput measurement.
        in_flight: Workflows running at any moment of it.
        repeats: Repeats of it; the median counts.
        steps: Steps of the workflows. Repeat it for more.
        events: Lengths of history at which the answer to an update is measured, cold and warm; 0 leaves it out. Repeat it for more.
        data: A directory on the disk to measure. A folder in it is made and removed. Default: the system's temporary directory, or
            the current one where that is in memory.
        output: text for people, json, or markdown.
    """
    settings = RemoteSettings(workflows=workflows, in_flight=in_flight, repeats=repeats)
    for name in ("workflows", "in_flight", "repeats"):
        if getattr(settings, name) < 1:
            raise InvalidArgument(f"{name} must be at least 1")
    if not steps or min(steps) < 1:
        raise InvalidArgument("steps must be at least 1 each")
    if min(events, default=0) < 0:
        raise InvalidArgument("events must not be negative")
    lengths = tuple(length for length in dict.fromkeys(events) if length)
    with TemporaryDirectory(prefix="perdure-bench-", dir=place_of(data)) as made, Progress() as tell:
        report = asyncio.run(_measure(settings, tuple(dict.fromkeys(steps)), lengths, Path(made), tell))
    sys.stdout.write(REMOTE_FORMATS[output](report))
    for fault in report.faults:
        sys.stderr.write(f"perdure: {fault}\n")
    return 1 if report.faults else 0


async def _measure(
    settings: RemoteSettings, steps: tuple[int, ...], events: tuple[int, ...], directory: Path, tell: Progress
) -> RemoteReport:
    tell("this machine")
    machine = machine_at(directory, "asyncio")
    before = python_loop_us(), flush_times(directory)
    async with AsyncExitStack() as stack:
        stack.enter_context(collector("tuned"))
        server = await stack.enter_async_context(
            Child("server", "server", "--data", str(directory / "data"), "--port", "0", log=directory / "server.log")
        )
        client = await stack.enter_async_context(await connect(server.facts["url"]))
        async with _worker(server, directory, settings.in_flight) as worker:
            scene = _Scene(settings, directory, server, worker.facts["pids"], client, tell)
            sizes = tuple([await _size(scene, each) for each in steps])
        answers = tuple([await _answer(scene, length) for length in events])
    tell("this machine again")
    after = python_loop_us(), flush_times(directory)
    yardstick = Yardstick(loop_us_before=before[0], loop_us_after=after[0], flush_before=before[1], flush_after=after[1])
    return RemoteReport(machine=machine, settings=settings, yardstick=yardstick, workflows=sizes, answers=answers)


def _worker(server: Child, directory: Path, max_activities: int) -> Child:
    arguments = ("worker", *MODULES, "--address", server.facts["url"], "--max-activities", str(max(100, max_activities)))
    return Child("worker", *arguments, log=directory / "worker.log")


@dataclass(frozen=True)
class _Scene:
    settings: RemoteSettings
    directory: Path
    server: Child
    workers: Sequence[int]
    """Pids of the worker's processes; its supervisor does nothing meanwhile."""
    client: Client
    tell: Progress

    async def count(self) -> "_Count":
        """Everything that is counted, as it stands."""
        url = f"{self.server.facts['url']}/api/v1"
        stats = await asyncio.to_thread(_json_at, f"{url}/stats")
        wire = await asyncio.to_thread(_json_at, f"{url}/traffic")
        cpu: dict[Role, float] = {
            "server": self.server.cpu_s(),
            "worker": sum(map(cpu_of, self.workers)),
            "client": process_time(),
        }
        frames, messages, size = (wire[f"{name}_in"] + wire[f"{name}_out"] for name in ("frames", "messages", "bytes"))
        return _Count(stats["commits"], stats["syncs"], Wire(frames, messages, size), cpu, perf_counter())


@dataclass(frozen=True)
class _Count:
    commits: int
    syncs: int
    wire: Wire
    cpu_s: dict[Role, float]
    at: float

    def until(self, later: "_Count", workflows: int, seconds: float) -> RemoteRepeat:
        """What was counted between this and a later count, for workflows that took so long."""
        return RemoteRepeat(
            workflows=workflows,
            seconds=seconds,
            commits=later.commits - self.commits,
            syncs=later.syncs - self.syncs,
            wire=Wire(*(b - a for a, b in zip(self.wire, later.wire, strict=True))),
            cpu_s={role: later.cpu_s[role] - before for role, before in self.cpu_s.items()},
        )


def _json_at(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 – the server this very command has started
        return msgspec.json.decode(answer.read())


async def _run_chain(client: Client, steps: int) -> None:
    async with asyncio.timeout(STUCK_S):
        result = await client.execute(chain(steps))
    if result != steps:
        raise AssertionError(f"a workflow of {steps} steps gave {result}")


async def _crowd(scene: _Scene, steps: int, workflows: int) -> int:
    """Run workflows, as many at once as was asked for; says how many ended within the time limit."""
    until, turns, done = perf_counter() + LIMIT_S, iter(range(workflows)), 0

    async def one() -> None:
        nonlocal done
        for _ in turns:
            await _run_chain(scene.client, steps)
            done += 1
            if perf_counter() > until:
                return

    async with asyncio.TaskGroup() as group:
        for _ in range(min(scene.settings.in_flight, workflows)):
            group.create_task(one())
    return done


async def _size(scene: _Scene, steps: int) -> RemoteSize:
    settings = scene.settings
    scene.tell(f"{steps}-step workflows, one client")
    await _crowd(scene, steps, min(WARM_UP, settings.workflows))
    latency, alone = await _one_client(scene, steps, min(SAMPLES_MAX, settings.workflows))
    repeats: list[RemoteRepeat] = []
    for number in range(1, settings.repeats + 1):
        scene.tell(f"{steps}-step workflows, {settings.in_flight} in flight, {number} of {settings.repeats}")
        before = await scene.count()
        began = perf_counter()
        done = await _crowd(scene, steps, settings.workflows)
        took = perf_counter() - began
        repeats.append(before.until(await scene.count(), done, took))
    return RemoteSize(
        steps=steps,
        latency=latency,
        commits_alone=alone.commits / alone.workflows,
        frames_alone=alone.wire.frames / alone.workflows,
        messages_alone=alone.wire.messages / alone.workflows,
        bytes_alone=alone.wire.bytes / alone.workflows,
        many=RemoteThroughput.of(repeats),
    )


async def _one_client(scene: _Scene, steps: int, samples: int) -> tuple[Percentiles, RemoteRepeat]:
    """Workflows one after the other: how long each took from start to result, and what they took together."""
    before, took, began = await scene.count(), list[float](), perf_counter()
    while len(took) < samples and perf_counter() < began + LIMIT_S:
        at = perf_counter()
        await _run_chain(scene.client, steps)
        took.append(perf_counter() - at)
    seconds = perf_counter() - began
    return Percentiles.of(took), before.until(await scene.count(), len(took), seconds)


# ------------------------------------------------------------------------------------------------------------ long histories


async def _answer(scene: _Scene, events: int) -> Answer:
    """Runs of that length, whose worker is killed: the first update of each is answered by a worker that has to replay it."""
    scene.tell(f"histories of {events:,} events")
    async with _worker(scene.server, scene.directory, 100) as first:
        handles = [await scene.client.start(Counter.run(max(1, events // 2))) for _ in range(COLD)]
        lengths = [await _is_ready(handle) for handle in handles]
        await first.kill()
        for pid in first.facts["pids"]:
            await _gone(pid)
    async with _worker(scene.server, scene.directory, 100):
        warm_up = await scene.client.start(Counter.run(1))
        await _is_ready(warm_up)
        cold = [await _seconds_of_update(handle) for handle in handles]
        before = await scene.count()
        warm = [await _seconds_of_update(handles[-1]) for _ in range(WARM)]
        counted = before.until(await scene.count(), WARM, sum(warm))
        for handle in (warm_up, *handles):
            await handle.signal(Counter.end())
    return Answer(
        events=min(lengths),
        cold_ms=Spread.of([seconds * 1_000 for seconds in cold]),
        warm=Percentiles.of(warm),
        warm_bytes=counted.wire.bytes / WARM,
    )


async def _is_ready(handle: Handle[int]) -> int:
    """The length of its history when its steps are done."""
    async with asyncio.timeout(LIMIT_S):
        await handle.update(Counter.add(0))
    return (await handle.describe()).history_length


async def _gone(pid: int) -> None:
    """A worker's process whose supervisor was killed ends by itself."""
    async with asyncio.timeout(LIMIT_S):
        while cpu_of(pid):  # noqa: ASYNC110 – nobody is told of the end of a process that is no child
            await asyncio.sleep(0.01)


async def _seconds_of_update(handle: Handle[int]) -> float:
    began = perf_counter()
    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                await handle.update(Counter.add(1))
            except Unavailable:
                continue
            return perf_counter() - began
