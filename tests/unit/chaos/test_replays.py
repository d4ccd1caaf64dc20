"""What strict replays of one seed's histories by both builds come to."""

from typing import Any

import pytest

from perdure.chaos.replays import Replays, judged

OLD: dict[str, Any] = {"workflow_id": "old", "run_id": "r1", "verdict": "ok"}
NEW: dict[str, Any] = {"workflow_id": "new", "run_id": "r2", "verdict": "ok"}
REFUSED = {
    **NEW,
    "verdict": "mismatch",
    "reason": "the code is older than the run: it does not ask for the change 'second look'",
}
MISMATCH = {"verdict": "mismatch", "reason": "arguments differ"}


@pytest.mark.rule("F19")
def test_both_builds_say_the_same_of_the_old_path() -> None:
    """The newer build reproduces both runs, the older one its own, and refuses the other."""
    found = judged([OLD, NEW], [OLD, REFUSED])
    assert found == Replays(2, 1, 1, [])
    assert Replays.of_data(found.as_data()) == found
    assert found + found == Replays(4, 2, 2, [])


@pytest.mark.parametrize(
    ("by_new", "by_old", "fault"),
    [
        ([OLD | MISMATCH, NEW], [OLD, REFUSED], "old: v2 does not reproduce it: arguments differ"),
        ([OLD, NEW], [OLD | MISMATCH, REFUSED], "old: v1 does not reproduce it: arguments differ"),
        ([OLD | {"verdict": "unknown"}, NEW], [OLD, REFUSED], "old: v2 does not reproduce it: unknown"),
        ([OLD, NEW], [OLD], "v2 was shown 2 histories, v1 1"),
        ([OLD, OLD], [OLD, OLD], "run r1 was exported twice"),
    ],
)
def test_what_is_not_reproduced_is_a_fault(by_new: list[Any], by_old: list[Any], fault: str) -> None:
    """A mismatch by either build, a history without code, one too many."""
    assert fault in judged(by_new, by_old).faults
