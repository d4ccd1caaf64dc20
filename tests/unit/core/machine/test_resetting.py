"""Reset: a new run from a point in an old history, with everything that was open there taken up again and nothing sent since lost."""

from typing import Any

import pytest

from perdure.core import commands as cm
from perdure.core import events as ev
from perdure.core.description import describe, result_of
from perdure.core.events import SignalReceived, Started, Terminated
from perdure.core.failure import Failure
from perdure.core.replies import NotWanted, Rejection, Taken
from perdure.core.requests import Commands, PauseWorkflow, ResumeWorkflow
from perdure.core.retry import RetryPolicy
from perdure.testing.machine.laws import image
from perdure.testing.machine.story import Story, done, text

SECOND = 1_000_000
CHARGE = cm.ScheduleActivity(at=1, name="charge", retry=RetryPolicy(initial=1.0, jitter=0.0))


def worked(**fields: Any) -> Story:
    """1 started · 2 charge · 3 timer (10 s) · 4 signal a · 5 charge completed · 6 charge · 7 signal b."""
    story = Story()
    story.start("first", **fields)
    story.decide(CHARGE, cm.StartTimer(at=1, delay=10 * SECOND))
    claim = story.take(2)
    story.signal("go", "a")
    story.succeed(claim, text("paid"))
    story.decide(cm.ScheduleActivity(at=5, name="charge"))
    story.signal("go", "b")
    return story


def test_the_prefix_is_copied_and_what_came_later_is_delivered_again() -> None:
    """One transition: the open run ends, the new one holds the same events, then the reset, then later signals in order."""
    story = worked()
    old = list(story.history)
    assert story.reset(3, new_run_id="new", seed=77, reason="bad deploy") == Taken(run_id="new")
    assert [change.run_id for change in story.transitions[-1].runs] == ["r1", "new"]
    started = story.history[0]
    assert isinstance(started, Started)
    assert (started.run_id, started.origin_run_id, started.seed) == ("new", "r1", 1)
    assert image(story.history[1:3]) == image(old[1:3])
    reset = story.history[3]
    assert isinstance(reset, ev.Reset)
    assert (reset.run_id, reset.seed, reset.reset_from, reset.event_id, reset.reason) == ("new", 77, "r1", 3, "bad deploy")
    again = [(s.signal_id, s.carried_from) for s in story.history[4:] if isinstance(s, SignalReceived)]
    assert again == [("a", 4), ("b", 7)]
    end = story.histories["r1"][-1]
    assert isinstance(end, Terminated)
    assert (end.next_run_id, end.unseen_signals) == ("new", 0)
    assert result_of("r1", end).next_run_id == "new"
    assert (story.run.status, story.run.wants_decision) == ("running", True)


def test_every_event_may_be_the_point_but_the_end() -> None:
    """The new run goes on from there as its history says; what cannot be a point is refused and changes nothing."""
    for point in range(1, 8):
        story = worked()
        assert story.reset(point, new_run_id="new") == Taken(run_id="new")
        assert len(story.history) == point + 1 + sum(1 for n in (4, 7) if n > point)
        story.crash()
        story.sleep(20 * SECOND)
        assert story.run.wants_decision
    for point in (0, -1, 8, 99):
        story = worked()
        refused = story.reset(point)
        assert isinstance(refused, Rejection)
        assert refused.code == "INVALID_ARGUMENT"
        assert story.run.status == "running"
    story.terminate()
    assert "the end of run" in story.reset(8).message
    assert story.reset(7, new_run_id="new") == Taken(run_id="new")


def test_open_activities_are_dispatched_again_with_their_keys() -> None:
    """A fresh attempt of the same call; the old claim is worth nothing, and its worker is told."""
    story = worked()
    old = story.take(6)
    first_key = story.histories["r1"] and old.idempotency_key
    story.reset(6, new_run_id="new")
    assert [notice.token for _, notice in story.cancels] == [old.token]
    assert story.report(None, done(old), run_id="r1").closed
    assert isinstance(story.try_take(2), NotWanted)
    again = story.take(6)
    assert (again.attempt, again.idempotency_key) == (1, first_key)


def test_the_kth_activity_of_a_name_keeps_its_key_whatever_it_is_asked() -> None:
    """Keys come of the origin run, the name and the ordinal: other arguments do not change them."""
    story = worked()
    second = story.take(6).idempotency_key
    story.reset(5, new_run_id="new")
    story.decide(cm.ScheduleActivity(at=5, name="charge", input=(text("other"),)))
    renewed = next(number for number in story.run.activities)
    assert story.take(renewed).idempotency_key == second
    story.reset(5, new_run_id="newer")
    story.decide(cm.ScheduleActivity(at=5, name="charge", input=(text("third"),)))
    renewed = next(number for number in story.run.activities)
    assert story.take(renewed).idempotency_key == second


def test_open_timers_are_due_when_they_were() -> None:
    """Also one that would have fired since; it fires at once, never early."""
    story = worked()
    begun = story.history[2].time
    story.reset(3, new_run_id="new")
    story.sleep(begun + 10 * SECOND - 1 - story.now)
    assert "timer_fired" not in story.events
    story.sleep(1)
    assert story.events[-1] == "timer_fired"
    story.reset(3, new_run_id="newer")
    assert "timer_fired" not in story.events
    story.fire()
    assert story.events[-1] == "timer_fired"


def test_time_limits_count_from_the_reset() -> None:
    """Of the run and of activities open at the point: else a run that is reset late would time out at once."""
    story = Story()
    story.start("first", timeout=30 * SECOND)
    story.decide(cm.ScheduleActivity(at=1, name="slow", schedule_to_close=20 * SECOND, schedule_to_start=15 * SECOND))
    story.sleep(31 * SECOND)
    assert story.run.status == "timed_out"
    story.sleep(100 * SECOND)
    story.reset(2, new_run_id="new")
    assert describe(story.state, story.run, story.now).started_at == story.now
    story.fire()
    story.crash()
    story.sleep(14 * SECOND)
    assert story.events == ["started", "activity_scheduled", "reset"]
    story.sleep(SECOND)
    assert story.events[-1] == "activity_timed_out"
    story.crash()
    story.sleep(15 * SECOND)
    assert story.run.status == "timed_out"


@pytest.mark.parametrize("end", ["completed", "failed", "terminated", "cancelled"])
def test_a_closed_run_is_reset_and_stays_as_it_is(end: str) -> None:
    """Its history gets no further event; the id goes on in the new run."""
    story = worked()
    endings: dict[str, cm.ClosingCommand] = {
        "completed": cm.CompleteWorkflow(at=7),
        "failed": cm.FailWorkflow(at=7, failure=Failure(type="Boom")),
        "cancelled": cm.CancelWorkflow(at=7),
    }
    if end in endings:
        story.decide(closing=endings[end])
    else:
        story.terminate()
    before = image(story.history)
    story.reset(5, new_run_id="new")
    assert image(story.histories["r1"]) == before
    assert (story.run.run_id, story.run.is_open, story.run.started.request_id) == ("new", True, "first")
    assert story.start("first").run_id == "new"


def test_a_reset_repeated_gets_the_run_it_made() -> None:
    """While its request is remembered, over resets and crashes; nothing is written."""
    story = worked()
    story.reset(3, new_run_id="new", request_id="z")
    story.reset(4, new_run_id="newer", request_id="y")
    story.crash()
    assert story.reset(3, new_run_id="newest", request_id="z") == Taken(run_id="new", duplicate=True)
    assert story.reset(5, new_run_id="newest", request_id="y") == Taken(run_id="newer", duplicate=True)
    assert story.run.run_id == "newer"


def test_a_reset_of_a_reset() -> None:
    """Resets in the prefix stay; keys still come of the first run."""
    story = worked()
    story.reset(3, new_run_id="second")
    story.reset(5, new_run_id="third")
    assert story.events == [
        "started",
        "activity_scheduled",
        "timer_started",
        "reset",
        "signal_received",
        "reset",
        "signal_received",
    ]
    assert story.run.started.origin_run_id == "r1"
    assert [event.reset_from for event in story.history if isinstance(event, ev.Reset)] == ["r1", "second"]
    assert story.run.reset_to == "third"


def test_remembered_ids_survive() -> None:
    """A signal sent again after the reset is delivered no further time; so is the start."""
    story = worked()
    story.reset(3)
    length = story.run.length
    for signal_id in ("a", "b"):
        assert story.signal("go", signal_id).duplicate
    assert story.run.length == length
    assert story.start("first").run_id == story.run.run_id


def test_an_older_run_of_the_id_is_reset() -> None:
    """The open run gives way; what it has not seen goes to the new one, once."""
    story = worked()
    story.decide(closing=cm.ContinueAsNew(at=7, untaken=(7,)), next_run_id="second", carried=(story.history[6],))
    story.signal("go", "c")
    story.reset(3, new_run_id="new", run_id="r1")
    assert story.histories["second"][-1].type == "terminated"
    assert [e.signal_id for e in story.history if isinstance(e, SignalReceived)] == ["a", "b", "c"]
    assert story.run.started.origin_run_id == "r1"


def test_a_pause_holds_and_quarantine_does_not() -> None:
    """Reset is how a broken run gets another chance; who paused the id has not resumed it."""
    story = worked()
    story.ask(PauseWorkflow(workflow_id="w"))
    story.reset(3)
    assert (story.run.status, story.run.wants_decision) == ("paused", False)
    story.ask(ResumeWorkflow(workflow_id="w"))
    story.reset(3)
    assert story.run.status == "running"


def test_a_cancel_asked_for_in_the_prefix_is_answered() -> None:
    """Whoever ran the activity was told of the old run: the new one hears at once that it is cancelled."""
    story = Story()
    story.start()
    story.decide(CHARGE)
    story.take(2)
    story.signal("stop")
    story.decide(cm.CancelActivity(at=3, target=2))
    assert story.events[-1] == "activity_cancel_requested"
    story.reset(4)
    assert story.events[-2:] == ["reset", "activity_cancelled"]
    assert not story.run.activities


def test_the_middle_of_a_decision_may_be_the_point() -> None:
    """The rest of that decision is asked for anew, at the input it belongs to."""
    story = Story()
    story.start()
    story.decide(CHARGE, cm.ScheduleActivity(at=1, name="ship"))
    story.reset(2)
    reply = story.decide(cm.ScheduleActivity(at=1, name="ship"))
    assert reply.accepted
    assert story.events == ["started", "activity_scheduled", "reset", "activity_scheduled"]


def test_what_is_not_kept_is_not_found() -> None:
    """Unknown ids and runs."""
    assert Story().reset(1).code == "NOT_FOUND"
    assert worked().reset(1, run_id="nobody").code == "NOT_FOUND"


def test_a_history_that_would_be_too_long_at_once_is_refused(lower_limits: Any) -> None:
    """The limit is named; one event less is room enough."""
    lower_limits(history_events_max=6)
    story = Story()
    story.start()
    for number in range(4):
        story.signal("go", f"s{number}")
    refused = story.reset(5)
    assert isinstance(refused, Rejection)
    assert refused.code == "LIMIT_EXCEEDED"
    assert "history_events_max" in refused.message
    story = Story()
    story.start()
    for number in range(3):
        story.signal("go", f"s{number}")
    assert story.reset(4) == Taken(run_id=story.run.run_id)


def test_decisions_of_the_old_run_come_too_late() -> None:
    """Its worker is told that the run is closed; nothing of it reaches the new one."""
    story = worked()
    claimed = story.claim()
    story.reset(3)
    before = story.run.length
    assert story.report(claimed, Commands(commands=(CHARGE,)), run_id="r1").closed
    assert story.run.length == before


def test_a_long_history_is_reset_in_one_transition() -> None:
    """Nearly 50,000 events, copied to the last; a crash on either side of the commit leaves one run or the other."""
    story = Story(checked=False)
    story.start()
    for _ in range(5):
        story.signal("go")
        story.decide(*(cm.SetDetails(at=story.run.length, details="x") for _ in range(9_900)))
    point = story.run.length
    assert point > 49_000
    before = len(story.transitions)
    story.reset(point, new_run_id="new")
    assert len(story.transitions) == before + 1
    story.crash()
    assert (story.run.run_id, story.run.length, story.run.details) == ("new", point + 1, "x")
    assert story.decide(cm.SetDetails(at=point + 1, details="y")).accepted
