"""Load on a running node: one client that waits for each result, or many workflows in flight. Counts what the engine wrote meanwhile.

Every result is looked at: a workflow that did not do its steps is no number but an error.
"""

import asyncio
from collections.abc import Iterator
from statistics import fmean
from time import perf_counter, process_time, thread_time
from typing import Final

from perdure.bench.figures import Percentiles, Repeat
from perdure.bench.workload import chain
from perdure.node import Node

LIMIT_S: Final = 20.0
"""No single measurement goes on longer: what was done by then is what counts."""


class Written:
    """What a node's committer has written since this object was made."""

    def __init__(self, node: Node) -> None:
        self._committer = node.frontend.committer
        self._groups, self._transitions = self._committer.groups, self._committer.transitions

    @property
    def groups(self) -> int:
        """Appends to the journal, each followed by one sync."""
        return self._committer.groups - self._groups

    @property
    def transitions(self) -> int:
        return self._committer.transitions - self._transitions


async def run_chain(node: Node, steps: int) -> None:
    result = await node.client.execute(chain(steps))
    if result != steps:
        raise AssertionError(f"a workflow of {steps} steps gave {result}")


async def one_client(node: Node, steps: int, samples: int) -> tuple[Percentiles, float]:
    """Workflows one after the other: how long each took from start to result, and how many commits it took on average."""
    written, took, until = Written(node), list[float](), perf_counter() + LIMIT_S
    while len(took) < samples and (began := perf_counter()) < until:
        await run_chain(node, steps)
        took.append(perf_counter() - began)
    return Percentiles.of(took), written.transitions / len(took)


async def many_at_once(node: Node, steps: int, *, workflows: int, in_flight: int) -> Repeat:
    """`workflows` workflows, `in_flight` of them at any moment, and what they took together."""
    written, began, loop_cpu, process_cpu = Written(node), perf_counter(), thread_time(), process_time()
    done = await crowd(node, steps, workflows, in_flight)
    return Repeat(
        workflows=done,
        seconds=perf_counter() - began,
        groups=written.groups,
        transitions=written.transitions,
        loop_cpu_s=thread_time() - loop_cpu,
        process_cpu_s=process_time() - process_cpu,
    )


async def crowd(node: Node, steps: int, workflows: int, in_flight: int) -> int:
    """Run workflows, `in_flight` of them at any moment; says how many ended within the time limit."""
    until = perf_counter() + LIMIT_S
    turns = iter(range(workflows))
    async with asyncio.TaskGroup() as group:
        clients = [group.create_task(_client(node, steps, turns, until)) for _ in range(min(in_flight, workflows))]
    return sum(client.result() for client in clients)


async def _client(node: Node, steps: int, turns: Iterator[int], until: float) -> int:
    done = 0
    for _ in turns:
        await run_chain(node, steps)
        done += 1
        if perf_counter() > until:
            break
    return done


def python_loop_us() -> float:
    """A Python loop of 10,000 additions: the mean of the faster half of 40, in µs."""
    took: list[float] = []
    for _ in range(40):
        began, total = perf_counter(), 0
        for number in range(10_000):
            total += number
        took.append(perf_counter() - began)
    return fmean(sorted(took)[:20]) * 1e6
