"""What stores do alike: judging a batch before it is written, and putting a run's record together from transitions."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from perdure.core.codec import Unwritable, encode_transitions
from perdure.core.transition import Transition
from perdure.ports import CommitResult, Lease, Record
from perdure.store.leases import Leases
from perdure.store.rows import RunRow

if TYPE_CHECKING:
    from perdure.core.events import AnyEvent
    from perdure.core.notes import AnyNote

COMMITTED: Final = CommitResult(ok=True)
FENCED: Final = CommitResult(ok=False, reason="fenced")


def draft(leases: Leases, lease: Lease, batch: Sequence[Transition]) -> list[bytes | CommitResult]:
    """Judge a batch: the text of each transition that may be written, the result of each that may not.

    One that is no JSON is refused with those of its workflow id behind it, which build on it; the others are not touched by that.
    """
    drafts: list[bytes | CommitResult] = []
    broken: set[tuple[str, str]] = set()
    for transition, text in zip(batch, encode_transitions(batch), strict=True):
        if not leases.allows(lease, transition.namespace, transition.workflow_id):
            drafts.append(FENCED)
        elif broken and (transition.namespace, transition.workflow_id) in broken:
            drafts.append(CommitResult(ok=False, reason="refused: follows a transition that was refused"))
        elif isinstance(text, Unwritable):
            broken.add((transition.namespace, transition.workflow_id))
            drafts.append(CommitResult(ok=False, reason=f"refused: {text}", unwritable=True))
        else:
            drafts.append(text)
    return drafts


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
