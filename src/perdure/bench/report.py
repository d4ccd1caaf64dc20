"""What was measured, for people, programs and pages: the same figures as text, JSON and Markdown."""

from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from perdure.bench.figures import Report, StepCost, WorkflowFigures, Yardstick
from perdure.bench.machine import Machine

Format = Literal["text", "json", "markdown"]


class Table(NamedTuple):
    """One table of a report. `rows` are as wide as `head`; the first column is what a row is about."""

    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def as_json(report: Report) -> str:
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def as_text(report: Report) -> str:
    return "\n".join([*(aligned(table) for table in _tables(report)), *remarks(report.machine)]) + "\n"


def as_markdown(report: Report) -> str:
    return "\n".join([*(piped(table) for table in _tables(report)), *remarks(report.machine)]) + "\n"


FORMATS: Final[dict[Format, Callable[[Report], str]]] = {"text": as_text, "json": as_json, "markdown": as_markdown}


# ------------------------------------------------------------------------------------------------------------------- contents


def _tables(report: Report) -> list[Table]:
    tables = [machine_table(report.machine), yardstick_table(report.yardstick), _workflows(report)]
    if report.long_run:
        tables.append(_long_run(report.long_run))
    if report.parked is not None:
        each = f"{report.parked.bytes_per_run / 1024:.1f} KiB"
        tables.append(Table(("memory", "each"), [(f"{report.parked.runs:,} runs that wait for a signal", each)]))
    return tables


def machine_table(machine: Machine) -> Table:
    """What the figures were measured on."""
    thresholds = ", ".join(f"{number:,}" for number in machine.gc_thresholds)
    rows = [
        ("CPU", f"{machine.cpu}, {machine.cores} cores"),
        ("memory", f"{machine.memory_bytes / 2**30:.1f} GiB"),
        ("filesystem", machine.filesystem or "unknown"),
        ("system", f"{machine.system}, load {machine.load:.1f} before"),
        ("Python", f"{machine.python}, event loop {machine.loop}"),
        ("collector", f"thresholds ({thresholds}), {machine.gc_frozen:,} objects frozen"),
        ("perdure", machine.perdure),
    ]
    return Table(("machine", ""), rows)


def yardstick_table(yardstick: Yardstick) -> Table:
    """How fast the machine was without perdure, before and after."""
    before, after = yardstick.flush_before, yardstick.flush_after
    rows = [
        (f"append and fdatasync, {before.samples}×: p50", f"{before.p50_us:,.0f} µs", f"{after.p50_us:,.0f} µs"),
        ("p99", f"{before.p99_us:,.0f} µs", f"{after.p99_us:,.0f} µs"),
        ("Python loop of 10,000 additions", f"{yardstick.loop_us_before:,.0f} µs", f"{yardstick.loop_us_after:,.0f} µs"),
    ]
    return Table(("this machine without perdure", "before", "after"), rows)


def _workflows(report: Report) -> Table:
    sizes, settings = report.workflows, report.settings

    def row(about: str, cell: Callable[[WorkflowFigures], str]) -> tuple[str, ...]:
        return (about, *map(cell, sizes))

    rows = [
        row("one client: p50", lambda size: f"{size.latency.p50_us:,.0f} µs"),
        row("p99", lambda size: f"{size.latency.p99_us:,.0f} µs"),
        row("p99.9", lambda size: f"{size.latency.p999_us:,.0f} µs"),
        row("commits per workflow", lambda size: f"{size.commits_alone:.3f} (steps + 1 = {size.commits_wanted})"),
        row(f"{settings.in_flight} in flight: workflows/s", lambda size: f"{size.many.per_s.median:,.0f}"),
        row(f"lowest–highest of {settings.repeats}", lambda size: f"{size.many.per_s.low:,.0f}–{size.many.per_s.high:,.0f}"),
        row("steps/s", lambda size: f"{size.many.per_s.median * size.steps:,.0f}"),
        row("commits per workflow", lambda size: f"{size.many.commits_per_workflow:.3f}"),
        row("fdatasyncs per workflow", lambda size: f"{size.many.syncs_per_workflow:.3f}"),
        row("transitions per group", lambda size: f"{size.many.transitions_per_group:.1f}"),
        row("CPU of the loop's thread per workflow", lambda size: f"{size.many.loop_cpu_us:,.0f} µs"),
        row("CPU of the process per workflow", lambda size: f"{size.many.process_cpu_us:,.0f} µs"),
        row("bare model: lines/s", lambda size: f"{size.bare_lines_per_s.median:,.0f}"),
        row(
            "commits/s as a share of it",
            lambda size: f"{size.share_of_bare.median:.0%} ({size.share_of_bare.low:.0%}–{size.share_of_bare.high:.0%})",
        ),
    ]
    return Table(("workflows", *(f"{size.steps} step{'' if size.steps == 1 else 's'}" for size in sizes)), rows)


def _long_run(costs: Sequence[StepCost]) -> Table:
    first = costs[0].step
    rows = [
        (
            f"step {cost.step:,}",
            f"{cost.wall_us:,.0f} µs",
            f"{cost.wall_ratio:.2f}×",
            f"{cost.cpu_us:,.0f} µs",
            f"{cost.cpu_ratio:.2f}×",
        )
        for cost in costs
    ]
    return Table(("one long run", "a step takes", f"to step {first}", "CPU", f"to step {first}"), rows)


def remarks(machine: Machine) -> list[str]:
    """What must be said beside the figures."""
    remarks = ["Durable throughout: nothing is acknowledged before its bytes are written and fdatasync has returned."]
    if machine.filesystem.startswith(("tmpfs", "ramfs")):
        remarks.append("But this filesystem is in memory: fdatasync does nothing here. Name a disk with --data.")
    return remarks


# -------------------------------------------------------------------------------------------------------------------- layout


def aligned(table: Table) -> str:
    """Columns side by side, for a terminal."""
    lines = [table.head, *table.rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() + "\n" for line in lines
    )


def piped(table: Table) -> str:
    """A Markdown table."""
    rule = tuple("---" for _ in table.head)
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in (table.head, rule, *table.rows))
