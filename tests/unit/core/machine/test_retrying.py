"""Retry of whole runs: a failed run is followed by its next attempt in the same commit, and nothing anybody sent is lost."""

from typing import Any

import pytest

from perdure.core import commands as cm
from perdure.core.description import result_of
from perdure.core.events import Started
from perdure.core.failure import Failure
from perdure.core.requests import Commands, PauseWorkflow
from perdure.core.retry import RetryPolicy
from perdure.testing.machine.story import Story, text

SECOND = 1_000_000
TWICE = RetryPolicy(initial=1.0, factor=2.0, jitter=0.0, max_attempts=3, non_retryable=("Final",))


def boom(at: int = 1, **fields: Any) -> cm.FailWorkflow:
    return cm.FailWorkflow(at=at, failure=Failure(**{"type": "Boom", **fields}))


def started(**fields: Any) -> Story:
    story = Story()
    story.start("first", **{"retry": TWICE, "input": (text("order"),), "attributes": {"a": 1}, **fields})
    return story


def fail(story: Story, next_run_id: str, **fields: Any) -> Any:
    return story.decide(closing=boom(story.run.length, **fields), next_run_id=next_run_id)


def test_a_failed_run_is_followed_by_its_next_attempt() -> None:
    """Same start, next number, the backoff as its delay, in one write; the last failure stands."""
    story = started()
    story.decide(cm.SetAttributes(at=1, attributes={"a": 2}))
    story.signal("go")
    fail(story, "second")
    assert [change.run_id for change in story.transitions[-1].runs] == ["r1", "second"]
    first, second = story.histories["r1"][0], story.run.started
    assert isinstance(first, Started)
    assert (second.attempt, second.start_delay, second.continued_from, second.first_run_id) == (2, SECOND, "r1", "r1")
    assert (second.input, second.attributes, second.request_id) == (first.input, {"a": 1}, "first")
    assert result_of("r1", story.histories["r1"][-1]).next_run_id == "second"
    assert not story.run.wants_decision
    story.crash()
    story.sleep(SECOND)
    fail(story, "third")
    assert (story.run.started.attempt, story.run.started.start_delay, story.run.started.first_run_id) == (3, 2 * SECOND, "r1")
    story.sleep(2 * SECOND)
    fail(story, "fourth")
    assert (story.run.run_id, story.run.status) == ("third", "failed")
    assert result_of("third", story.run.closing).next_run_id == ""


@pytest.mark.parametrize("fields", [{"type": "Final"}, {"bases": ("Final",)}, {"non_retryable": True}], ids=str)
def test_what_is_final_is_not_tried_again(fields: Any) -> None:
    """By name, by base class, by itself, as for activities."""
    story = started()
    fail(story, "second", **fields)
    assert (story.run.run_id, story.run.status) == ("r1", "failed")


def test_a_failure_may_name_its_delay() -> None:
    """As for activities."""
    story = started()
    fail(story, "second", next_retry_delay=7)
    assert story.run.started.start_delay == 7


def test_other_ends_are_ends() -> None:
    """Cancelled, timed out and terminated runs have no next attempt."""
    for end in (
        lambda story: story.decide(closing=cm.CancelWorkflow(at=1)),
        lambda story: story.decide(closing=cm.CompleteWorkflow(at=1)),
        lambda story: story.sleep(10),
        lambda story: story.terminate(),
    ):
        story = started(timeout=10)
        end(story)
        assert list(story.histories) == ["r1"]


def test_signals_nobody_took_come_along() -> None:
    """Those in the failed code's lines and those it never saw, in order; a late cancel too. What a handler took is gone."""
    story = started()
    story.signal("raw", "kept")
    story.signal("handled", "gone")
    claimed = story.claim()
    story.signal("late", "unseen")
    story.cancel()
    kept = story.history[1]
    reply = story.report(claimed, Commands(), closing=boom(1), next_run_id="second", carried=(kept,))
    assert reply.closed
    assert story.histories["r1"][-1].unseen_signals == 0  # type: ignore[union-attr]
    carried = [(getattr(e, "signal_id", e.type), getattr(e, "carried_from", 0)) for e in story.history[1:]]
    assert carried == [("kept", 2), ("unseen", 4), ("cancel_requested", 0)]
    assert story.signal("late", "unseen").duplicate


def test_a_pause_holds_for_the_next_attempt() -> None:
    """As for what a run continues as."""
    story = started()
    claimed = story.claim()
    story.ask(PauseWorkflow(workflow_id="w"))
    story.report(claimed, Commands(), closing=boom(1), next_run_id="second")
    story.sleep(SECOND)
    assert (story.run.run_id, story.run.status, story.run.wants_decision) == ("second", "paused", False)


def test_a_successor_begins_with_its_first_attempt() -> None:
    """A run that continues has come through; what follows has all its attempts again."""
    story = started()
    fail(story, "second")
    story.sleep(SECOND)
    story.decide(closing=cm.ContinueAsNew(at=1), next_run_id="third")
    assert (story.run.started.attempt, story.run.started.retry, story.run.started.start_delay) == (1, TWICE, 0)


def test_a_failure_without_a_run_id_to_go_on_with_is_malformed() -> None:
    """The machine makes up no ids."""
    assert fail(started(), "").code == "INVALID_ARGUMENT"
    assert fail(started(retry=None), "").closed
