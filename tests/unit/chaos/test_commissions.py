"""Workloads of trials are decided by their seed, and hold what a trial needs."""

import pytest

from perdure.chaos.commissions import PATIENCE_S, commissions


def test_the_seed_decides() -> None:
    """The same seed gives the same commissions, more never change the ones before, another seed gives others."""
    assert commissions(1, 30) == commissions(1, 30)
    assert commissions(1, 40)[:30] == commissions(1, 30)
    assert [c.answer for c in commissions(1, 30)] != [c.answer for c in commissions(2, 30)]


@pytest.mark.rule("F15")
@pytest.mark.rule("F16")
def test_a_run_of_ten_seeds_holds_the_shares_it_claims() -> None:
    """About a fifth of answers is withheld, about a seventh sent twice, some briefs are declined or never answered."""
    every = [commission for seed in range(1, 11) for commission in commissions(seed, 30)]
    withheld, twice = sum(c.withheld for c in every), sum(c.twice for c in every)
    assert 45 <= withheld <= 80
    assert 35 <= twice <= 70
    assert {c.answer for c in every} == {"approve", "decline", "silence"}
    assert {c.when for c in every} == {"early", "amid", "after"}
    assert all(c.answer != "silence" and c.when == "early" and c.brief.patience_s == PATIENCE_S for c in every if c.withheld)


@pytest.mark.parametrize("seed", range(1, 30))
def test_every_seed_has_what_its_audit_demands(seed: int) -> None:
    """Even ten runs: someone withheld, someone sent twice, some early, some late."""
    few = commissions(seed, 10)
    assert any(c.withheld for c in few)
    assert any(c.twice for c in few)
    assert sum(c.when == "early" for c in few) >= 3
    assert any(c.when == "after" for c in few)


@pytest.mark.rule("F10")
@pytest.mark.parametrize("seed", [1, 11, 21])
def test_a_crowd_is_in_flight_when_its_deploy_begins(seed: int) -> None:
    """At least 55 of 72 are handed in before it, and none of these can end before it."""
    early = [c for c in commissions(seed, 72, crowded=True) if c.when == "early"]
    assert len(early) >= 55
    assert all(c.answer != "silence" for c in early)
