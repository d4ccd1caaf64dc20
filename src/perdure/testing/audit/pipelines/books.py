"""Reading the books of one seed: histories from the journal, the world's ledger, what clients were told, and the course of events.

Four books, four writers: the engine, the outside world, whoever handed briefs in, and whoever started and killed processes.
"""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from perdure.testing.audit.books import Line, Run, read_journal, read_lines

NEW_STEP = "review"
"""The step that only the newer build has: its effect says which path a run took."""


@dataclass
class Books:
    """All four."""

    runs: dict[str, list[Run]]
    """By workflow id, which is the brief's id; oldest first."""
    effects: list[Line]
    """Of the ledger, in order, each with `at`, its place in the ledger."""
    deliveries: list[Line]
    starts: dict[str, Line]
    """Acknowledged starts by brief id."""
    signals: dict[str, list[Line]]
    """Acknowledged signals by brief id, each as often as it was acknowledged."""
    results: dict[str, list[Line]]
    """What clients were told of how a run ended, by brief id."""
    course: list[Line]
    due: dict[str, Any] = field(default_factory=dict[str, Any])
    """What the trial promised to do at least: numbers by the name of a count, and `builds`, old and new."""

    @cached_property
    def effects_by_brief(self) -> dict[str, list[Line]]:
        return _by_brief(self.effects)

    def takes_new_path(self, brief_id: str) -> bool:
        """By the ledger, not by the history."""
        return any(effect["operation"] == NEW_STEP for effect in self.effects_by_brief.get(brief_id, ()))


def read(place: Path) -> Books:
    """Read them all. Raises `UnreadableError` naming file and line, `OSError` when a file cannot be read."""
    entries = [line | {"at": at} for at, line in enumerate(read_lines(place / "world" / "ledger.jsonl"))]
    told = read_lines(place / "requests.jsonl")
    course = read_lines(place / "course.jsonl")
    return Books(
        runs=read_journal(place / "data" / "journal"),
        effects=[line for line in entries if line["entry"] == "effect"],
        deliveries=[line for line in entries if line["entry"] == "delivery"],
        starts={line["brief"]["id"]: line for line in told if line["line"] == "start"},
        signals=_by_brief([line for line in told if line["line"] == "signal"]),
        results=_by_brief([line for line in told if line["line"] == "result"]),
        course=course,
        due=_due(course),
    )


def _due(course: list[Line]) -> dict[str, Any]:
    """What the first line of the course promises."""
    for line in course:
        if line["what"] == "seed begun":
            return dict(line["due"])
    return {}


def _by_brief(lines: list[Line]) -> dict[str, list[Line]]:
    sorted_out: dict[str, list[Line]] = {}
    for line in lines:
        sorted_out.setdefault(line["brief_id"], []).append(line)
    return sorted_out
