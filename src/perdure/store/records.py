"""What stores answer alike: results of a commit, and a run's record put together from transitions."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from perdure.core.transition import Transition
from perdure.ports import CommitResult, Record
from perdure.store.visibility import RunRow

if TYPE_CHECKING:
    from perdure.core.events import AnyEvent
    from perdure.core.notes import AnyNote

COMMITTED: Final = CommitResult(ok=True)
FENCED: Final = CommitResult(ok=False, reason="fenced")


def refused(why: str) -> CommitResult:
    """Result of a transition that cannot be kept, or follows such a one; the rest of its batch is not touched by that."""
    return CommitResult(ok=False, reason=f"refused: {why}")


def record_of(row: RunRow, transitions: Iterable[Transition]) -> Record:
    """All events and notes that `transitions` hold of one run."""
    events: list[AnyEvent] = []
    notes: list[AnyNote] = []
    for transition in transitions:
        for change in transition.runs:
            if change.run_id == row.run_id:
                events.extend(change.events)
                notes.extend(change.notes)
    return Record(workflow_id=row.workflow_id, run_id=row.run_id, events=tuple(events), notes=tuple(notes))
