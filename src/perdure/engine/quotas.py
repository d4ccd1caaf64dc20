"""Quotas of new starts by origin. State and the instant in, a verdict out: no clock, no waiting.

Each origin has a bucket of its own (the generic cell rate algorithm: one number says how far ahead of its rate it is), so what floods one
leaves the others as they were.
"""

from collections.abc import Mapping
from math import ceil
from typing import Final

from perdure.core.admission import DEFAULT_ORIGIN, OriginQuota

ORIGINS_MAX: Final = 1_000
"""Origins without a quota of their own that are told apart at a time; what comes beyond shares one bucket until others are full again."""
LOOK_US: Final = 1_000_000
"""So often at most are full buckets looked for, to make room."""


class Bucket:
    """Lets `burst` through at once and then one every interval. Counts in nanoseconds, so that odd rates are kept to a billionth."""

    __slots__ = ("_ahead", "_due", "_interval", "rate")

    def __init__(self, quota: OriginQuota) -> None:
        self.rate = quota.starts_per_second
        self._interval = ceil(1_000_000_000 / quota.starts_per_second)
        burst = quota.burst or max(1, int(quota.starts_per_second))
        self._ahead = (burst - 1) * self._interval
        self._due = 0
        """When the next one would come at an even rate; up to `_ahead` before that is early enough."""

    def wait(self, now: int) -> int:
        """Microseconds until one is let through; 0: now."""
        return max(0, -((now * 1_000 + self._ahead - self._due) // 1_000))

    def take(self, now: int) -> None:
        """One has been let through."""
        self._due = max(self._due, now * 1_000) + self._interval

    def is_full(self, now: int) -> bool:
        """True when forgetting it changes nothing."""
        return self._due <= now * 1_000


class Quotas:
    """The buckets of all origins. One that has no quota of its own has one like `default`'s, if there is that."""

    def __init__(self, quotas: Mapping[str, OriginQuota]) -> None:
        self._named = {origin: Bucket(quota) for origin, quota in quotas.items()}
        self._usual = quotas.get(DEFAULT_ORIGIN)
        self._others: dict[str, Bucket] = {}
        self._rest = Bucket(self._usual) if self._usual is not None else None
        """Of those that found no room among the others."""
        self._looked_at = 0

    def __len__(self) -> int:
        """Buckets held."""
        return len(self._named) + len(self._others)

    def setting_of(self, origin: str) -> str:
        """The setting an origin's quota comes from."""
        return f"admission.origins.{origin if origin in self._named else DEFAULT_ORIGIN}.starts_per_second"

    def bucket(self, origin: str, now: int) -> Bucket | None:
        """Where starts of an origin are counted; None: they are not."""
        found = self._named.get(origin)
        if found is not None or self._usual is None:
            return found
        found = self._others.get(origin)
        if found is None:
            if len(self._others) >= ORIGINS_MAX and not self._made_room(now):
                return self._rest
            found = self._others[origin] = Bucket(self._usual)
        return found

    def _made_room(self, now: int) -> bool:
        if now - self._looked_at < LOOK_US:
            return False
        self._looked_at = now
        self._others = {origin: bucket for origin, bucket in self._others.items() if not bucket.is_full(now)}
        return len(self._others) < ORIGINS_MAX
