"""Durations and instants as authors write them, and as integer microseconds, which is all the rest of the house knows."""

from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from perdure.core.errors import InvalidArgument

Duration: TypeAlias = float | timedelta
"""Seconds, or a timedelta."""

DURATION_MAX: Final = timedelta(days=36_525)
"""A hundred years; anything longer is a mistake in units."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)

_SECONDS_MAX: Final = DURATION_MAX.total_seconds()
_FIRST_US: Final = (datetime.min.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
_LAST_US: Final = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MICROSECOND


def microseconds(value: object, what: str) -> int:
    """A duration in integer microseconds, rounded up; may be below zero (a sleep until an instant that has passed).

    Raises `InvalidArgument` naming `what` for anything but a finite number or timedelta of at most a hundred years.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, timedelta)):
        raise InvalidArgument(f"{what} must be seconds or a timedelta, not {value!r}")
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if not -_SECONDS_MAX <= seconds <= _SECONDS_MAX:  # NaN is neither
        raise InvalidArgument(f"{what} must be a finite number of seconds and at most 100 years, not {value!r}")
    if isinstance(value, timedelta):
        return value // MICROSECOND
    return value * 1_000_000 if isinstance(value, int) else _rounded_up(seconds)


def _rounded_up(seconds: float) -> int:
    # By way of whole nanoseconds, so that 0.07 is 70,000 and not 70,001: its binary value lies a hair above.
    whole = -(-round(seconds * 1e9) // 1_000)
    return 1 if whole == 0 and seconds > 0 else whole


def length(value: object, what: str) -> int:
    """As `microseconds`, but also refuses what is below zero."""
    result = microseconds(value, what)
    if result < 0 or (isinstance(value, float) and value < 0):
        raise InvalidArgument(f"{what} must not be negative, not {value!r}")
    return result


def bound(value: object, what: str) -> int:
    """A time limit in microseconds, 0 for None (no limit). A limit of zero would let nothing run and is refused."""
    if value is None:
        return 0
    result = length(value, what)
    if result == 0:
        raise InvalidArgument(f"{what} must be more than zero; None means no limit")
    return result


def instant(value: object, what: str) -> int:
    """An aware datetime as microseconds since the epoch; raises `InvalidArgument` for a naive one, which would mean another time elsewhere."""
    if not isinstance(value, datetime):
        raise InvalidArgument(f"{what} must be a datetime, not {value!r}")
    if value.utcoffset() is None:
        raise InvalidArgument(f"{what} must be an aware datetime (with a timezone), not {value!r}")
    return (value - EPOCH) // MICROSECOND


def aware(instant_us: int) -> datetime:
    """Microseconds since the epoch as an aware UTC datetime; what lies beyond the years one can have is their last or first instant.

    Nothing made by this package lies there, but what others made is shown too, and must not break what shows it.
    """
    return EPOCH + timedelta(microseconds=min(max(instant_us, _FIRST_US), _LAST_US))
