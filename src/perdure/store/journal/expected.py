"""Whether a line that was read at a known place is the one that was written there.

A right checksum says that a line is whole, not that it is the right line: files that were exchanged, or lines that were taken out, can put
a whole line of the same length in its place. Such a line must never pass for the history of the run that was asked for.
"""

from perdure.core.transition import RunChange, Transition
from perdure.store.journal.format import BadLine


class Expected:
    """The lines of one workflow id, looked at one after the other."""

    def __init__(self, namespace: str, workflow_id: str) -> None:
        self._key = (namespace, workflow_id)
        self._reached: dict[str, tuple[int, int]] = {}
        """Numbers of the last event and the last note of each run; 0 = it had none yet."""

    def own(self, transition: Transition | None) -> Transition:
        """The transition, if it is of the workflow id. Raises `BadLine`."""
        if transition is None or (transition.namespace, transition.workflow_id) != self._key:
            raise BadLine("another line stands in its place")
        return transition

    def follow(self, transition: Transition) -> None:
        """Raises `BadLine` when numbers of a run do not follow those of the lines before. A run's first line follows whatever was."""
        follows = [self._follows(change) for change in transition.runs]
        if not all(follows):
            raise BadLine("its numbers do not go on from the line before it")

    def _follows(self, change: RunChange) -> bool:
        before = self._reached.get(change.run_id)
        event, note = before or (0, 0)
        first_event = change.events[0].id if change.events else event + 1
        first_note = change.notes[0].id if change.notes else note + 1
        self._reached[change.run_id] = (
            change.events[-1].id if change.events else event,
            change.notes[-1].id if change.notes else note,
        )
        return before is None or (first_event == event + 1 and first_note == note + 1)
