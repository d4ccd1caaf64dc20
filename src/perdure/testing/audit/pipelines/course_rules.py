"""Whether enough was done to the processes for the rest to prove anything, by the log of whoever did it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perdure.testing.audit.books import Line
from perdure.testing.audit.pipelines.books import Books
from perdure.testing.audit.pipelines.counting import count
from perdure.testing.audit.verdict import Violation

NODES = ("server", "worker")


@dataclass(frozen=True)
class Life:
    """Of one process, in microseconds; `ended` is None when it saw the end of the trial."""

    role: str
    pid: int
    began: int
    ended: int | None

    def is_over(self, time: int) -> bool:
        return self.ended is not None and self.ended <= time


def lives(course: Sequence[Line]) -> list[Life]:
    """Every process there was."""
    found: list[Life] = []
    running: dict[int, Line] = {}
    for line in course:
        if line["what"] == "started":
            running[line["pid"]] = line
        elif line["what"] in {"killed", "stopped", "died"} and line["pid"] in running:
            begun = running.pop(line["pid"])
            found.append(Life(begun["role"], begun["pid"], begun["time"], line["time"]))
    return found + [Life(line["role"], line["pid"], line["time"], None) for line in running.values()]


def check_course(books: Books) -> Iterator[Violation]:
    """Kills, deploys and absorbed duplicates reach what was promised; what was withheld was withheld long enough."""
    counted = count(books)
    if not books.starts:
        yield Violation("", "there is nothing to audit: no start was ever acknowledged")
    for name, least in books.due.get("least", {}).items():
        if (there := getattr(counted, name)) < least:
            yield Violation("", f"it proves too little: {name} is {there}, should be {least} at least")
    for line in books.course:
        if line["what"] == "died":
            yield Violation("", f"{line['role']} {line['pid']} ended by itself (exit code {line.get('code')})")
        elif line["what"] == "gave up":
            yield Violation("", f"not everything ended in time: {line['why']}")
    yield from _withheld(books.course)


def _withheld(course: Sequence[Line]) -> Iterator[Violation]:
    """An answer that was withheld is sent when no process is left of those that were there when it was asked for."""
    asked: dict[str, int] = {line["brief_id"]: line["time"] for line in course if line["what"] == "asked"}
    there = lives(course)
    for line in course:
        if line["what"] != "answer sent" or not line["withheld"]:
            continue
        sent: int = line["time"]
        since = asked.get(line["brief_id"], sent)
        kept = [life for life in there if life.role in NODES and life.began <= since and not life.is_over(sent)]
        for life in kept:
            yield Violation(
                line["brief_id"], f"its answer was withheld, but {life.role} {life.pid} had not been replaced when it was sent"
            )
