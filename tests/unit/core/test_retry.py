"""Retry arithmetic: never early, never without end, never an overflow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.retry import DELAY_MAX_S, RetryPolicy, retry_delay

FAR = [35, 65, 1_024, 1_025, 10**6, 2**63]
chances = st.floats(0, 1, exclude_max=True)
policies = st.builds(
    RetryPolicy,
    initial=st.floats(0, 1e9),
    factor=st.floats(1, 1e9),
    max_interval=st.floats(0, 1e12),
    jitter=st.floats(0, 1),
)


def test_delays_of_the_default_policy() -> None:
    """1, 2, 4 … up to 100 s, spread upwards by at most a fifth."""
    assert [retry_delay(RetryPolicy(), attempt) for attempt in range(1, 10)] == [1, 2, 4, 8, 16, 32, 64, 100, 100]
    assert retry_delay(RetryPolicy(), 1, 0.5) == 1.1


@pytest.mark.scenario(67)
@pytest.mark.parametrize("attempt", FAR)
@pytest.mark.parametrize("factor", [1.0, 2.0, 2, 1e308, float("inf")])
def test_far_attempts_wait_the_longest_interval(attempt: int, factor: float) -> None:
    """However often it was tried, the delay is the policy's bound: no zero, no overflow, no centuries."""
    policy = RetryPolicy(initial=1.0, factor=factor, max_interval=100.0, jitter=0.0)
    assert retry_delay(policy, attempt) == (1.0 if factor == 1 else 100.0)


@pytest.mark.scenario(67)
@pytest.mark.parametrize("attempt", FAR)
def test_without_a_bound_a_delay_is_a_year_at_most(attempt: int) -> None:
    """An unbounded policy is bounded all the same."""
    assert retry_delay(RetryPolicy(max_interval=float("inf")), attempt, 0.999) == DELAY_MAX_S


@pytest.mark.scenario(68)
@given(policies, st.integers(1, 10**9), chances)
def test_never_earlier_than_the_policy_says(policy: RetryPolicy, attempt: int, chance: float) -> None:
    """Jitter only adds, at most its fraction; later attempts never wait less."""
    base = retry_delay(policy, attempt)
    delay = retry_delay(policy, attempt, chance)
    assert base <= delay <= base * (1 + policy.jitter) <= DELAY_MAX_S * 2
    assert delay <= DELAY_MAX_S
    assert retry_delay(policy, attempt + 1) >= base


@pytest.mark.scenario(68)
@given(policies, st.integers(1, 10**9), chances)
def test_first_delay_is_the_initial_one(policy: RetryPolicy, attempt: int, chance: float) -> None:
    """The first retry waits `initial`, unless a bound is shorter; the same chance gives the same delay."""
    assert retry_delay(policy, 1) == min(policy.initial, policy.max_interval, DELAY_MAX_S)
    assert retry_delay(policy, attempt, chance) == retry_delay(policy, attempt, chance)
