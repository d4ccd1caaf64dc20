"""The outside world of the workloads: it keeps its own books, so that the engine's can be held against them."""

import random

from perdure.sdk.activity import activity
from perdure.testing.workloads.promise import promise


class Ledger:
    """What the outside world did: one effect for one idempotency key, however often it is asked. Kept apart from the engine."""

    def __init__(self, chance: random.Random, *, fails: float = 0.0, forgets: float = 0.0) -> None:
        self._chance = chance
        self.fails = fails
        """Chance that a request fails before it did anything."""
        self.forgets = forgets
        """Chance that an effect happens and its answer is lost."""
        self.effects: dict[str, tuple[str, str]] = {}
        """Idempotency key → (operation, subject)."""
        self.absorbed = 0
        """Requests that came again with a key that is known."""

    def do(self, operation: str, subject: str) -> str:
        """One request of an activity to the outside world; its receipt. Raises `ConnectionError`, before or after the effect."""
        if self._chance.random() < self.fails:
            raise ConnectionError(f"{operation} could not be reached")
        key = activity.info().idempotency_key
        known = self.effects.get(key)
        if known is None:
            self.effects[key] = (operation, subject)
        else:
            promise(known == (operation, subject), f"key of {known} was used for {(operation, subject)}")
            self.absorbed += 1
        if self._chance.random() < self.forgets:
            raise ConnectionError(f"the answer of {operation} was lost")
        return f"{operation}:{subject}"

    def count(self, operation: str, subject: str) -> int:
        """How often something was really done."""
        return sum(effect == (operation, subject) for effect in self.effects.values())
