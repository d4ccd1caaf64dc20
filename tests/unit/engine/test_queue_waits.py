"""What tasks waited in their lines: percentiles by nearest rank over the last seconds, and when they will have fallen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.engine.queue_waits import LATEST, LINES_MAX, WINDOW_US, LineWaits, QueueWaits

NOW = 1_700_000_000_000_000
SECOND = 1_000_000
LIMIT = SECOND


def filled(*waits: int, every: int = 0) -> tuple[LineWaits, int]:
    line, now = LineWaits(LIMIT), NOW
    for wait in waits:
        line.add(wait, now)
        now += every
    return line, now


@pytest.mark.rule("O25")
@pytest.mark.parametrize(
    ("short", "long", "is_long"), [(0, 1, True), (98, 1, True), (99, 1, True), (100, 1, False), (100, 2, True), (400, 4, False)]
)
def test_one_in_a_hundred_may_be_longer(short: int, long: int, is_long: bool) -> None:
    """The 99th percentile, whichever came first; a wait of just the limit is not longer."""
    for waits in ((LIMIT,) * short + (LIMIT + 1,) * long, (LIMIT + 1,) * long + (LIMIT,) * short):
        line, now = filled(*waits)
        assert line.is_long(now) is is_long
        assert (line.p99(now) > LIMIT) is is_long


@pytest.mark.rule("O29")
@given(st.lists(st.tuples(st.integers(0, 2 * LIMIT), st.integers(0, WINDOW_US // 10)), min_size=1, max_size=2 * LATEST))
def test_what_is_told_is_when_it_ends(steps: list[tuple[int, int]]) -> None:
    """At the instant told it is not above the limit, and not for a microsecond before. That is within the window of the last wait."""
    line, now = LineWaits(LIMIT), NOW
    for wait, pause in steps:
        line.add(wait, now)
        assert line.is_long(now) == (line.p99(now) > LIMIT)
        now += pause
    if not line.is_long(now):
        return
    clear_at, p99 = line.verdict(now)
    assert p99 == line.p99(now) > LIMIT
    assert now < clear_at <= now + WINDOW_US
    assert line.is_long(clear_at - 1)
    assert not line.is_long(clear_at)


@pytest.mark.rule("O29")
def test_what_was_is_forgotten() -> None:
    """A window after the last claim nothing of it counts, however long the waits were."""
    line, now = filled(*(1_000 * SECOND,) * LATEST)
    assert line.is_long(now + WINDOW_US - 1)
    assert not line.is_long(now + WINDOW_US)
    assert line.p99(now + WINDOW_US) == line.count(now + WINDOW_US) == 0


def test_another_long_wait_is_heeded_after_a_verdict() -> None:
    """What was found is kept only until there is something new."""
    line, now = filled(LIMIT + 5)
    assert line.verdict(now) == (NOW + WINDOW_US, LIMIT + 5)
    line.add(LIMIT + 9, now + 7)
    assert line.verdict(now + 7) == (now + 7 + WINDOW_US, LIMIT + 9)


def test_waits_of_one_instant_are_forgotten_together() -> None:
    """Five long ones among two hundred, and a long one after: until that is gone there is no hundred to hide it in."""
    line, now = filled(*(LIMIT + 1,) * 5, *(0,) * 200)
    line.add(LIMIT + 1, now + 9)
    assert line.verdict(now + 9)[0] == now + 9 + WINDOW_US


def test_only_the_latest_are_held() -> None:
    """Of a line that is claimed from often, a bounded number; the rate is that of those."""
    line, now = filled(*range(3 * LATEST), every=1_000)
    assert line.count(now) == LATEST
    assert line.rate(now) == pytest.approx(1_000, rel=0.01)
    assert filled(*(0,) * 30)[0].rate(NOW) == 30 * SECOND / WINDOW_US


def test_lines_are_bounded_in_number() -> None:
    """Beyond the bound idle lines are forgotten, and new ones not measured while there are none such."""
    waits = QueueWaits(LIMIT)
    for n in range(LINES_MAX):
        waits.add(f"q{n}", "workflow", 0, NOW)
    waits.add("more", "workflow", 0, NOW + WINDOW_US - 1)
    assert waits.find("more", "workflow") is None
    waits.add("more", "workflow", 0, NOW + WINDOW_US)
    assert waits.find("more", "workflow") is not None
    assert len(waits) == 1
    assert waits.rate("more", NOW + WINDOW_US) > 0 == waits.rate("less", NOW)
