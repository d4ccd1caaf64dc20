"""The owner's time, as an asker knows it: its own clock moved by what frames say, never ahead of the owner's."""

from typing import Final

from perdure.ports import Clock

WINDOW_US: Final = 30_000_000
"""What a frame said counts for this long and up to twice as long: the two clocks do not run alike for ever."""


class OwnerTime:
    """Learns from every frame. A frame's time is that of its making: the owner is at least so far ahead of here as it says, and the most
    that any frame of late has said is the nearest to the truth."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._now = 0
        self._since = 0
        self._ahead: int | None = None
        self._before: int | None = None

    def heard(self, owner: int) -> None:
        """A frame that was made at `owner` has come."""
        here = self._clock.now()
        ahead = owner - here
        if self._ahead is None or here - self._since > WINDOW_US:
            self._before, self._ahead, self._since = self._ahead, ahead, here
        elif ahead > self._ahead:
            self._ahead = ahead

    def forget(self) -> None:
        """Another node speaks from here on."""
        self._ahead = self._before = None

    def now(self) -> int:
        """Microseconds. Never goes back; this machine's clock while no frame has come."""
        ahead = self._ahead or 0
        if self._before is not None and self._before > ahead:
            ahead = self._before
        now = self._clock.now() + ahead
        if now > self._now:
            self._now = now
        return self._now
