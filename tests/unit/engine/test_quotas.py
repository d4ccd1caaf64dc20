"""Buckets of new starts by origin: exact to the microsecond, apart from each other, bounded in number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.admission import RATE_MAX, AdmissionRules, OriginQuota
from perdure.engine.quotas import LOOK_US, ORIGINS_MAX, Bucket, Quotas

NOW = 1_700_000_000_000_000
SECOND = 1_000_000


def passed(bucket: Bucket, now: int, tries: int) -> int:
    """How many of so many tries at one instant are let through."""
    count = 0
    for _ in range(tries):
        if not bucket.wait(now):
            bucket.take(now)
            count += 1
    return count


@pytest.mark.rule("O24")
@pytest.mark.parametrize(("rate", "burst", "at_once"), [(10, 0, 10), (10, 3, 3), (0.5, 0, 1), (2.9, 0, 2), (1, 50, 50)])
def test_a_burst_and_then_one_every_interval(rate: float, burst: int, at_once: int) -> None:
    """A full bucket lets its burst through, one more after each interval and not a microsecond sooner, and the burst again when full."""
    bucket = Bucket(OriginQuota(starts_per_second=rate, burst=burst))
    assert passed(bucket, NOW, 100) == at_once
    wait = bucket.wait(NOW)
    assert wait == pytest.approx(SECOND / rate, abs=1)
    assert bucket.wait(NOW + wait - 1) == 1
    assert passed(bucket, NOW + wait, 100) == 1
    later = NOW + wait + 100 * SECOND
    assert bucket.is_full(later)
    assert passed(bucket, later, 100) == at_once


@pytest.mark.rule("O27")
@given(
    st.floats(min_value=0.001, max_value=RATE_MAX),
    st.integers(0, 1_000),
    st.lists(st.integers(0, 10 * SECOND), min_size=1, max_size=60),
)
def test_whoever_comes_back_when_told_is_let_in(rate: float, burst: int, pauses: list[int]) -> None:
    """At whatever instants it was asked before: after the wait it says it lets one through, just before it does not."""
    bucket, now = Bucket(OriginQuota(starts_per_second=rate, burst=burst)), NOW
    for pause in pauses:
        now += pause
        wait = bucket.wait(now)
        if wait:
            assert bucket.wait(now + wait - 1) == 1
            now += wait
        assert bucket.wait(now) == 0
        bucket.take(now)


@pytest.mark.rule("O24")
@given(st.floats(min_value=0.01, max_value=1_000), st.integers(1, 50), st.lists(st.integers(0, SECOND), max_size=200))
def test_never_more_than_burst_and_rate(rate: float, burst: int, pauses: list[int]) -> None:
    """In no stretch of time, whoever asks however often, are more let through than the burst and what the rate gives for the stretch."""
    bucket, now, let = Bucket(OriginQuota(starts_per_second=rate, burst=burst)), NOW, list[int]()
    for pause in pauses:
        now += pause
        let += [now] * passed(bucket, now, 3)
    for first in range(len(let)):
        for last in range(first, len(let)):
            assert last - first + 1 <= burst + (let[last] - let[first] + 1) * rate / SECOND


@pytest.mark.rule("O24")
def test_each_origin_has_a_bucket_of_its_own() -> None:
    """Named ones their own quota; each other one that of `default`; without a `default` the others have none."""
    slow, quick = OriginQuota(starts_per_second=1), OriginQuota(starts_per_second=5)
    quotas = Quotas({"benchmark": slow, "default": quick})
    counts = {}
    for origin in ("benchmark", "visitor", "synthetic", "default"):
        bucket = quotas.bucket(origin, NOW)
        assert bucket is not None
        counts[origin] = passed(bucket, NOW, 20)
    assert counts == {"benchmark": 1, "visitor": 5, "synthetic": 5, "default": 5}
    assert quotas.setting_of("benchmark") == "admission.origins.benchmark.starts_per_second"
    assert quotas.setting_of("visitor") == "admission.origins.default.starts_per_second"
    assert Quotas({"benchmark": slow}).bucket("visitor", NOW) is None


@pytest.mark.rule("O24")
def test_origins_are_bounded_in_number() -> None:
    """Made-up names beyond the bound share one bucket, until there is room again: a full bucket is forgotten, which changes nothing."""
    quotas = Quotas({"default": OriginQuota(starts_per_second=1, burst=2)})
    for n in range(ORIGINS_MAX):
        bucket = quotas.bucket(f"o{n}", NOW)
        assert bucket is not None
        bucket.take(NOW)
    one, other = quotas.bucket("new", NOW), quotas.bucket("newer", NOW)
    assert one is other is not None
    assert len(quotas) == ORIGINS_MAX + 1
    assert passed(one, NOW, 10) == 2
    assert quotas.bucket("new", NOW + LOOK_US) is not one
    assert len(quotas) == 2


@pytest.mark.parametrize("given_", [{}, {"starts_per_second": -1}, {"starts_per_second": float("nan")}, {"burst": 3}])
def test_a_quota_has_a_rate(given_: dict[str, float]) -> None:
    """Anything else is no quota, and says so."""
    with pytest.raises(ValueError, match="starts_per_second"):
        OriginQuota(**given_)  # type: ignore[arg-type]


def test_rules_name_what_a_start_can_be_from() -> None:
    """An origin no start could have is a mistake; nothing set lets everything in."""
    with pytest.raises(ValueError, match="control character"):
        AdmissionRules(origins={"a\n": OriginQuota(starts_per_second=1)})
    assert not AdmissionRules().is_set
    assert AdmissionRules(outbox_max=1).is_set
