"""Where transitions lie: for each workflow id its lines, 16 bytes a line, in memory. Holds places only, never contents."""

from array import array
from collections.abc import Iterator
from typing import Final, NamedTuple

_OFFSET_BITS: Final = 40
_OFFSET_MASK: Final = (1 << _OFFSET_BITS) - 1


class Place(NamedTuple):
    """One line: its segment, the byte where it begins, its length with the newline."""

    segment: int
    offset: int
    length: int


class LineIndex:
    """Places of transitions by (namespace, workflow id), in the order they were committed."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], array[int]] = {}

    def add(self, workflow: tuple[str, str], segment: int, offset: int, length: int) -> None:
        """Note the place of a workflow id's next transition."""
        places = self._places.get(workflow)
        if places is None:
            places = self._places[workflow] = array("Q")
        places.append(segment << _OFFSET_BITS | offset)
        places.append(length)

    def holds(self, workflow: tuple[str, str]) -> bool:
        """True when there is any transition of the workflow id."""
        return workflow in self._places

    def places(self, workflow: tuple[str, str], first: int = 0, last: int | None = None) -> Iterator[Place]:
        """Places of a workflow id's transitions number `first` to `last` (all of them without it), counted from 0."""
        places = self._places.get(workflow)
        if places is None:
            return
        end = len(places) // 2 if last is None else last + 1
        for index in range(2 * first, 2 * end, 2):
            where = places[index]
            yield Place(where >> _OFFSET_BITS, where & _OFFSET_MASK, places[index + 1])
