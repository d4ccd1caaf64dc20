"""What a step costs late in a long run, beside an early step of the same run. Flat is right: history is appended to, never read again."""

from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Final, NamedTuple

from perdure.bench.figures import StepCost
from perdure.bench.load import LIMIT_S
from perdure.bench.workload import Laps, laps
from perdure.node import Node

WINDOW: Final = 9
RUNS: Final = 3
FIRST: Final = 10
MIDDLE: Final = 1_000
STEPS_MIN: Final = FIRST + WINDOW


class _Run(NamedTuple):
    wall: list[float]
    cpu: list[float]


async def step_costs(node: Node, watch: Laps, steps: int) -> tuple[StepCost, ...]:
    """Up to `RUNS` runs of `steps` steps, one after the other, while there is time; a place no run reached is left out."""
    until = perf_counter() + LIMIT_S
    runs: list[_Run] = []
    while len(runs) < RUNS and (not runs or perf_counter() < until):
        watch.restart(until)
        await node.client.execute(laps(steps))
        runs.append(_Run(_differences(watch.wall), _differences(watch.cpu)))
    places = [place for place in dict.fromkeys((FIRST, MIDDLE, steps)) if place <= steps]
    measured = [(place, *windows) for place in places if (windows := _windows(runs, place)) is not None]
    return tuple(
        StepCost(
            step=place,
            steps_measured=len(wall),
            wall_us=median(wall) * 1e6,
            cpu_us=median(cpu) * 1e6,
            wall_ratio=median(wall) / median(measured[0][1]),
            cpu_ratio=median(cpu) / median(measured[0][2]),
        )
        for place, wall, cpu in measured
    )


def _differences(marks: list[float]) -> list[float]:
    """What each step took until the next began: all steps but the last."""
    return [later - earlier for earlier, later in pairwise(marks)]


def _windows(runs: list[_Run], place: int) -> tuple[list[float], list[float]] | None:
    """The steps around `place` (counted from 1) of every run that got there, as wall and CPU seconds."""
    wall: list[float] = []
    cpu: list[float] = []
    for run in runs:
        last = min(place + WINDOW // 2, len(run.wall))
        if last >= place - 1:  # nothing begins after the very last step, so its own cost has no end
            wall += run.wall[last - WINDOW : last]
            cpu += run.cpu[last - WINDOW : last]
    return (wall, cpu) if wall else None
