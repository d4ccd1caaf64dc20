"""Limits nobody is refused for: how long ids are remembered, how often a close is sent back, what is noted of attempts and heartbeats."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.core import commands as cm
from perdure.core.limits import Limits
from perdure.core.requests import ActivitySucceeded, Commands
from perdure.testing.machine.story import Story, text

Lower = Callable[..., None]
SECOND = 1_000_000
TESTS = Path(__file__).parents[3]


def started(*commands: Any) -> Story:
    story = Story()
    story.start()
    story.decide(*commands)
    return story


def attempt(**fields: Any) -> cm.ScheduleActivity:
    return cm.ScheduleActivity(at=1, name="a", **fields)


def test_every_limit_is_tried_at_its_edge() -> None:
    """Each field of `Limits` is set by some test, or named by one in what is said at it."""
    texts = [path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py")]
    untried = [name for name in Limits.__struct_fields__ if not any(re.search(rf"\b{name}(=|\) is)", text) for text in texts)]
    assert untried == []


@pytest.mark.parametrize("name", Limits.__struct_fields__)
@pytest.mark.parametrize("value", [-1, True, "1", None, float("nan"), 2**53])
def test_what_is_no_limit_is_refused(name: str, value: Any) -> None:
    """By name, when limits are made."""
    if name == "strict_based_on" and value is True:
        value = 1
    with pytest.raises(ValueError, match=name):
        Limits(**{name: value})


@pytest.mark.parametrize(("age", "duplicate"), [(9, True), (11, False)])
def test_signal_ids_are_remembered_for_so_long(lower_limits: Lower, age: int, duplicate: bool) -> None:
    """Until then a signal sent again is known; later it is another one."""
    lower_limits(remembered_ids_age_s=10)
    story = started()
    story.signal("go", "a")
    story.sleep(age * SECOND)
    story.signal("go", "b")  # forgetting happens when something is remembered
    assert story.signal("go", "a").duplicate == duplicate


@pytest.mark.parametrize("refusals", [0, 1, 2])
def test_so_often_is_a_close_sent_back(lower_limits: Lower, refusals: int) -> None:
    """A signal comes before every close; after so many refusals the run closes all the same, and says what it has not seen."""
    lower_limits(close_refusals_max=refusals)
    story = started()
    reply = story.claim() if story.run.wants_decision else None
    closed: list[bool] = []
    for _ in range(refusals + 1):
        story.signal("go")
        claimed = reply if reply is not None and getattr(reply, "token", "") else story.claim()
        story.signal("go")
        reply = story.report(claimed, Commands(commands=()), closing=cm.CompleteWorkflow(at=1))
        closed.append(reply.closed)
    assert closed == [False] * refusals + [True]


@pytest.mark.parametrize(("ahead", "kept"), [(2 * SECOND, True), (2 * SECOND + 1, False)])
def test_so_far_ahead_may_a_fused_fact_be(lower_limits: Lower, ahead: int, kept: bool) -> None:
    """Beyond it the fact stands, with the owner's time, and what the code asked for behind it is decided anew."""
    lower_limits(fused_ahead_s=2.0)
    story = Story()
    story.start()
    decided = story.decide(attempt(), room=1, queues=("default",))
    claim = decided.activities[0]
    now = story.now
    fact = ActivitySucceeded(command=2, attempt=1, token=claim.token, result=text("x"), fed_at=now + ahead)
    reply = story.report(decided, fact, Commands(commands=(cm.RecordSideEffect(at=2, result=text("y")),)))
    assert reply.accepted == kept
    assert (story.history[-1].type, story.history[-1].time) == (  # type: ignore[union-attr]
        ("side_effect_recorded", now + ahead) if kept else ("activity_completed", now)
    )


def test_heartbeats_are_noted_so_often(lower_limits: Lower) -> None:
    """Details of the first, and of those that come so long after the last that was noted."""
    lower_limits(heartbeat_note_s=5.0)
    story = started(attempt())
    claim = story.take(2)
    noted = []
    for _ in range(4):
        story.sleep(3 * SECOND)
        story.beat(claim, details=text("on"))
        noted.append(story.note_types.count("heartbeat_noted"))
    assert noted == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("first", "last", "kept"), [(1, 2, [1, 5, 6]), (2, 1, [1, 2, 6]), (0, 1, [6]), (1, 0, [1]), (0, 0, [])]
)
def test_failed_attempts_are_kept_first_and_last(lower_limits: Lower, first: int, last: int, kept: list[int]) -> None:
    """So many of each in memory; all of them are noted."""
    lower_limits(attempt_notes_first=first, attempt_notes_last=last)
    story = started(attempt())
    for number in range(1, 7):
        story.fail(story.take(2, number))
        story.sleep(3600 * SECOND)
    assert [failure.attempt for failure in story.run.activities[2].failures] == kept
    assert story.note_types.count("attempt_failed") == 6


@pytest.mark.scenario(77)
def test_endless_retries_make_nothing_longer_but_the_record_of_attempts() -> None:
    """After a thousand of them the history and what is held of the run are what they were after twenty; each has left one note."""
    story, sizes = started(attempt()), {}
    for number in range(1, 1_001):
        story.fail(story.take(2, number))
        story.sleep(3600 * SECOND)
        if number in {20, 1_000}:
            sizes[number] = len(story.run.activities[2].failures), story.run.length
    assert sizes[20] == sizes[1_000]
    assert story.note_types.count("attempt_failed") == 1_000
