"""The only writer of state. One small function per kind of entry, in `applying`; each says what that entry changes and nothing else.

Applying all events and notes of a workflow id in order gives its state (law `fold`); volatile entries touch volatile fields only.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from perdure.core import events as ev
from perdure.core import notes as nt
from perdure.core import volatile as vo
from perdure.core.machine.applying.commands import COMMANDS
from perdure.core.machine.applying.inputs import INPUTS
from perdure.core.machine.applying.notes import NOTES
from perdure.core.machine.applying.volatile import VOLATILE
from perdure.core.state import WorkflowState
from perdure.core.transition import Transition

Entry: TypeAlias = ev.AnyEvent | nt.AnyNote | vo.Volatile


def apply(state: WorkflowState, entry: Entry) -> None:
    """Change `state` as `entry` says. Entries of a run that is not the current one are the caller's mistake."""
    _APPLY[type(entry)](state, entry)


def apply_transition(state: WorkflowState, transition: Transition) -> None:
    """Apply everything a transition holds, in order."""
    for change in transition.runs:
        for event in change.events:
            _APPLY[type(event)](state, event)
        for note in change.notes:
            _APPLY[type(note)](state, note)
    if transition.outbox:
        if state.outgoing is None:
            state.outgoing = {}
        for message in transition.outbox:
            state.outgoing[message.request_id] = message


def in_order(events: Iterable[ev.AnyEvent], notes: Iterable[nt.AnyNote]) -> list[ev.AnyEvent | nt.AnyNote]:
    """Everything of one run in the order it was written: each note behind the event after which it was."""
    entries: list[tuple[int, int, ev.AnyEvent | nt.AnyNote]] = [(event.id, 0, event) for event in events]
    entries += [(note.after, note.id, note) for note in notes]
    return [entry for _, _, entry in sorted(entries, key=lambda item: item[:2])]


_APPLY: Final[dict[type, Callable[[WorkflowState, Any], None]]] = {**INPUTS, **COMMANDS, **NOTES, **VOLATILE}
