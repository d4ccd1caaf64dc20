"""Every bound of the wire between a node and other processes, with its name and unit."""

from perdure.runtime.positive import PositiveBounds


class WireLimits(PositiveBounds, frozen=True, kw_only=True):
    """At a bound whoever asked is told which it was; a connection that breaks one is closed with the reason."""

    connections_max: int = 1_000
    """Open at once; one more is refused with `ResourceExhausted`."""
    sessions_max: int = 2_000
    """Kept at once, those without a connection too: past it the one that has been without for longest is forgotten."""
    session_kept_s: float = 60.0
    """So long is a session kept without a connection or a beat: whoever comes back later asks as if for the first time."""
    lost_after_s: float = 0.25
    """So long after its connection a worker may be back and go on as if nothing had been; then its workflow claims end."""
    asks_max: int = 50_000
    """Unanswered asks of one session: `ResourceExhausted`."""
    kept_bytes_max: int = 256 * 1024 * 1024
    """Answers of one session that were sent and are not acknowledged; past it its connection is closed."""
    unsent_bytes_max: int = 64 * 1024 * 1024
    """What waits to be sent on one connection: past it further results and histories wait, and who takes seconds over one frame is dropped."""
    subscriptions_max: int = 1_000
    """Subscriptions of one session: `LimitExceeded`."""
    workers_max: int = 100
    """Workers that speak through one session: `LimitExceeded`."""
    unclaimed_max: int = 10_000
    """Deliveries of one worker of which it is remembered that they are not claimed yet; the oldest are forgotten first."""
    rows_max: int = 1_000
    """Runs of one page: `InvalidArgument`."""
    hello_s: float = 5.0
    """So long may a new connection say nothing."""
    flush_s: float = 5.0
    """So long does a node that stops wait for answers under way, and for them to be read."""


WIRE_LIMITS = WireLimits()
