"""The findings of a trial for people: one table of sums, one line a seed, what is wrong, and the verdict."""

from collections.abc import Iterable
from typing import Final

from rich.console import Console
from rich.table import Table

from perdure.chaos.findings import Findings

FAULTS_MAX: Final = 30
PIPE_COLUMNS: Final = 160
"""So wide may a table be where nobody says how much room there is."""
COLUMNS: Final = (
    ("runs", "runs"),
    ("in_flight_at_deploy", "at deploy"),
    ("old_path", "old path"),
    ("new_path", "new path"),
    ("worker_kills", "workers ✝"),
    ("server_kills", "servers ✝"),
    ("worker_freezes", "frozen"),
    ("attempts_lost", "attempts lost"),
    ("absorbed", "absorbed"),
    ("unheard", "unheard"),
)


def show(findings: Findings) -> None:
    """Print them on standard output."""
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = PIPE_COLUMNS
    if len(findings.seeds) > 1:
        console.print(_by_seed(findings))
        console.print()
    sums = Table(box=None, show_header=False, pad_edge=False)
    sums.add_column(justify="right")
    sums.add_column()
    for label, number in findings.rows():
        sums.add_row(f"{number:,}", label)
    console.print(sums)
    faults = findings.faults
    for fault in faults[:FAULTS_MAX]:
        console.print(f"  ✗ {fault}", style="red", markup=False)
    if (more := len(faults) - FAULTS_MAX) > 0:
        console.print(f"  … and {more} more")
    console.print(headline(findings), style="bold red" if faults else "bold green")


def headline(findings: Findings) -> str:
    """The verdict in a sentence."""
    counts, faults = findings.counts, findings.faults
    seconds = sum(seed.seconds for seed in findings.seeds)
    if faults:
        return f"{len(faults)} fault{'' if len(faults) == 1 else 's'} in {seconds:.0f} s."
    return f"{counts.runs} of {counts.runs} runs ended once, on the path their marker says: nothing lost, nothing doubled, {seconds:.0f} s."


def markdown(findings: Findings) -> str:
    """The same for a page of documentation."""
    heads = ("seed", *(label for _, label in COLUMNS), "s")
    lines = [_row(heads), _row(["---:"] * len(heads))]
    for seed in findings.seeds:
        numbers = (str(getattr(seed.verdict.counts, name)) for name, _ in COLUMNS)
        lines.append(_row((str(seed.seed), *numbers, f"{seed.seconds:.0f}")))
    lines += ["", _row(("over all seeds", "")), _row(("---", "---:"))]
    lines += [_row((label, f"{number:,}")) for label, number in findings.rows()]
    return "\n".join([*lines, "", *(f"- ✗ {fault}" for fault in findings.faults), headline(findings)])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _by_seed(findings: Findings) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("seed", *(label for _, label in COLUMNS), "faults", "s"):
        table.add_column(name, justify="right", no_wrap=True)
    for seed in findings.seeds:
        numbers = (str(getattr(seed.verdict.counts, name)) for name, _ in COLUMNS)
        table.add_row(str(seed.seed), *numbers, str(len(seed.faults)), f"{seed.seconds:.0f}")
    return table
