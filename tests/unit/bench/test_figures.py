"""Percentiles are times that were measured, windows hold the steps they name, and a broken promise is found."""

import pytest

from perdure.bench.figures import Parked, Percentiles, Repeat, Report, Settings, Spread, Throughput, WorkflowFigures, Yardstick
from perdure.bench.long_run import _Run, _windows
from perdure.bench.machine import Machine
from perdure.bench.report import FORMATS

ONE = Spread.of([1.0])
FEW = Percentiles(samples=1, p50_us=1, p99_us=2, p999_us=3)
MACHINE = Machine(
    cpu="a | b", cores=2, memory_bytes=2**30, filesystem="tmpfs on tmpfs", system="Linux", load=0.5, python="CPython 3.11",
    perdure="0.1.0", loop="asyncio", gc_thresholds=(700, 10, 10), gc_frozen=0,
)  # fmt: skip


def report(*, alone: float = 2.0, crowd: float = 2.0) -> Report:
    many = Throughput(
        workflows=10, per_s=Spread(median=1000, low=900, high=1100), commits_per_workflow=crowd, syncs_per_workflow=0.1,
        transitions_per_group=20, loop_cpu_us=100, process_cpu_us=110,
    )  # fmt: skip
    return Report(
        machine=MACHINE,
        settings=Settings(workflows=10, in_flight=4, repeats=1, long_run=0, parked=10),
        yardstick=Yardstick(loop_us_before=300, loop_us_after=300, flush_before=FEW, flush_after=FEW),
        workflows=(
            WorkflowFigures(steps=1, latency=FEW, commits_alone=alone, many=many, bare_lines_per_s=ONE, share_of_bare=ONE),
        ),
        long_run=(),
        parked=Parked(runs=10, bytes_per_run=2048),
    )


def test_percentiles_are_measured_times() -> None:
    """Nearest rank: of 1 to 1,000 ms the p99 is 990 ms, and a single sample is all of its percentiles."""
    many = Percentiles.of([number / 1000 for number in range(1000, 0, -1)])
    assert (many.samples, many.p50_us, many.p99_us, many.p999_us) == (1000, 500_000, 990_000, 999_000)
    one = Percentiles.of([0.002])
    assert one.p50_us == one.p99_us == one.p999_us == 2000


@pytest.mark.parametrize(
    ("place", "steps", "window"),
    [(10, 30, range(6, 15)), (1000, 1200, range(996, 1005)), (30, 30, range(21, 30)), (31, 30, None)],
)
def test_a_window_is_nine_steps_around_its_place(place, steps, window) -> None:
    """At the end of a run it holds the last nine that have an end; a run that did not get there adds nothing."""
    costs = [float(step) for step in range(1, steps)]  # what step n took is n; the last has no end
    found = _windows([_Run(costs, costs)], place)
    assert found == (None if window is None else (list(map(float, window)),) * 2)


@pytest.mark.parametrize(
    ("alone", "crowd", "faults"), [(2.0, 2.0, 0), (2.01, 2.4, 0), (2.1, 2.0, 1), (1.9, 2.0, 1), (2.0, 1.9, 1)]
)
def test_other_commits_than_promised_are_a_fault(alone, crowd, faults) -> None:
    """Fewer commits mean a step was not written down; more than now and then, for one client alone, that one was written in vain."""
    assert len(report(alone=alone, crowd=crowd).faults) == faults


def test_repeats_are_put_together() -> None:
    """Rates are spread over the repeats, everything else is counted over all of them."""
    repeats = [Repeat(10, 1.0, 2, 20, 0.001, 0.002), Repeat(30, 1.0, 6, 60, 0.003, 0.006), Repeat(20, 1.0, 2, 40, 0.002, 0.004)]
    together = Throughput.of(repeats)
    assert together.workflows == 60
    assert together.per_s == Spread(median=20, low=10, high=30)
    assert (together.commits_per_workflow, together.transitions_per_group) == (2, 12)
    assert together.syncs_per_workflow == pytest.approx(10 / 60)
    assert (together.loop_cpu_us, together.process_cpu_us) == (pytest.approx(100), pytest.approx(200))


@pytest.mark.parametrize("output", ["text", "markdown"])
def test_people_are_told_of_a_disk_that_is_none(output) -> None:
    """Both forms for people carry the figures and say when the filesystem is in memory."""
    shown = FORMATS[output](report())
    assert "2.000 (steps + 1 = 2)" in shown
    assert "in memory" in shown


def test_markdown_rows_have_as_many_cells_as_their_head() -> None:
    """Nothing in a cell can end it early."""
    tables = FORMATS["markdown"](report()).split("\n\n")
    for table in tables:
        rows = [line for line in table.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in rows}) <= 1
