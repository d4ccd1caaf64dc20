"""Which way a run took over a change of code: path by the ledger ⇔ version marker in the history ⇔ build that decided."""

from collections.abc import Iterator
from typing import Final

from perdure.testing.audit.books import Run
from perdure.testing.audit.pipelines.books import NEW_STEP, Books
from perdure.testing.audit.verdict import Violation

CHANGE: Final = "second look"


def check_paths(books: Books) -> Iterator[Violation]:
    """Every run, and that nothing was ever set aside."""
    old, new = books.due.get("builds", ("", ""))
    for brief_id, runs in books.runs.items():
        for run in runs:
            for text in (*_path(run, new_path=books.takes_new_path(brief_id)), *_builds(run, old, new), *_set_aside(run)):
                yield Violation(brief_id, text)


def markers(run: Run) -> list[int]:
    """Numbers of the events that mark the change."""
    return [event["id"] for event in run.events if event["type"] == "version_marked" and event["change_id"] == CHANGE]


def _path(run: Run, *, new_path: bool) -> Iterator[str]:
    marked = markers(run)
    if new_path and not marked:
        yield f"took the new path by the ledger ({NEW_STEP} was done), but its history has no version marker"
    elif marked and not new_path and not run.is_open:
        yield f"has a version marker, but took the old path by the ledger ({NEW_STEP} was not done)"
    if len(marked) > 1:
        yield f"has {len(marked)} version markers of one change"
    for asked in run.activities(NEW_STEP):
        if not any(marker < asked["id"] for marker in marked):
            yield f"asks for {NEW_STEP} without a version marker before it"


def _builds(run: Run, old: str, new: str) -> Iterator[str]:
    """The marker is the newer build's, and no older one decides behind it."""
    for marker in markers(run):
        for event_id, build in run.builds.items():
            if event_id == marker and build != new:
                yield f"its version marker was decided by build {build}, not by {new}"
            elif event_id > marker and build == old:
                yield f"event {event_id}, behind its version marker, was decided by the older build {build}"


def _set_aside(run: Run) -> Iterator[str]:
    for note in run.notes:
        if note["type"] == "quarantined":
            yield f"was quarantined by build {note.get('build_id')}: {note['reason']}"
