"""Durations and instants: exact, rounded up, refused when they make no sense."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import InvalidArgument
from perdure.sdk.duration import DURATION_MAX, aware, bound, instant, length, microseconds


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        (3, 3_000_000),
        (0.07, 70_000),
        (2.3, 2_300_000),
        (0.0000001, 1),
        (1e-12, 1),
        (1.0000005, 1_000_001),
        (-0.5, -500_000),
        (timedelta(milliseconds=2), 2_000),
        (timedelta(days=-1), -86_400_000_000),
        (DURATION_MAX, 3_155_760_000_000_000),
        (3_155_760_000, 3_155_760_000_000_000),
    ],
)
def test_microseconds(value, expected):
    """Seconds and timedeltas become whole microseconds, never fewer than asked for."""
    assert microseconds(value, "x") == expected


@given(st.floats(min_value=0, max_value=1e9))
def test_microseconds_never_come_early(seconds):
    """To within a nanosecond, no float is rounded down, nor up by more than one microsecond."""
    assert -0.001 <= microseconds(seconds, "x") - seconds * 1e6 <= 1.001 + seconds * 1e-6


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        1e300,
        10**400,
        3_155_760_001,
        DURATION_MAX + timedelta.resolution * 10,
        True,
        "3",
        None,
    ],
)
def test_what_is_no_duration(value):
    """NaN, infinity, more than 100 years and other types are refused by name."""
    with pytest.raises(InvalidArgument, match=r"^heartbeat must be"):
        microseconds(value, "heartbeat")


@pytest.mark.parametrize("value", [-1, -0.001, -1e-12, timedelta(microseconds=-1)])
def test_negative_lengths_are_refused(value):
    """A length of time is not negative, by however little."""
    with pytest.raises(InvalidArgument):
        length(value, "x")


def test_bounds():
    """None is no limit; zero would let nothing run."""
    assert bound(None, "x") == 0
    assert bound(1, "x") == 1_000_000
    with pytest.raises(InvalidArgument, match="None means no limit"):
        bound(0, "x")


def test_instants():
    """An aware datetime is an instant in any timezone; a naive one and a date are not."""
    when = datetime(2026, 3, 1, 12, 0, 0, 250, tzinfo=timezone(timedelta(hours=2)))
    assert instant(when, "x") == 1_772_359_200_000_250
    assert aware(instant(when, "x")) == when
    assert aware(0) == datetime(1970, 1, 1, tzinfo=UTC)
    for wrong in (datetime(2026, 3, 1), when.date(), 3.0):  # noqa: DTZ001
        with pytest.raises(InvalidArgument):
            instant(wrong, "x")


@pytest.mark.parametrize(("at", "year"), [(2**63, 9999), (2**70, 9999), (-(2**70), 1)])
def test_instants_beyond_all_years(at, year):
    """An instant no datetime can say is shown as the nearest one."""
    assert aware(at).year == year
