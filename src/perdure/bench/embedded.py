"""`perdure bench embedded`: one process, one journal, every number in one run. Puts the measuring modules in order.

Nothing is cached, nothing is left out: registration and warm-up come before the clocks, every commit is a real fdatasync.
"""

import asyncio
import gc
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final, Literal

from cyclopts import Parameter

from perdure.bench.disk import bare_lines_per_s, flush_times
from perdure.bench.figures import (
    Parked,
    Repeat,
    Report,
    Settings,
    Spread,
    StepCost,
    Throughput,
    WorkflowFigures,
    Yardstick,
)
from perdure.bench.load import crowd, many_at_once, one_client, python_loop_us
from perdure.bench.long_run import STEPS_MIN, step_costs
from perdure.bench.machine import machine_at
from perdure.bench.parking import parked_runs
from perdure.bench.place import place_of
from perdure.bench.progress import Progress
from perdure.bench.report import FORMATS, Format
from perdure.bench.workload import Laps, chain, increment, laps, parked
from perdure.core.errors import InvalidArgument
from perdure.core.transition import Transition
from perdure.node import Node, embedded
from perdure.runtime.collector import Collector, collector

Loop = Literal["asyncio", "uvloop"]

WARM_UP: Final = 500
SAMPLES_MAX: Final = 2_000
"""Workflows of the one client: enough for a p99.9."""


@dataclass(frozen=True)
class _Plan:
    settings: Settings
    steps: tuple[int, ...]
    directory: Path
    loop: str
    gc: Collector
    tell: Progress


def main(
    *,
    workflows: int = 5_000,
    in_flight: int = 256,
    repeats: int = 3,
    steps: Sequence[int] = (1, 5),
    long_run: int = 5_000,
    parked: int = 2_000,
    data: Path | None = None,
    output: Annotated[Format, Parameter(name=["--output", "-o"])] = "text",
    loop: Loop = "asyncio",
    gc: Collector = "tuned",
) -> int:
    """Measure the embedded engine on this machine. Every commit is a real fdatasync.

    Exit code 1 when a workflow took other commits than its steps + 1.

    Args:
        workflows: Workflows in each repeat of a throughput measurement.
        in_flight: Workflows running at any moment of it.
        repeats: Repeats of it; the median counts.
        steps: Steps of the workflows. Repeat it for more.
        long_run: Steps of the one long run; 0 leaves it out.
        parked: Runs that wait while their memory is measured; 0 leaves it out.
        data: A directory on the disk to measure. A folder in it is made and removed. Default: the system's temporary directory, or
            the current one where that is in memory.
        output: text for people, json, or markdown.
        loop: The event loop; perdure dev runs on asyncio.
        gc: tuned sets the garbage collector as a process of perdure's own does; default leaves it alone.
    """
    settings = Settings(workflows=workflows, in_flight=in_flight, repeats=repeats, long_run=long_run, parked=parked)
    sizes = tuple(dict.fromkeys(steps))
    _check(settings, sizes)
    name, run = _runner(loop)
    with TemporaryDirectory(prefix="perdure-bench-", dir=place_of(data)) as made, Progress() as tell:
        report = run(_measure(_Plan(settings, sizes, Path(made), name, gc, tell)))
    sys.stdout.write(FORMATS[output](report))
    for fault in report.faults:
        sys.stderr.write(f"perdure: {fault}\n")
    return 1 if report.faults else 0


def _check(settings: Settings, steps: tuple[int, ...]) -> None:
    for name in ("workflows", "in_flight", "repeats"):
        if getattr(settings, name) < 1:
            raise InvalidArgument(f"{name} must be at least 1")
    if not steps or min(steps) < 1:
        raise InvalidArgument("steps must be at least 1 each")
    if settings.long_run and settings.long_run < STEPS_MIN:
        raise InvalidArgument(f"long_run must be 0 or at least {STEPS_MIN}")
    if settings.parked < 0:
        raise InvalidArgument("parked must not be negative")


def _runner(loop: Loop) -> tuple[str, Callable[[Coroutine[Any, Any, Report]], Report]]:
    """The event loop's name and what runs a coroutine on it."""
    if loop == "asyncio":
        return "asyncio", asyncio.run
    try:
        import uvloop
    except ImportError:
        raise InvalidArgument("uvloop is not installed: pip install perdure[speed]") from None
    return f"uvloop {version('uvloop')}", uvloop.run


async def _measure(plan: _Plan) -> Report:
    plan.tell("this machine")
    before = python_loop_us(), flush_times(plan.directory)
    async with AsyncExitStack() as stack:
        # The runs that only wait come first: later on, memory that others have let go would hide theirs.
        async with _node(plan, "parked") as node:
            stack.enter_context(collector(plan.gc))
            machine = machine_at(plan.directory, plan.loop)
            weighed = await _weigh(plan, node)
        gc.collect()
        watch = Laps()
        async with _node(plan, "engine") as node:
            node.register(watch)
            sizes = [await _size(plan, node, steps) for steps in plan.steps]
            costs = await _long_run(plan, node, watch)
    plan.tell("this machine again")
    after = python_loop_us(), flush_times(plan.directory)
    return Report(
        machine=machine,
        settings=plan.settings,
        yardstick=Yardstick(loop_us_before=before[0], loop_us_after=after[0], flush_before=before[1], flush_after=after[1]),
        workflows=tuple(sizes),
        long_run=costs,
        parked=weighed,
    )


def _node(plan: _Plan, name: str) -> Node:
    """A node as `embedded` makes it, with room for everything in flight."""
    settings = plan.settings
    node = embedded(
        plan.directory / name,
        max_activities=max(200, settings.in_flight),
        max_cached_runs=max(10_000, settings.parked + settings.in_flight),
    )
    node.register(chain, increment, laps, parked)
    return node


async def _weigh(plan: _Plan, node: Node) -> Parked | None:
    if not plan.settings.parked:
        return None
    plan.tell("parked runs")
    # One at a time: a crowd would leave room behind that parked runs would then fill unseen.
    await crowd(node, 1, min(WARM_UP, plan.settings.workflows), in_flight=1)
    return await parked_runs(node, plan.settings.parked)


async def _warm_up(plan: _Plan, node: Node, steps: int) -> None:
    await crowd(node, steps, min(WARM_UP, plan.settings.workflows), plan.settings.in_flight)


async def _size(plan: _Plan, node: Node, steps: int) -> WorkflowFigures:
    settings = plan.settings
    plan.tell(f"{steps}-step workflows, one client")
    await _warm_up(plan, node, steps)
    latency, alone = await one_client(node, steps, min(SAMPLES_MAX, settings.workflows))
    sample = await _sample(node, steps)
    repeats: list[Repeat] = []
    bare: list[float] = []
    for number in range(1, settings.repeats + 1):
        plan.tell(f"{steps}-step workflows, {settings.in_flight} in flight, {number} of {settings.repeats}")
        repeat = await many_at_once(node, steps, workflows=settings.workflows, in_flight=settings.in_flight)
        repeats.append(repeat)
        # Right after it, so that both saw the disk and the machine in the same mood.
        group = max(1, round(repeat.transitions_per_group))
        bare.append(await bare_lines_per_s(plan.directory, sample, group=group, lines=repeat.transitions))
    return WorkflowFigures(
        steps=steps,
        latency=latency,
        commits_alone=alone,
        many=Throughput.of(repeats),
        bare_lines_per_s=Spread.of(bare),
        share_of_bare=Spread.of([a.transitions / a.seconds / b for a, b in zip(repeats, bare, strict=True)]),
    )


async def _sample(node: Node, steps: int) -> Sequence[Transition]:
    """What the engine wrote for one such workflow."""
    handle = await node.client.start(chain(steps))
    await handle.result()
    return await node.store.load("default", handle.id)


async def _long_run(plan: _Plan, node: Node, watch: Laps) -> tuple[StepCost, ...]:
    if not plan.settings.long_run:
        return ()
    plan.tell("one long run")
    return await step_costs(node, watch, plan.settings.long_run)
