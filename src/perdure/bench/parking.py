"""How much memory a run takes that does nothing but wait."""

import asyncio
import gc
from time import perf_counter
from typing import Final

from perdure.bench.figures import Parked
from perdure.bench.load import LIMIT_S
from perdure.bench.machine import resident_bytes
from perdure.bench.workload import parked
from perdure.node import Node

TOGETHER: Final = 100
LOOK_AGAIN_S: Final = 0.01


async def parked_runs(node: Node, runs: int) -> Parked:
    """Start `runs` runs that wait for a signal, and weigh them. Then one gets its signal, to see that it was alive."""
    gc.collect()
    before = resident_bytes()
    for first in range(0, runs, TOGETHER):
        await asyncio.gather(
            *(node.client.start(parked(), id=f"parked-{n}") for n in range(first, min(runs, first + TOGETHER)))
        )
    await _until_all_wait(node, runs)
    gc.collect()
    grown = resident_bytes() - before
    one = node.client.handle("parked-0", workflow=parked)
    await one.signal("go", "on")
    if await one.result(timeout=LIMIT_S) != "on":
        raise AssertionError("a parked run did not go on")
    return Parked(runs=runs, bytes_per_run=grown / runs)


async def _until_all_wait(node: Node, runs: int) -> None:
    """A start may be acknowledged before its first decision: give workers the time for it."""
    until = perf_counter() + LIMIT_S
    while True:
        states = [live.state.run for live in node.frontend.live_workflows()]
        waiting = sum(run is not None and not run.wants_decision and run.claim is None for run in states)
        if waiting + node.frontend.parking.parked >= runs:
            return
        if perf_counter() > until:
            raise TimeoutError(f"only {waiting} of {runs} runs were parked after {LIMIT_S:g} s")
        await asyncio.sleep(LOOK_AGAIN_S)
