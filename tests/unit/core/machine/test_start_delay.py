"""Starts that begin later: the run is there at once, its code begins at the instant and not before."""

from typing import Any

import pytest

from perdure.core.description import describe
from perdure.core.replies import NotWanted, RunStarted
from perdure.core.requests import SignalBody, StartDue
from perdure.testing.machine.story import Story

HOUR = 3_600_000_000


def delayed(**fields: Any) -> Story:
    story = Story()
    story.start("first", start_delay=HOUR, **fields)
    return story


def test_the_code_begins_when_the_delay_is_over_and_not_before() -> None:
    """Nobody is offered the run until then; describe says until when."""
    story = delayed()
    begins = story.now + HOUR
    assert isinstance(story.claim(), NotWanted)
    (pending,) = describe(story.state, story.run, story.now).pending
    assert (pending.kind, pending.until, story.run.status) == ("start", begins, "running")
    story.sleep(HOUR - 1)
    assert not story.run.wants_decision
    story.sleep(1)
    assert story.run.wants_decision
    assert describe(story.state, story.run, story.now).pending[0].kind == "decision"
    assert len(story.transitions) == 1


@pytest.mark.parametrize("when", [0, HOUR // 2, HOUR, 5 * HOUR])
def test_it_begins_at_its_instant_whenever_the_owner_crashed(when: int) -> None:
    """The wake is found again in what is written, also one that has passed."""
    story = delayed()
    begins = story.now + HOUR
    story.sleep(when)
    story.crash()
    story.sleep(max(0, begins - story.now))
    assert story.run.wants_decision
    assert story.decide().accepted
    story.crash()
    story.fire()
    story.signal("go")
    assert story.run.wants_decision


def test_what_comes_before_waits_with_it() -> None:
    """Signals and cancel requests are recorded, and are fed behind the start."""
    story = delayed(signal=SignalBody(name="go", signal_id="g"))
    story.signal("more")
    story.cancel()
    assert not story.run.wants_decision
    story.sleep(HOUR)
    assert [event.type for event in story.claim().events] == [
        "started",
        "signal_received",
        "signal_received",
        "cancel_requested",
    ]


def test_the_timeout_counts_from_when_it_begins() -> None:
    """A delay longer than the timeout leaves the run its whole time."""
    story = delayed(timeout=10)
    story.sleep(HOUR + 9)
    assert story.run.status == "running"
    story.crash()
    story.sleep(1)
    assert story.run.status == "timed_out"


def test_a_start_that_waits_is_a_run_like_any_other() -> None:
    """It holds its id, is found again by its request, and can be ended before it has begun."""
    story = delayed()
    assert story.start("first") == RunStarted(run_id="r1")
    assert story.start("second").code == "WORKFLOW_ALREADY_STARTED"
    story.terminate()
    assert story.run.status == "terminated"
    assert story.ask(StartDue(workflow_id="w", run_id="r1")).duplicate
    story.start("third", start_delay=5, run_id="r9")
    story.sleep(5)
    assert story.run.wants_decision


def test_an_early_wake_waits_on() -> None:
    """The instant is judged by what is written, whoever brings the wake."""
    story = delayed()
    story.ask(StartDue(workflow_id="w", run_id="r1"))
    assert not story.run.wants_decision
    story.sleep(HOUR)
    assert story.run.wants_decision
