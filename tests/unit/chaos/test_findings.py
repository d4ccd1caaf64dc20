"""All seeds together: sums, what they are held to, and the table."""

import json

import pytest

from perdure.chaos.findings import Findings, SeedFindings
from perdure.chaos.replays import Replays
from perdure.chaos.scale import FULL, SHORT
from perdure.chaos.show import headline, markdown
from perdure.testing.audit.pipelines import Counts, Verdict, Violation


def seed(number: int, *, replays: Replays | None = None, violations: tuple[Violation, ...] = (), **counts: int) -> SeedFindings:
    there = Counts(runs=3, completed=3, old_path=2, new_path=1, worker_kills=20, server_kills=2, deploys=1, unheard=1)
    for name, value in counts.items():
        setattr(there, name, value)
    return SeedFindings(number, 10.0, Verdict(there, list(violations)), replays or Replays(3, 2, 1))


def test_sums_and_maxima() -> None:
    """Counts add up; of the most in one deploy the greater counts."""
    found = Findings([seed(1, in_flight_at_deploy_max=60), seed(2, in_flight_at_deploy_max=9)])
    assert (found.counts.runs, found.counts.in_flight_at_deploy_max) == (6, 60)
    assert found.replays == Replays(6, 4, 2)
    assert found.ok
    assert "6 of 6 runs ended once" in headline(found)
    assert json.loads(json.dumps(found.as_data()))["ok"]


@pytest.mark.rule("F14")
@pytest.mark.rule("F18")
def test_ten_seeds_are_held_to_their_numbers() -> None:
    """At least 165 workers and 20 nodes killed, ten deploys, 55 runs in flight in one, a duplicate whose first answer died."""
    due = FULL.due_of_all(10)
    assert due["worker_kills"] >= 165
    assert (due["server_kills"], due["deploys"], due["in_flight_at_deploy_max"], due["unheard"]) == (20, 10, 55, 1)
    assert FULL.due_of_all(9) == {}
    assert SHORT.due_of_all(1)["server_kills"] == 2
    seeds = [seed(number, in_flight_at_deploy_max=60) for number in range(1, 11)]
    assert Findings(seeds, due).ok
    seeds[3].verdict.counts.worker_kills = 0
    seeds[4].verdict.counts.worker_kills = 0
    assert Findings(seeds, due).faults == [
        "it proves too little: worker_kills is 160 over all seeds, should be 170 at least",
    ]


def test_what_is_wrong_is_said_with_its_seed() -> None:
    """Violations, replays, and numbers of replays that do not fit the histories."""
    found = Findings(
        [
            seed(1, violations=(Violation("b", "is lost"),)),
            seed(2, replays=Replays(2, 1, 1, ["b: v2 does not reproduce it"])),
            seed(3, replays=Replays(3, 1, 2)),
        ]
    )
    assert found.faults == [
        "seed 1: b: is lost",
        "seed 2: b: v2 does not reproduce it",
        "seed 2: of 3 runs 2 were reproduced by v2, 2 were shown to v1",
        "seed 2: v1 refused 1 histories on the new path and reproduced 1 on the old, where 1 and 2 are",
        "seed 3: v1 refused 2 histories on the new path and reproduced 1 on the old, where 1 and 2 are",
    ]
    assert "5 faults" in headline(found)


def test_nothing_is_no_success() -> None:
    """No seeds, no verdict."""
    assert Findings([]).faults == ["there is nothing to judge"]


def test_a_page_can_hold_the_table() -> None:
    """In Markdown: a line a seed, then the sums, then the verdict."""
    text = markdown(Findings([seed(1), seed(2)]))
    assert text.count("\n| 1 |") == 1
    assert "| runs started | 6 |" in text
    assert text.endswith("nothing lost, nothing doubled, 20 s.")
