"""Pause and resume: no decision is taken, everything else is, and nothing that came meanwhile is lost."""

from typing import Any

import pytest

from perdure.core import commands as cm
from perdure.core.replies import NotWanted, Rejection, Taken
from perdure.core.requests import Commands, PauseWorkflow, ReleaseWorkflow, ResumeWorkflow
from perdure.core.retry import RetryPolicy
from perdure.testing.machine.story import Story, done, text

CHARGE = cm.ScheduleActivity(at=1, name="charge", retry=RetryPolicy(initial=1.0, jitter=0.0))
EFFECT = cm.RecordSideEffect(at=1, result=text("x"))
SECOND = 1_000_000


def pause(story: Story, **fields: str) -> Any:
    return story.ask(PauseWorkflow(workflow_id="w", **fields))


def resume(story: Story, **fields: str) -> Any:
    return story.ask(ResumeWorkflow(workflow_id="w", **fields))


@pytest.fixture
def story() -> Story:
    story = Story()
    story.start()
    return story


def test_a_paused_run_is_not_offered(story: Story) -> None:
    """Whatever there is to decide waits for the resume, over a crash too."""
    assert pause(story, reason="look at it") == Taken(run_id="r1")
    story.crash()
    assert (story.run.status, story.run.pause_reason) == ("paused", "look at it")
    assert not story.run.wants_decision
    assert story.claim() == NotWanted(reason="paused")
    assert resume(story) == Taken(run_id="r1")
    assert story.run.status == "running"
    assert story.decide(EFFECT).accepted


def test_both_say_when_there_is_nothing_to_do(story: Story) -> None:
    """Asked twice, nothing is written."""
    pause(story)
    assert pause(story, reason="again") == Taken(run_id="r1", duplicate=True)
    resume(story)
    assert resume(story) == Taken(run_id="r1", duplicate=True)
    assert story.note_types == ["paused", "resumed"]


def test_pausing_what_is_not_there_or_over(story: Story) -> None:
    """Typed: unknown id, another run, a closed one."""
    assert pause(Story()).code == "NOT_FOUND"
    assert pause(story, run_id="other").code == "WORKFLOW_CLOSED"
    story.terminate()
    closed = pause(story)
    assert isinstance(closed, Rejection)
    assert closed.code == "WORKFLOW_CLOSED"


@pytest.mark.scenario(33)
def test_what_comes_during_a_pause_is_kept(story: Story) -> None:
    """Signals, a cancel, a timer and a result are recorded as they come, and fed in that order after the resume."""
    story.decide(CHARGE, cm.StartTimer(at=1, delay=5))
    claim = story.take(2)
    pause(story)
    story.signal("go", "a")
    story.cancel()
    story.sleep(5)
    story.succeed(claim)
    story.signal("go", "b")
    story.crash()
    assert not story.run.wants_decision
    resume(story)
    kinds = [event.type for event in story.claim(held=3).events]
    assert kinds == ["signal_received", "cancel_requested", "timer_fired", "activity_completed", "signal_received"]


def test_activities_go_on(story: Story) -> None:
    """What was scheduled is claimed, fails and is tried again; no new one is asked for."""
    story.decide(CHARGE)
    pause(story)
    story.fail(story.take(2))
    story.sleep(SECOND)
    story.succeed(story.take(2, attempt=2))
    assert story.events[-1] == "activity_completed"
    assert not story.run.wants_decision


def test_time_limits_run() -> None:
    """A paused run may time out."""
    story = Story()
    story.start(timeout=10)
    pause(story)
    story.sleep(10)
    assert story.run.status == "timed_out"


def test_the_decision_under_way_is_taken_and_no_other(story: Story) -> None:
    """The worker that held the claim when the pause came reports once; it does not get the claim again."""
    claimed = story.claim()
    pause(story)
    story.signal("go")
    reply = story.report(claimed, Commands(commands=(EFFECT,)))
    assert (reply.accepted, reply.token) == (True, "")
    assert not story.report(reply, Commands(commands=(EFFECT,))).accepted
    assert story.events == ["started", "signal_received", "side_effect_recorded"]


def test_what_follows_a_result_is_not_taken(story: Story) -> None:
    """A worker that goes on from result to result by right of its activity claims is stopped at the next one."""
    reply = story.decide(CHARGE, room=1, queues=("default",))
    pause(story)
    more = Commands(commands=(cm.ScheduleActivity(at=3, name="ship"),))
    cut = story.report(reply, Commands(), done(reply.activities[0], text("ok"), fed_at=story.now), more)
    assert not cut.accepted
    assert story.events == ["started", "activity_scheduled", "activity_completed"]
    resume(story)
    assert story.run.wants_decision


def test_a_close_sent_back_waits_for_the_resume(story: Story) -> None:
    """Unseen signals hold the close back; the claim ends with it, and after the resume the close is asked for again."""
    claimed = story.claim()
    story.signal("late")
    pause(story)
    refused = story.report(claimed, Commands(), closing=cm.CompleteWorkflow(at=1))
    assert (refused.close_refused, refused.token) == (True, "")
    assert story.run.claim is None
    resume(story)
    assert story.decide(closing=cm.CompleteWorkflow(at=1)).closed


def test_a_pause_holds_for_what_the_run_continues_as(story: Story) -> None:
    """Until it is resumed."""
    claimed = story.claim()
    pause(story)
    story.report(claimed, Commands(), closing=cm.ContinueAsNew(at=1), next_run_id="next")
    assert (story.run.run_id, story.run.status, story.run.wants_decision) == ("next", "paused", False)
    resume(story)
    assert story.run.wants_decision
    assert pause(story, run_id="r1").code == "WORKFLOW_CLOSED"


def test_pause_and_quarantine_end_together_by_hand(story: Story) -> None:
    """Quarantine is what is shown; a resume ends both."""
    claimed = story.claim()
    pause(story)
    story.ask(ReleaseWorkflow(workflow_id="w", run_id="r1", token=claimed.token, build_id="b1", why="nondeterminism"))
    assert story.run.status == "quarantined"
    resume(story)
    assert (story.run.status, story.run.paused, story.run.failed_builds) == ("running", False, [])


def test_another_build_ends_quarantine_but_no_pause(story: Story) -> None:
    """A build that can go on with the run takes it out of quarantine; the pause is not its to end."""
    claimed = story.claim()
    story.ask(ReleaseWorkflow(workflow_id="w", run_id="r1", token=claimed.token, build_id="bad", why="nondeterminism"))
    mended = story.claim(build_id="good")
    pause(story)
    assert story.run.status == "quarantined"
    assert story.report(mended, Commands(commands=(EFFECT,)), build_id="good").accepted
    assert (story.run.status, story.run.paused) == ("paused", True)


def test_a_paused_run_can_be_ended(story: Story) -> None:
    """Terminate, and a start that replaces it; the pause does not pass to that one."""
    pause(story)
    story.start("other", run_id="r9", on_conflict="terminate")
    assert (story.run.run_id, story.run.status) == ("r9", "running")
    pause(story)
    story.terminate()
    assert story.run.status == "terminated"
