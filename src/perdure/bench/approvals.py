"""`perdure bench approvals`: runs that wait for an approval on a server, its figures over HTTP meanwhile, and how fast all of them go on.

The server and the worker are perdure's own commands in processes of their own, this process is the client. What bounds the rate is read off
the counters of the same run, and printed beside what the machine does without perdure.
"""

import asyncio
import http.client
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec
from cyclopts import Parameter

from perdure.bench.approvals_figures import ApprovalsReport, Drain, Waiting
from perdure.bench.approvals_report import APPROVALS_FORMATS
from perdure.bench.child import Child, cpu_of, waited_s
from perdure.bench.disk import flush_times
from perdure.bench.figures import Percentiles, Yardstick
from perdure.bench.load import python_loop_us
from perdure.bench.machine import machine_at, resident_bytes
from perdure.bench.place import place_of
from perdure.bench.progress import Progress
from perdure.bench.report import Format
from perdure.bench.workload import parked
from perdure.core.errors import InvalidArgument
from perdure.core.limits import LIMITS
from perdure.remote import connect
from perdure.runtime.collector import collector
from perdure.sdk.client import Client

CALLS: Final = 2_000
"""Requests for the server's figures, one after the other over one connection."""
ALONE: Final = 200
"""Runs that are signalled one after the other."""
TOGETHER: Final = 256
WARM_UP: Final = 200
PARKED_S: Final = 1_800.0
LOOK_AGAIN_S: Final = 0.5
MODULE: Final = "perdure.bench.workload"


def main(
    *,
    runs: Sequence[int] = (2_000, 20_000),
    data: Path | None = None,
    output: Annotated[Format, Parameter(name=["--output", "-o"])] = "text",
) -> int:
    """Measure runs that wait for an approval on a server: its figures over HTTP, its memory, and how fast they all go on.

    Args:
        runs: Runs that wait. Repeat it for more.
        data: A directory on the disk to measure. A folder in it is made and removed. Default: the system's temporary directory, or
            the current one where that is in memory.
        output: text for people, json, or markdown.
    """
    if not runs or min(runs) < 2 * ALONE:
        raise InvalidArgument(f"runs must be at least {2 * ALONE}")
    with TemporaryDirectory(prefix="perdure-bench-", dir=place_of(data)) as made, Progress() as tell:
        report = asyncio.run(_measure(Path(made), tuple(dict.fromkeys(runs)), tell))
    sys.stdout.write(APPROVALS_FORMATS[output](report))
    return 0


async def _measure(place: Path, sizes: tuple[int, ...], tell: Progress) -> ApprovalsReport:
    before = python_loop_us(), flush_times(place)
    with collector("tuned"):
        machine = machine_at(place, "asyncio")
        waiting: list[Waiting] = []
        for runs in sizes:
            with TemporaryDirectory(dir=place) as made:
                waiting.append(await _waiting(Path(made), runs, tell))
    after = python_loop_us(), flush_times(place)
    yardstick = Yardstick(loop_us_before=before[0], loop_us_after=after[0], flush_before=before[1], flush_after=after[1])
    return ApprovalsReport(machine=machine, yardstick=yardstick, waiting=tuple(waiting))


async def _waiting(place: Path, runs: int, tell: Progress) -> Waiting:
    """One size, on a server of its own."""
    async with AsyncExitStack() as stack:
        server = Child("server", "server", "--data", str(place / "data"), "--port", "0", log=place / "server.log")
        await stack.enter_async_context(server)
        url = server.facts["url"]
        client = await stack.enter_async_context(await connect(url))
        worker = Child("worker", "worker", MODULE, "--address", url, log=place / "worker.log")
        await stack.enter_async_context(worker)
        scene = _Scene(client, _Asker(url), server, worker.facts["pids"])
        stack.callback(scene.asker.close)
        await _started(client, "warm-up", WARM_UP)
        await _gone_on(client, "warm-up", range(WARM_UP))
        empty = resident_bytes(server.pid)
        tell(f"{runs:,} starts")
        starting = await _seconds(_started(client, "parked", runs))
        tell(f"the time until {runs:,} runs are parked")
        parking = await _seconds(_until_parked(scene, runs))
        held = resident_bytes(server.pid)
        tell(f"the server's figures with {runs:,} runs parked")
        stats = await scene.asker.many("/api/v1/stats")
        nothing = await scene.asker.many("/healthz")
        tell(f"{runs:,} approvals")
        alone = await scene.drain(lambda: _gone_on_alone(client, range(ALONE)), ALONE)
        all_at_once = await scene.drain(lambda: _gone_on(client, "parked", range(ALONE, runs)), runs - ALONE)
    return Waiting(
        runs=runs,
        start_seconds=starting,
        park_seconds=parking,
        bytes_empty=empty,
        bytes_parked=held,
        bytes_each=(held - empty) / runs,
        stats=stats,
        nothing=nothing,
        alone=alone,
        together=all_at_once,
    )


# ---------------------------------------------------------------------------------------------------------------- the runs


async def _started(client: Client, name: str, runs: int) -> None:
    async def one(number: int) -> None:
        await client.start(parked(), id=f"{name}-{number}")

    await _crowd(one, range(runs))


async def _gone_on(client: Client, name: str, numbers: Iterable[int]) -> None:
    """Every one is approved, and its result waited for."""

    async def one(number: int) -> None:
        handle = client.handle(f"{name}-{number}", workflow=parked)
        await handle.signal("go", "on")
        if await handle.result() != "on":
            raise AssertionError("a parked run did not go on")

    await _crowd(one, numbers)


async def _gone_on_alone(client: Client, numbers: Iterable[int]) -> None:
    for number in numbers:
        await _gone_on(client, "parked", (number,))


async def _crowd(one: Callable[[int], Awaitable[None]], numbers: Iterable[int]) -> None:
    turns = iter(numbers)

    async def some() -> None:
        for number in turns:
            await one(number)

    async with asyncio.TaskGroup() as group:
        for _ in range(TOGETHER):
            group.create_task(some())


async def _until_parked(scene: "_Scene", runs: int) -> None:
    async with asyncio.timeout(PARKED_S):
        while (await scene.asker.stats())["open"]["parked"] < runs - LIMITS.idle_runs_kept:  # noqa: ASYNC110  nothing tells of it
            await asyncio.sleep(LOOK_AGAIN_S)


async def _seconds(work: Awaitable[Any]) -> float:
    began = perf_counter()
    await work
    return perf_counter() - began


# ------------------------------------------------------------------------------------------------------------- what is counted


class _Asker:
    """Asks the server over one connection, from a thread, so that the time is that of nobody else here."""

    def __init__(self, url: str) -> None:
        split = urlsplit(url)
        self._connection = http.client.HTTPConnection(split.hostname or "", split.port, timeout=30)

    def close(self) -> None:
        self._connection.close()

    async def stats(self) -> Any:
        return msgspec.json.decode(await asyncio.to_thread(self._get, "/api/v1/stats"))

    async def sync_seconds(self) -> float:
        """How long writing has taken since the server began."""
        text = (await asyncio.to_thread(self._get, "/metrics")).decode()
        return next(float(line.split()[1]) for line in text.splitlines() if line.startswith("perdure_sync_seconds_sum "))

    async def many(self, path: str) -> Percentiles:
        """How long so many answers took, from the first byte sent to the last one read."""
        return await asyncio.to_thread(self._many, path)

    def _many(self, path: str) -> Percentiles:
        took = list[float]()
        for _ in range(CALLS):
            began = perf_counter()
            self._get(path)
            took.append(perf_counter() - began)
        return Percentiles.of(took)

    def _get(self, path: str) -> bytes:
        self._connection.request("GET", path)
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise AssertionError(f"{path}: {answer.status} {body[:200]!r}")
        return body


@dataclass(frozen=True)
class _Scene:
    client: Client
    asker: _Asker
    server: Child
    workers: Sequence[int]
    """Pids of the worker's processes."""

    def _cpu(self) -> tuple[float, float, float]:
        return self.server.cpu_s(), sum(map(cpu_of, self.workers)), process_time()

    async def drain(self, work: Callable[[], Awaitable[None]], runs: int) -> Drain:
        """What was counted while so many runs went on."""
        before, wrote = await self.asker.stats(), await self.asker.sync_seconds()
        cpu, waited = self._cpu(), waited_s(self.server.pid)
        seconds = await _seconds(work())
        waited = waited_s(self.server.pid) - waited
        used = [later - earlier for earlier, later in zip(cpu, self._cpu(), strict=True)]
        after, written = await self.asker.stats(), await self.asker.sync_seconds()
        return Drain(
            runs=runs,
            seconds=seconds,
            commits=after["commits"] - before["commits"],
            syncs=after["syncs"] - before["syncs"],
            writing_seconds=written - wrote,
            server_cpu_s=used[0],
            worker_cpu_s=used[1],
            client_cpu_s=used[2],
            server_waited_s=waited,
        )
