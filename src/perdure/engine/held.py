"""Starts kept back for a moment, so that their first decision can ride in the same commit: one timer for all of them."""

from typing import Final, Protocol

from perdure.engine.live import LiveWorkflow
from perdure.ports import Clock

HOLD_US: Final = 2_000
"""So long is a start kept back at most."""


class Releaser(Protocol):
    """The owner that kept a start back."""

    def release(self, live: LiveWorkflow) -> None: ...


class HeldStarts:
    """Releases every start that is still held when its time is up; those released before cost nothing more."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._young: list[tuple[Releaser, LiveWorkflow]] = []
        self._old: list[tuple[Releaser, LiveWorkflow]] = []
        self._armed = False

    def add(self, owner: Releaser, live: LiveWorkflow) -> None:
        self._young.append((owner, live))
        if not self._armed:
            self._armed = True
            self._clock.call_at(self._clock.now() + HOLD_US // 2, self._tick)

    def _tick(self) -> None:
        """Half the time has passed: what was there at the tick before has waited long enough."""
        for owner, live in self._old:
            if live.held is not None:
                owner.release(live)
        self._old = [entry for entry in self._young if entry[1].held is not None]
        self._young = []
        self._armed = bool(self._old)
        if self._armed:
            self._clock.call_at(self._clock.now() + HOLD_US // 2, self._tick)
