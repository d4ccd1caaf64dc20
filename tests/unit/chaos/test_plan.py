"""What is run when somebody asks for an evidence run."""

import pytest

from perdure.chaos.run import Plan
from perdure.chaos.scale import FULL


@pytest.mark.parametrize(
    ("plan", "seeds", "runs"),
    [
        (Plan(), range(1, 11), 30),
        (Plan(seed=4), range(4, 5), 30),
        (Plan(seed=4, seeds=2), range(4, 6), 30),
        (Plan(seeds=3, runs=12), range(1, 4), 12),
        (Plan(short=True), range(1, 2), 10),
        (Plan(short=True, seeds=2, runs=5), range(1, 3), 5),
    ],
)
def test_seeds_and_runs(plan: Plan, seeds: range, runs: int) -> None:
    """Ten seeds of thirty runs, unless one seed, another number or the short form is asked for."""
    assert plan.chosen == seeds
    assert plan.scale.runs == runs


@pytest.mark.rule("F14")
def test_a_seed_shown_again_is_the_same_seed() -> None:
    """Whether a seed is crowded depends on nothing but its number."""
    assert [seed for seed in range(1, 31) if FULL.is_crowded(seed)] == [1, 11, 21]
    assert sum(map(FULL.runs_of, range(1, 11))) == 342
    assert Plan(timeout=7).scale.seed_s == 7
