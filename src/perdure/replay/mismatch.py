"""Why replay cannot go on: the code asks for something else than the history holds, or is older than it, or the runner is stale."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.core.commands import AnyCommand
    from perdure.core.events import RecordedCommand


class Mismatch(Exception):  # noqa: N818 – a verdict on a run's code, not an error of the process
    """The code does not reproduce the history: the run must be quarantined. Both commands in words; empty = there is none."""

    def __init__(self, reason: str, *, expected: str = "", found: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.expected = expected
        self.found = found


class OldBuild(Exception):  # noqa: N818
    """The history holds a version marker this code does not ask for: the build is older than the run."""

    def __init__(self, change_id: str) -> None:
        super().__init__(f"this build does not know the change {change_id!r} the run has taken")
        self.change_id = change_id


class Stale(Exception):  # noqa: N818
    """Another decision was accepted than the one this runner made: throw the runner away and replay."""


def in_words(entry: "RecordedCommand | AnyCommand") -> str:
    """A command for people: kind, name, and the input it was asked at."""
    name = getattr(entry, "name", "") or getattr(entry, "workflow_type", "") or getattr(entry, "change_id", "")
    number = getattr(entry, "id", 0)
    place = f"event {number}, " if number else ""
    return f"{entry.type.replace('_', ' ')}{f' {name!r}' if name else ''} ({place}at input {entry.at})"
