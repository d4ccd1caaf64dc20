"""What an operator sets about new starts from outside: how many of each origin, and how much may wait before no more are let in.

Values alone. What measures and refuses is `engine.admission`; nothing here concerns what already runs.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final

from msgspec import Meta, Struct, field

from perdure.core.ids import fault_of_id

RATE_MAX: Final = 1_000_000.0
"""Starts a second; more than any node takes, so that it stands for no quota at all."""
DEFAULT_ORIGIN: Final = "default"
"""The origin of a start that names none, and the quota of every origin that has none of its own."""


class OriginQuota(Struct, frozen=True, kw_only=True):
    """How many starts of one origin are let in: `burst` at once, and `starts_per_second` in the long run."""

    starts_per_second: Annotated[
        float, Meta(gt=0, le=RATE_MAX, description="starts of that origin let in a second; `default`: of each origin not named")
    ] = 0.0
    burst: Annotated[
        int, Meta(ge=0, description="how many of them may come at once; 0: as many as in one second, and one at least")
    ] = 0

    def __post_init__(self) -> None:
        if not self.starts_per_second:
            raise ValueError("starts_per_second is missing: a quota has one")
        if not 0 < self.starts_per_second <= RATE_MAX or self.burst < 0:
            raise ValueError(f"starts_per_second must be above 0 and at most {RATE_MAX:,.0f}, and burst not below 0")


class AdmissionRules(Struct, frozen=True, kw_only=True):
    """When a new start is refused with `ResourceExhausted`. Nothing is limited until it is set."""

    queue_wait_p99_s: Annotated[
        float,
        Meta(ge=0, description="no new starts for a queue whose tasks wait longer for a worker (99th percentile); 0: no limit"),
    ] = 0.0
    queue_depth_max: Annotated[
        int, Meta(ge=0, description="no new starts for a queue in which so many tasks wait for a worker; 0: no limit")
    ] = 0
    outbox_max: Annotated[
        int, Meta(ge=0, description="no new starts while so many messages from run to run are on their way; 0: no limit")
    ] = 0
    origins: Mapping[str, OriginQuota] = field(default_factory=lambda: MappingProxyType[str, OriginQuota]({}))

    def __post_init__(self) -> None:
        if not (self.queue_wait_p99_s >= 0 and self.queue_depth_max >= 0 and self.outbox_max >= 0):
            raise ValueError("queue_wait_p99_s, queue_depth_max and outbox_max must not be below 0")
        for name in self.origins:
            if (fault := fault_of_id(name)) is not None:
                raise ValueError(f"origins: an origin's name {fault}")

    @property
    def is_set(self) -> bool:
        """True when any start may be refused."""
        return bool(self.origins or self.queue_wait_p99_s or self.queue_depth_max or self.outbox_max)


OPEN_DOOR: Final = AdmissionRules()
"""Every start is let in."""
