"""What the demo tells people: progress while it runs (standard error), the verdict at its end (standard output)."""

import sys
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from perdure.testing.audit import Verdict


@dataclass
class Outcome:
    """All there is to say when it is over."""

    verdict: Verdict
    seed: int
    seconds: float
    data: str
    """Where the books lie; empty when they are gone."""
    kills: list[int] = field(default_factory=list[int])
    """For each kill, how many orders were in flight."""

    def as_data(self) -> dict[str, Any]:
        shown = {"kills": self.kills, "seed": self.seed, "seconds": round(self.seconds, 3), "data": self.data or None}
        return self.verdict.as_data() | shown


class Teller(Protocol):
    """Tells how far it has come. Used as a context manager around the work."""

    def progress(self, accepted: int, ended: int) -> None: ...

    def note(self, text: str) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


class Bar:
    """For a terminal."""

    def __init__(self, total: int, what: str) -> None:
        columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[flight]} in flight"))
        self._bar = Progress(*columns, console=Console(stderr=True))
        self._task = self._bar.add_task(what, total=total, flight=0)

    def progress(self, accepted: int, ended: int) -> None:
        self._bar.update(self._task, completed=ended, flight=accepted - ended)

    def note(self, text: str) -> None:
        self._bar.console.print(text, highlight=False)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.stop()


class Lines:
    """For logs and pipes: a line per tenth of the way."""

    def __init__(self, total: int, what: str) -> None:
        self._total = total
        self._what = what
        self._tenths = 0

    def progress(self, accepted: int, ended: int) -> None:
        tenths = 10 * ended // self._total
        if tenths > self._tenths:
            self._tenths = tenths
            self.note(f"{ended} of {self._total} {self._what} done, {accepted - ended} in flight")

    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        pass


def teller(total: int, what: str = "orders") -> Teller:
    return Bar(total, what) if sys.stderr.isatty() else Lines(total, what)


def show_verdict(outcome: Outcome, violations_max: int = 20) -> None:
    """Print the verdict as a table in words, what is wrong, and where the books lie."""
    console = Console(highlight=False, soft_wrap=True)
    verdict = outcome.verdict
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(justify="right")
    table.add_column()
    for label, number in [*verdict.rows(), ("kills with orders in flight", len(outcome.kills))]:
        table.add_row(f"{number:,}", label)
    console.print(table)
    for violation in verdict.violations[:violations_max]:
        console.print(f"  ✗ {violation}", style="red", markup=False)
    if (more := len(verdict.violations) - violations_max) > 0:
        console.print(f"  … and {more} more")
    console.print(verdict.headline(), style="bold green" if verdict.ok else "bold red")
    console.print(f"seed {outcome.seed}, {outcome.seconds:.1f} s" + (f", books in {outcome.data}" if outcome.data else ""))
