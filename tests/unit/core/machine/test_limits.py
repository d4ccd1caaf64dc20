"""Limits at their edges: a typed answer that names the limit, its value and the setting, at once."""

from collections.abc import Callable
from typing import Any

import pytest

from perdure.core import commands as cm
from perdure.core.events import Failed, RunLimits
from perdure.core.requests import Commands, SignalBody
from perdure.testing.machine.story import Story, text

Lower = Callable[..., None]


def effects(count: int, at: int = 1, value: str = "x") -> list[Any]:
    return [cm.RecordSideEffect(at=at, result=text(value)) for _ in range(count)]


def started() -> Story:
    story = Story()
    story.start()
    return story


def test_a_history_at_its_limit_fails_the_run(lower_limits: Lower) -> None:
    """One event below it goes on; at it the run ends with a failure that names the setting, as no code asked for."""
    lower_limits(history_events_max=6)
    story = started()
    story.decide(*effects(3))
    story.signal("go")
    assert story.run.is_open
    story.decide(*effects(1, at=5))
    last = story.history[-1]
    assert isinstance(last, Failed)
    assert (story.run.status, last.at, last.failure.type) == ("failed", 0, "LimitExceeded")
    assert "history holds 6 events; the limit (history_events_max) is 6" in last.failure.message


def test_signals_are_never_refused_for_length(lower_limits: Lower) -> None:
    """A run beyond its limit takes them; the next thing that happens to it ends it, and they are counted."""
    lower_limits(history_events_max=3)
    story = started()
    story.decide(cm.StartTimer(at=1, delay=10))
    for number in range(5):
        assert story.signal("go", f"s{number}").run_id == "r1"
    assert story.run.is_open
    story.sleep(10)
    assert (story.run.status, story.history[-1].unseen_signals) == ("failed", 5)  # type: ignore[union-attr]


def test_a_run_that_only_listens_has_the_same_limit(lower_limits: Lower) -> None:
    """Inputs it asks nothing at make its history longer, too: signals and cancels that its code has seen, and done nothing about."""
    lower_limits(history_events_max=4)
    story = started()
    story.decide()
    story.signal("go")
    story.cancel()
    assert story.decide().accepted
    assert story.run.is_open
    story.signal("go", "last")
    assert story.decide().closed
    last = story.history[-1]
    assert isinstance(last, Failed)
    assert (last.id, last.at, last.based_on, last.failure.type) == (5, 0, 4, "LimitExceeded")
    assert last.unseen_signals == 0


def test_a_run_that_ends_by_itself_at_the_limit_is_not_failed(lower_limits: Lower) -> None:
    """Completing or continuing with the last event allowed is what one is asked to do."""
    lower_limits(history_events_max=3)
    for closing, status in ((cm.CompleteWorkflow(at=1), "completed"), (cm.ContinueAsNew(at=1), "running")):
        story = started()
        story.decide(*effects(1), closing=closing, next_run_id="next")
        assert story.run.status == status


def test_limits_code_can_see_are_those_of_the_start(lower_limits: Lower) -> None:
    """They are copied into `started` and hold for the run and its successors, whatever the setting becomes."""
    lower_limits(history_events_max=6, history_events_warn=4)
    story = started()
    assert story.run.started.limits == RunLimits(history_warn=4, history_max=6)
    lower_limits(history_events_max=2)
    story.decide(*effects(3))
    assert story.run.is_open
    story.signal("go")
    story.decide(closing=cm.ContinueAsNew(at=5), next_run_id="next")
    assert story.run.started.limits.history_max == 6


def test_the_failure_is_based_on_all_that_was_recorded(lower_limits: Lower) -> None:
    """Its `based_on` is not below that of the decision it rides on, so that a replay feeds what those commands need."""
    lower_limits(history_events_max=3)
    story = started()
    story.signal("go")
    story.decide(*effects(2, at=2))
    assert (story.history[-1].type, story.history[-1].based_on) == ("failed", 2)  # type: ignore[union-attr]


def test_unread_signals(lower_limits: Lower) -> None:
    """One too many is refused with the limit's name; a decision that saw them makes room."""
    lower_limits(signals_unread_max=2)
    story = started()
    story.signal("go")
    story.signal("go")
    refused = story.signal("go")
    assert (refused.code, "the limit (signals_unread_max) is 2" in refused.message) == ("LIMIT_EXCEEDED", True)
    story.decide(*effects(1))
    assert story.signal("go").run_id == "r1"


def test_unread_signals_with_start(lower_limits: Lower) -> None:
    """Signal-with-start is refused like a signal, and one repeated is still only repeated."""
    lower_limits(signals_unread_max=1)
    story = started()
    story.signal("go", "a")
    assert story.start("x", on_conflict="attach", signal=SignalBody(name="go", signal_id="b")).code == "LIMIT_EXCEEDED"
    assert story.start("y", on_conflict="attach", signal=SignalBody(name="go", signal_id="a")).attached


@pytest.mark.parametrize(("count", "status"), [(4, "running"), (5, "failed")])
def test_commands_of_one_decision(lower_limits: Lower, count: int, status: str) -> None:
    """As many as allowed are fine; one more fails the run, and none of its activities is sent."""
    lower_limits(decision_commands_max=4)
    story = started()
    reply = story.decide(*[cm.ScheduleActivity(at=1, name="a") for _ in range(count)], room=9, queues=("default",))
    assert story.run.status == status
    assert len(reply.activities) == (count if status == "running" else 0)
    if status == "failed":
        assert "5 commands; the limit (decision_commands_max) is 4" in story.history[-1].failure.message  # type: ignore[union-attr]


@pytest.mark.parametrize(("length", "status"), [(8, "running"), (9, "failed")])
def test_bytes_of_one_decision(lower_limits: Lower, length: int, status: str) -> None:
    """Counted over its payloads as they are written."""
    lower_limits(decision_bytes_max=10)
    story = started()
    story.decide(*effects(1, value="x" * length))
    assert story.run.status == status


def test_too_large_a_decision_fails_the_run_also_when_its_close_is_refused(lower_limits: Lower) -> None:
    """A close sent back for signals does not hide what came with it."""
    lower_limits(decision_commands_max=1)
    story = started()
    claimed = story.claim()
    story.signal("go")
    reply = story.report(claimed, Commands(commands=tuple(effects(2))), closing=cm.CompleteWorkflow(at=1))
    assert (reply.closed, story.run.status) == (True, "failed")
