"""What `perdure bench approvals` measured, for people, programs and pages."""

from collections.abc import Callable
from typing import Final

import msgspec

from perdure.bench.approvals_figures import ApprovalsReport, Drain, Waiting
from perdure.bench.report import Format, Table, aligned, machine_table, piped, remarks, yardstick_table


def as_json(report: ApprovalsReport) -> str:
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def as_text(report: ApprovalsReport) -> str:
    return "\n".join([*map(aligned, _tables(report)), *_bounds(report), *remarks(report.machine)]) + "\n"


def as_markdown(report: ApprovalsReport) -> str:
    return "\n".join([*map(piped, _tables(report)), *_bounds(report), *remarks(report.machine)]) + "\n"


APPROVALS_FORMATS: Final[dict[Format, Callable[[ApprovalsReport], str]]] = {
    "text": as_text,
    "json": as_json,
    "markdown": as_markdown,
}


def _tables(report: ApprovalsReport) -> list[Table]:
    return [
        machine_table(report.machine),
        yardstick_table(report.yardstick),
        _table(report, "runs that wait", _PARKED),
        _table(report, "approved one after the other", _drain(lambda each: each.alone)),
        _table(report, "approved all at once", _drain(lambda each: each.together)),
    ]


_Rows = list[tuple[str, Callable[[Waiting], str]]]

_PARKED: Final[_Rows] = [
    ("starting them", lambda each: f"{each.start_seconds:,.1f} s"),
    ("until they are parked", lambda each: f"{each.park_seconds:,.1f} s more"),
    ("memory of the server then", lambda each: f"{each.bytes_parked / 2**20:,.0f} MiB, {each.bytes_empty / 2**20:,.0f} before"),
    ("for each run", lambda each: f"{each.bytes_each / 1024:.2f} KiB"),
    ("GET /api/v1/stats: p50", lambda each: f"{each.stats.p50_us / 1_000:.2f} ms"),
    ("p99", lambda each: f"{each.stats.p99_us / 1_000:.2f} ms"),
    ("GET /healthz, which asks for nothing: p50", lambda each: f"{each.nothing.p50_us / 1_000:.2f} ms"),
    ("p99", lambda each: f"{each.nothing.p99_us / 1_000:.2f} ms"),
]


def _drain(of: Callable[[Waiting], Drain]) -> _Rows:
    return [
        ("runs completed/s", lambda each: f"{of(each).per_s:,.0f}"),
        ("commits for each", lambda each: f"{of(each).commits / of(each).runs:.3f}"),
        ("commits in a sync", lambda each: f"{of(each).commits_per_sync:.1f}"),
        ("syncs/s", lambda each: f"{of(each).syncs / of(each).seconds:,.0f}"),
        ("time in which a write is under way", lambda each: f"{of(each).share(of(each).writing_seconds):.0%}"),
        ("CPU of the server, of one core", lambda each: f"{of(each).share(of(each).server_cpu_s):.0%}"),
        ("ready to run, without a core", lambda each: f"{of(each).share(of(each).server_waited_s):.0%}"),
        ("CPU of the worker", lambda each: f"{of(each).share(of(each).worker_cpu_s):.0%}"),
        ("CPU of the client", lambda each: f"{of(each).share(of(each).client_cpu_s):.0%}"),
    ]


def _table(report: ApprovalsReport, title: str, rows: _Rows) -> Table:
    sizes = report.waiting
    return Table((title, *(f"{each.runs:,}" for each in sizes)), [(about, *map(cell, sizes)) for about, cell in rows])


def _bounds(report: ApprovalsReport) -> list[str]:
    """What bounds the rates, and what a rate without groups would be on this disk."""
    flush = (report.yardstick.flush_before.p50_us + report.yardstick.flush_after.p50_us) / 2
    lines = list[str]()
    for each in report.waiting:
        per_run = each.together.commits / each.together.runs
        single = 1e6 / flush / per_run
        lines += [
            f"{each.runs:,} at once are bounded by {each.together.bound(report.machine.cores)}.",
            f"One sync for every commit would allow {single:,.0f} a second on this disk; here it is {each.together.per_s:,.0f}.",
            f"One after the other are bounded by {each.alone.bound(report.machine.cores)}.",
        ]
    return lines
