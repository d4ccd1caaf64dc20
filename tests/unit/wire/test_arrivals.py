"""Frame numbers: each counts once, whatever order they come in, and what is acknowledged has no gap before it."""

import random

import pytest

from perdure.core.errors import LimitExceeded
from perdure.wire.arrivals import GAPS_MAX, Arrivals


def test_any_order_any_number_of_times() -> None:
    """Frames shuffled within a window and doubled: each is new exactly once, and the acknowledgement is what a set would say."""
    for seed in range(50):
        chance = random.Random(seed)
        numbers = [n for n in range(1, 200) for _ in range(chance.choice((1, 1, 2)))]
        numbers = [n for _, n in sorted((n + chance.random() * 20, n) for n in numbers)]
        arrivals, seen = Arrivals(), set[int]()
        for number in numbers:
            assert arrivals.is_new(number) == (number not in seen), seed
            seen.add(number)
            assert arrivals.ack == next(n for n in range(1, 1_000) if n not in seen) - 1, seed


def test_a_connection_begins_where_it_says() -> None:
    """What is missing of an earlier connection is not waited for."""
    arrivals = Arrivals()
    assert arrivals.is_new(1)
    assert arrivals.is_new(5)
    assert arrivals.ack == 1
    arrivals.begin(9)
    assert arrivals.ack == 9
    assert not arrivals.is_new(3)
    assert arrivals.is_new(10)


def test_too_large_a_gap_is_refused() -> None:
    """The set of what is missing is bounded."""
    arrivals = Arrivals()
    assert arrivals.is_new(GAPS_MAX)
    with pytest.raises(LimitExceeded, match="gaps_max"):
        arrivals.is_new(GAPS_MAX + 3)
