"""What meets a request, decided by the seed, what is asked for and how often it was: a third of first deliveries go wrong.

Half of these before the effect (503), half after it (the connection is dropped without an answer). Pure. No fate changes whether an
effect is *right*, only whether it is done now, how long it takes and whether its answer arrives.
"""

from dataclasses import dataclass
from typing import Final

from perdure.demo.faults import share

SLOW_MAX_S: Final = 0.3
"""The longest delay before or after an effect."""
FORGETFUL_DELIVERIES: Final = 2
"""Answers may be lost up to this delivery; the next arrives."""


@dataclass(frozen=True)
class Fate:
    """Of one delivery. Delays are seconds: before the work, and between the work and its answer."""

    fails: bool = False
    forgets: bool = False
    delay_before: float = 0.0
    delay_after: float = 0.0


KIND: Final = Fate()


def fate(seed: int, operation: str, brief_id: str, item: str, delivery: int) -> Fate:
    """Of the `delivery`-th time (from 1) that this is asked for."""

    def chance(what: str) -> float:
        return share(seed, what, operation, brief_id, item, delivery)

    luck = chance("luck")
    first = delivery == 1
    return Fate(
        fails=first and luck < 1 / 6,
        forgets=1 / 6 <= luck < 1 / 3 if first else delivery <= FORGETFUL_DELIVERIES and luck < 1 / 8,
        delay_before=SLOW_MAX_S * chance("how slow") if chance("slow") < 1 / 4 else 0.0,
        delay_after=SLOW_MAX_S * chance("how late") if chance("late") < 1 / 4 else 0.0,
    )
