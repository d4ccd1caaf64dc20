"""Retry policy and its arithmetic. Pure: the same attempt and the same chance give the same delay, and nothing overflows."""

from typing import Final

from msgspec import Struct

DELAY_MAX_S: Final = 365 * 86400.0
"""No delay is longer than a year, whatever the policy says."""


class RetryPolicy(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """How an activity or workflow is tried again, as it is written down. Durations are seconds, as authors write them.

    `initial` is the delay after the first attempt, multiplied by `factor` (≥ 1) per attempt up to `max_interval`; `max_attempts` 0 means
    unlimited; `jitter` spreads a delay upwards by at most that fraction, so that no attempt comes earlier than the policy says;
    `non_retryable` names exception classes after which there is no further attempt; their subclasses count.
    """

    initial: float = 1.0
    factor: float = 2.0
    max_interval: float = 100.0
    max_attempts: int = 0
    jitter: float = 0.2
    non_retryable: tuple[str, ...] = ()


def retry_delay(policy: RetryPolicy, attempt: int, chance: float = 0.0) -> float:
    """Seconds to wait after attempt number `attempt` (1-based) failed; `chance` in [0, 1) places it within the jitter."""
    cap = min(policy.max_interval, DELAY_MAX_S)
    base = min(policy.initial, cap)
    if base > 0 and policy.factor > 1:
        try:
            base = min(cap, base * float(policy.factor) ** max(0, attempt - 1))
        except OverflowError:
            base = cap
    return min(DELAY_MAX_S, base * (1.0 + policy.jitter * chance))
