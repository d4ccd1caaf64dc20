"""Which frames of a session have come: a frame that comes twice is taken once, and what is acknowledged has no gap before it."""

from typing import Final

from perdure.core.errors import LimitExceeded

GAPS_MAX: Final = 1_000
"""Frames that may be missing before one that has come."""


class Arrivals:
    """Numbers that have come in one direction."""

    __slots__ = ("_last", "_missing")

    def __init__(self) -> None:
        self._last = 0
        self._missing: set[int] = set()

    @property
    def ack(self) -> int:
        """Every number up to this one has come."""
        return self._last if not self._missing else min(self._missing) - 1

    def begin(self, number: int) -> None:
        """A connection's first frame: what is missing of earlier ones will not come any more."""
        self._last = number
        self._missing.clear()

    def is_new(self, number: int) -> bool:
        """Note that a frame has come; false when it had come before. Raises `LimitExceeded` when too many are missing before it."""
        if number == self._last + 1:
            self._last = number
            return True
        if number <= self._last:
            if number not in self._missing:
                return False
            self._missing.discard(number)
            return True
        if number - self._last + len(self._missing) > GAPS_MAX:
            raise LimitExceeded(f"frame {number} came after frame {self._last}: more than {GAPS_MAX} are missing (gaps_max)")
        self._missing.update(range(self._last + 1, number))
        self._last = number
        return True
