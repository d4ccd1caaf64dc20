"""Signals, cancels and terminations: taken once by id, kept whatever the run is doing, refused by a closed run."""

from collections.abc import Callable

import pytest

from perdure.core import commands as cm
from perdure.core.replies import Taken
from perdure.core.requests import Commands
from perdure.testing.machine.story import Story

DAY = 86_400_000_000


def started() -> Story:
    story = Story()
    story.start()
    return story


@pytest.mark.rule("F8")
def test_the_same_signal_id_is_one_delivery() -> None:
    """A repeated id adds nothing; two ids with one payload are two signals."""
    story = started()
    assert story.signal("go", "a") == Taken(run_id="r1")
    assert story.signal("go", "a", value="other") == Taken(run_id="r1", duplicate=True)
    story.signal("go", "b")
    assert story.events == ["started", "signal_received", "signal_received"]


@pytest.mark.rule("F8")
def test_ids_are_remembered_over_continue_as_new_close_and_crash() -> None:
    """A signal that comes again in another run of the id, or after the owner restarted, is still the same signal."""
    story = started()
    story.signal("go", "a")
    story.decide(closing=cm.ContinueAsNew(at=2), next_run_id="r2")
    story.crash()
    assert story.signal("go", "a").duplicate
    story.decide(closing=cm.CompleteWorkflow(at=1))
    assert story.signal("go", "a").duplicate
    story.start("again")
    assert story.signal("go", "a").duplicate
    assert [event.type for history in story.histories.values() for event in history].count("signal_received") == 1


def test_ids_are_forgotten_after_a_week() -> None:
    """An id older than seven days is forgotten with the next one that comes, and means a new signal then."""
    story = started()
    story.signal("go", "a")
    story.now += 6 * DAY
    story.signal("go", "b")
    assert story.signal("go", "a").duplicate
    story.now += 2 * DAY
    story.signal("go", "c")
    assert not story.signal("go", "a").duplicate
    assert story.signal("go", "b").duplicate


def test_the_oldest_ids_are_forgotten_first(lower_limits: Callable[..., None]) -> None:
    """Beyond `remembered_ids_max` the oldest id goes."""
    lower_limits(remembered_ids_max=3)
    story = started()
    for signal_id in "abcd":
        story.signal("go", signal_id)
    assert list(story.state.signal_ids) == ["b", "c", "d"]
    assert not story.signal("go", "a").duplicate


@pytest.mark.rule("F9")
@pytest.mark.scenario(26)
def test_a_signal_sent_while_a_decision_is_under_way_is_simply_later() -> None:
    """Signal and decision cross: both are kept, the decision stands, and the signal is there to be decided on."""
    story = started()
    claimed = story.claim()
    story.signal("go")
    reply = story.report(claimed, Commands(commands=(cm.StartTimer(at=1, delay=50),)))
    assert reply.accepted
    assert [event.type for event in reply.events] == ["signal_received", "timer_started"]
    assert reply.token, "the worker goes on under its claim, for there is more to feed"


@pytest.mark.parametrize("message", ["signal", "cancel", "terminate"])
def test_a_closed_run_refuses(message: str) -> None:
    """What reaches a closed run is told so, with the run's id; what reaches an id nobody used is not found."""
    story = Story()
    send = {"signal": lambda: story.signal("go"), "cancel": story.cancel, "terminate": story.terminate}[message]
    assert send().code == "NOT_FOUND"
    story.start()
    story.decide(closing=cm.CompleteWorkflow(at=1))
    refused = send()
    assert (refused.code, refused.fields) == ("WORKFLOW_CLOSED", {"run_id": story.run.run_id})


def test_a_message_to_a_run_that_is_not_the_current_one_is_refused() -> None:
    """Naming a run means that run, not its successor."""
    story = started()
    story.decide(closing=cm.ContinueAsNew(at=1), next_run_id="r2")
    assert story.signal("go", run_id="r1").code == "WORKFLOW_CLOSED"
    assert story.signal("go", run_id="r2") == Taken(run_id="r2")


def test_a_cancel_is_one_request_by_id() -> None:
    """Every cancel request is an input; the same one again is none."""
    story = started()
    story.cancel("c")
    assert story.cancel("c").duplicate
    story.cancel("d")
    assert story.events == ["started", "cancel_requested", "cancel_requested"]


def test_a_termination_repeated_does_not_hit_the_next_run() -> None:
    """The same terminate request, again, after the id was started anew: the new run goes on."""
    story = started()
    story.terminate("k")
    story.start("again")
    assert story.terminate("k").duplicate
    assert story.run.is_open


def test_terminating_counts_unseen_signals_and_tells_workers() -> None:
    """A terminated run says how many signals nobody saw, and whoever runs its activities is told to stop."""
    story = started()
    claim = story.decide(cm.ScheduleActivity(at=1, name="charge"), room=1, queues=("default",)).activities[0]
    story.signal("go")
    story.terminate()
    assert story.history[-1].unseen_signals == 1  # type: ignore[union-attr]
    assert [(worker, notice.token) for worker, notice in story.cancels] == [("ann", claim.token)]
