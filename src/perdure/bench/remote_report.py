"""What `perdure bench remote` measured, for people, programs and pages."""

from collections.abc import Callable
from typing import Final

import msgspec

from perdure.bench.remote_figures import ROLES, RemoteReport, RemoteSize
from perdure.bench.report import Format, Table, aligned, machine_table, piped, remarks, yardstick_table


def as_json(report: RemoteReport) -> str:
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def as_text(report: RemoteReport) -> str:
    return "\n".join([*(aligned(table) for table in _tables(report)), *remarks(report.machine)]) + "\n"


def as_markdown(report: RemoteReport) -> str:
    return "\n".join([*(piped(table) for table in _tables(report)), *remarks(report.machine)]) + "\n"


REMOTE_FORMATS: Final[dict[Format, Callable[[RemoteReport], str]]] = {
    "text": as_text,
    "json": as_json,
    "markdown": as_markdown,
}


def _tables(report: RemoteReport) -> list[Table]:
    tables = [machine_table(report.machine), yardstick_table(report.yardstick), _workflows(report)]
    if report.answers:
        tables.append(_answers(report))
    return tables


def _workflows(report: RemoteReport) -> Table:
    sizes, settings = report.workflows, report.settings

    def row(about: str, cell: Callable[[RemoteSize], str]) -> tuple[str, ...]:
        return (about, *map(cell, sizes))

    rows = [
        row("one client: p50", lambda size: f"{size.latency.p50_us / 1_000:,.2f} ms"),
        row("p99", lambda size: f"{size.latency.p99_us / 1_000:,.2f} ms"),
        row("p99.9", lambda size: f"{size.latency.p999_us / 1_000:,.2f} ms"),
        row("commits per workflow", lambda size: f"{size.commits_alone:.3f} (steps + 1 = {size.steps + 1})"),
        row("frames per workflow, both ways", lambda size: f"{size.frames_alone:.1f}"),
        row("messages", lambda size: f"{size.messages_alone:.1f}"),
        row("bytes", lambda size: f"{size.bytes_alone:,.0f}"),
        row(f"{settings.in_flight} in flight: workflows/s", lambda size: f"{size.many.per_s.median:,.0f}"),
        row(f"lowest–highest of {settings.repeats}", lambda size: f"{size.many.per_s.low:,.0f}–{size.many.per_s.high:,.0f}"),
        row("steps/s", lambda size: f"{size.many.per_s.median * size.steps:,.0f}"),
        row("commits per workflow", lambda size: f"{size.many.commits_per_workflow:.3f}"),
        row("fdatasyncs per workflow", lambda size: f"{size.many.syncs_per_workflow:.3f}"),
        row("frames per workflow, both ways", lambda size: f"{size.many.frames_per_workflow:.2f}"),
        row("frames per step", lambda size: f"{size.many.frames_per_workflow / size.steps:.2f}"),
        row("messages per workflow", lambda size: f"{size.many.messages_per_workflow:.1f}"),
        row("bytes per workflow", lambda size: f"{size.many.bytes_per_workflow:,.0f}"),
        row("bytes per step", lambda size: f"{size.many.bytes_per_workflow / size.steps:,.0f}"),
    ]
    rows += [row(f"CPU of the {role} per workflow", lambda size, r=role: f"{size.many.cpu_us[r]:,.0f} µs") for role in ROLES]  # type: ignore[misc]
    return Table(("workflows", *(f"{size.steps} step{'' if size.steps == 1 else 's'}" for size in sizes)), rows)


def _answers(report: RemoteReport) -> Table:
    rows = [
        (
            f"{answer.events:,} events",
            f"{answer.cold_ms.median:,.1f} ms ({answer.cold_ms.low:,.1f}–{answer.cold_ms.high:,.1f})",
            f"{answer.warm.p50_us / 1_000:,.2f} ms",
            f"{answer.warm.p99_us / 1_000:,.2f} ms",
            f"{answer.warm_bytes:,.0f}",
        )
        for answer in report.answers
    ]
    return Table(("an update of a run with", "by a new worker", "by its own: p50", "p99", "bytes"), rows)
