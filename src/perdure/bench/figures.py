"""What is measured, as values: every figure with its unit in its name. Built by the measuring modules, printed by `report`."""

from collections.abc import Sequence
from math import ceil
from statistics import median
from typing import Final, NamedTuple

from msgspec import Struct

from perdure.bench.machine import Machine

COMMITS_OFF_MAX: Final = 0.02
"""So far may commits per workflow of one client be from steps + 1: a start whose first step takes more than 2 ms to be decided is
written by itself, which happens now and then on a busy machine."""


class Spread(Struct, frozen=True, kw_only=True):
    """Median, lowest and highest of several repeats."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        return cls(median=median(values), low=min(values), high=max(values))


class Percentiles(Struct, frozen=True, kw_only=True):
    """Nearest-rank percentiles in µs: every one is a time that was measured, none is interpolated."""

    samples: int
    p50_us: float
    p99_us: float
    p999_us: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Percentiles":
        ordered = sorted(seconds)

        def at(share: float) -> float:
            return ordered[max(0, ceil(share * len(ordered)) - 1)] * 1e6

        return cls(samples=len(ordered), p50_us=at(0.5), p99_us=at(0.99), p999_us=at(0.999))


class Repeat(NamedTuple):
    """One measurement of many workflows at once."""

    workflows: int
    seconds: float
    groups: int
    transitions: int
    loop_cpu_s: float
    process_cpu_s: float

    @property
    def transitions_per_group(self) -> float:
        return self.transitions / self.groups


class Throughput(Struct, frozen=True, kw_only=True):
    """Many workflows at once. Commits are transitions written, syncs the groups they were written in; CPU is what one workflow took."""

    workflows: int
    """All repeats together."""
    per_s: Spread
    commits_per_workflow: float
    syncs_per_workflow: float
    transitions_per_group: float
    loop_cpu_us: float
    """CPU of the event loop's thread for one workflow."""
    process_cpu_us: float
    """The same of all threads: the writing thread's too."""

    @classmethod
    def of(cls, repeats: Sequence[Repeat]) -> "Throughput":
        done = sum(repeat.workflows for repeat in repeats)
        groups = sum(repeat.groups for repeat in repeats)
        transitions = sum(repeat.transitions for repeat in repeats)
        return cls(
            workflows=done,
            per_s=Spread.of([repeat.workflows / repeat.seconds for repeat in repeats]),
            commits_per_workflow=transitions / done,
            syncs_per_workflow=groups / done,
            transitions_per_group=transitions / groups,
            loop_cpu_us=sum(repeat.loop_cpu_s for repeat in repeats) / done * 1e6,
            process_cpu_us=sum(repeat.process_cpu_s for repeat in repeats) / done * 1e6,
        )


class WorkflowFigures(Struct, frozen=True, kw_only=True):
    """Workflows of so many steps, one after the other from one client, and many at once."""

    steps: int
    latency: Percentiles
    """From the call of start until the result is there."""
    commits_alone: float
    """Commits for one workflow of the one client."""
    many: Throughput
    bare_lines_per_s: Spread
    """The same transitions written in groups of the same size, without an engine; once after each repeat of `many`."""
    share_of_bare: Spread
    """Transitions per second of a repeat over the bare lines per second measured right after it."""

    @property
    def commits_wanted(self) -> int:
        """One for the start with the first step asked for, one for each result with what followed from it."""
        return self.steps + 1


class StepCost(Struct, frozen=True, kw_only=True):
    """What a step of one run costs at this place of it: medians over a window of steps and over runs."""

    step: int
    steps_measured: int
    wall_us: float
    cpu_us: float
    """CPU of the event loop's thread; less touched by the disk's moods than `wall_us`."""
    wall_ratio: float
    """`wall_us` over that of the first place measured."""
    cpu_ratio: float


class Parked(Struct, frozen=True, kw_only=True):
    """Runs that wait for a signal, all held warm."""

    runs: int
    bytes_per_run: float
    """Growth of the process's resident memory over the number of runs."""


class Yardstick(Struct, frozen=True, kw_only=True):
    """How fast this machine is right now, without perdure: to form ratios where absolute numbers are noisy."""

    loop_us_before: float
    """A Python loop of 10,000 additions, before everything else."""
    loop_us_after: float
    """The same when everything was measured. Far from the one before: the machine had other things to do."""
    flush_before: Percentiles
    """One append of 256 bytes to a file and fdatasync, before everything else."""
    flush_after: Percentiles


class Settings(Struct, frozen=True, kw_only=True):
    """What was asked for."""

    workflows: int
    in_flight: int
    repeats: int
    long_run: int
    parked: int


class Report(Struct, frozen=True, kw_only=True):
    """Everything one run of the benchmark found."""

    machine: Machine
    settings: Settings
    yardstick: Yardstick
    workflows: tuple[WorkflowFigures, ...]
    long_run: tuple[StepCost, ...]
    parked: Parked | None

    @property
    def faults(self) -> list[str]:
        """What cannot be if the engine does what it promises."""
        found: list[str] = []
        for size in self.workflows:
            wanted = size.commits_wanted
            if size.many.commits_per_workflow < wanted:
                found.append(
                    f"{size.steps}-step workflows took {size.many.commits_per_workflow:.3f} commits: fewer than {wanted}"
                )
            if abs(size.commits_alone - wanted) > COMMITS_OFF_MAX:
                found.append(
                    f"{size.steps}-step workflows of one client took {size.commits_alone:.3f} commits instead of {wanted}"
                )
        return found
