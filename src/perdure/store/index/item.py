"""What an index is told of a workflow id, in order."""

from typing import NamedTuple, TypeAlias

from perdure.core.transition import Transition

Key: TypeAlias = tuple[str, str]
"""(namespace, workflow id)."""


class Place(NamedTuple):
    """One line of the journal: its segment, the byte where it begins, its length with the newline."""

    segment: int
    offset: int
    length: int

    def holds(self, segment: int, offset: int) -> bool:
        """True when that byte is one of the line's."""
        return self.segment == segment and self.offset <= offset < self.offset + self.length


class Written(NamedTuple):
    """A transition is durable, in this place."""

    transition: Transition
    place: Place


class Parked(NamedTuple):
    """Nothing will happen to the workflow id by itself before `wake_at` (microseconds; 0 = ever)."""

    wake_at: int


class Damaged(NamedTuple):
    """Part of the run's history is lost: it is listed as quarantined, also when it has closed, unless it was terminated and that is whole."""

    run_id: str
    end_lost: bool = False
    """What is lost holds the run's last entry."""


Item: TypeAlias = Written | Parked | Damaged
"""One thing an index is told."""
