"""What goes wrong, and when: the unkind world of the demo, decided by a seed.

Pure: the same seed, operation, order and delivery always meet the same fate, so a run can be told again. No fault ever changes
whether an effect is *right*, only whether it is done now, how long it takes and whether its answer arrives.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

MODES: Final = ("slow", "failing", "forgetful")
"""`slow` delays some answers, `failing` answers a third of first deliveries with 503, `forgetful` does the work and loses the reply."""


def share(*parts: object) -> float:
    """A number in [0, 1) that depends on nothing but `parts`."""
    digest = blake2b("\0".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


@dataclass(frozen=True)
class Fate:
    """What meets one delivery. Delays are seconds: one before the work, one between the work and its answer."""

    fails: bool = False
    forgets: bool = False
    delay_before: float = 0.0
    delay_after: float = 0.0


@dataclass(frozen=True)
class FaultPlan:
    """Which deliveries go wrong, under `seed`, with the given `modes` in force."""

    seed: int
    modes: frozenset[str] = field(default_factory=lambda: frozenset(MODES))

    @classmethod
    def of(cls, seed: int, modes: Iterable[str]) -> "FaultPlan":
        """Raises ValueError for a mode there is none of."""
        chosen = frozenset(modes)
        if unknown := chosen - set(MODES):
            raise ValueError(f"no fault mode {', '.join(sorted(unknown))}; there are {', '.join(MODES)}")
        return cls(seed, chosen)

    def fate(self, operation: str, order_id: str, delivery: int) -> Fate:
        """The fate of the `delivery`-th time (from 1) that this operation is asked for this order."""

        def chance(what: str) -> float:
            return share(self.seed, what, operation, order_id, delivery)

        slow = "slow" in self.modes
        return Fate(
            fails="failing" in self.modes and delivery == 1 and chance("fail") < 1 / 3,
            forgets="forgetful" in self.modes and delivery <= 2 and chance("forget") < 1 / 4,
            delay_before=0.2 * chance("how slow") if slow and chance("slow") < 1 / 3 else 0.0,
            delay_after=0.2 * chance("how late") if slow and chance("late") < 1 / 3 else 0.0,
        )

    def refuses_to_ship(self, order_id: str) -> bool:
        """True for the orders, about one in eight, that shipping never takes: their address does not exist."""
        return share(self.seed, "address", order_id) < 1 / 8
