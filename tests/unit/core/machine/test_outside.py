"""Attempts completed from outside: the claim outlives its worker, its bounds go on, and it is good for one outcome."""

from typing import Any

from perdure.core import commands as cm
from perdure.core.failure import Failure
from perdure.core.replies import Beaten, Rejection, Taken
from perdure.core.requests import ActivityDue, Commands, CompleteLater, FinishActivity
from perdure.core.retry import RetryPolicy
from perdure.testing.machine.story import Story, text

SECOND = 1_000_000
QUICK = RetryPolicy(initial=1.0, jitter=0.0)


def left(**fields: Any) -> tuple[Story, Any]:
    """A run whose activity, event 2, is left to be completed from outside; and its claim."""
    story = Story()
    story.start()
    story.decide(cm.ScheduleActivity(at=1, **{"name": "charge", "retry": QUICK, **fields}))
    claim = story.take(2, lives_for=10)
    assert story.ask(CompleteLater(**names(story, claim))) == Beaten(wanted=True)
    return story, claim


def names(story: Story, claim: Any) -> dict[str, Any]:
    return {"workflow_id": "w", "run_id": story.run.run_id, "command": 2, "attempt": claim.attempt, "token": claim.token}


def test_the_claim_outlives_worker_and_owner() -> None:
    """No sign of life is expected any more, and the note survives what memory does not."""
    story, claim = left()
    story.sleep(100 * SECOND)
    story.crash()
    assert story.run.activities[2].claim is not None
    assert story.published == {}
    lost = ActivityDue(workflow_id="w", run_id=story.run.run_id, command=2, attempt=1, kind="lost", token=claim.token)
    assert story.ask(lost) == Taken(duplicate=True)
    assert story.ask(FinishActivity(**names(story, claim), result=text("paid"))) == Taken(run_id=story.run.run_id)
    assert story.events[-1] == "activity_completed"


def test_a_token_is_good_once() -> None:
    """Used twice, or of an attempt that has ended otherwise: not found, and nothing changes."""
    story, claim = left()
    story.ask(FinishActivity(**names(story, claim)))
    before = list(story.events)
    again = story.ask(FinishActivity(**names(story, claim)))
    assert isinstance(again, Rejection)
    assert again.code == "NOT_FOUND"
    assert story.events == before
    assert story.beat(claim) == Beaten(wanted=False)
    assert story.ask(CompleteLater(**names(story, claim))) == Beaten(wanted=False)


def test_said_twice_it_is_noted_once() -> None:
    """The worker did not hear the answer and says it again."""
    story, claim = left()
    written = len(story.transitions)
    assert story.ask(CompleteLater(**names(story, claim))) == Beaten(wanted=True)
    assert len(story.transitions) == written
    assert story.note_types.count("activity_claimed") == 1


def test_a_failure_follows_the_retry_policy() -> None:
    """Failing it is an attempt that failed; the next one has another claim, and the old token is worth nothing."""
    story, claim = left()
    story.ask(FinishActivity(**names(story, claim), failure=Failure(type="Declined")))
    assert story.note_types[-1] == "attempt_failed"
    story.sleep(SECOND)
    story.take(2, 2)
    assert isinstance(story.ask(FinishActivity(**names(story, claim))), Rejection)


def test_the_bounds_go_on_running() -> None:
    """Start-to-close counts from the claim, not from when it was left; silence counts too."""
    story, claim = left(start_to_close=10 * SECOND, retry=RetryPolicy(max_attempts=1))
    story.sleep(10 * SECOND)
    assert story.events[-1] == "activity_timed_out"
    story, claim = left(heartbeat=3 * SECOND, retry=RetryPolicy(max_attempts=1))
    story.sleep(2 * SECOND)
    assert story.beat(claim, details=text("half")) == Beaten(wanted=True)
    story.sleep(2 * SECOND)
    assert story.events[-1] == "activity_scheduled"
    story.sleep(SECOND)
    assert story.events[-1] == "activity_timed_out"


def test_its_cancel_is_told_with_a_heartbeat() -> None:
    """No worker is told; whoever completes it hears it, and may end it cancelled or with a result that is taken."""
    for fields, ends in (({"failure": Failure(type="CancelledError"), "cancelled": True}, "cancelled"), ({}, "completed")):
        story, claim = left()
        story.signal("stop")
        story.report(story.claim(), Commands(commands=(cm.CancelActivity(at=3, target=2),)))
        assert story.cancels == []
        assert story.beat(claim) == Beaten(wanted=True, cancelled=True)
        story.ask(FinishActivity(**names(story, claim), **fields))
        assert story.events[-1] == f"activity_{ends}"


def test_the_outcome_may_come_before_the_function_has_ended() -> None:
    """The token was handed out inside the function: what comes first is taken, what the worker says then means nothing."""
    story = Story()
    story.start()
    story.decide(cm.ScheduleActivity(at=1, name="charge"))
    claim = story.take(2)
    story.ask(FinishActivity(**names(story, claim), result=text("paid")))
    assert story.ask(CompleteLater(**names(story, claim))) == Beaten(wanted=False)
    assert story.events[-1] == "activity_completed"
