"""Timers: due counted from their recording, fired once, never early, kept over restarts, gone when cancelled."""

import pytest

from perdure.core import commands as cm
from perdure.core.events import TimerStarted
from perdure.core.replies import Taken
from perdure.core.requests import TimerDue
from perdure.testing.machine.story import Story

YEAR_9999 = 253_370_764_800_000_000


def sleeping(delay: int = 100) -> Story:
    story = Story()
    story.start()
    story.now += 33
    story.decide(cm.StartTimer(at=1, delay=delay))
    return story


@pytest.mark.rule("O40")
def test_fires_once_at_its_instant() -> None:
    """Not a microsecond early; brought early it waits, brought twice it says nothing."""
    story = sleeping()
    started = story.history[1]
    assert isinstance(started, TimerStarted)
    assert started.due == started.time + 100
    due = TimerDue(workflow_id="w", run_id="r1", command=2)
    story.ask(due)
    story.sleep(99)
    assert story.events[-1] == "timer_started"
    story.sleep(1)
    assert (story.events[-1], story.history[-1].time) == ("timer_fired", started.due)
    assert story.ask(due) == Taken(duplicate=True)


@pytest.mark.rule("O40")
@pytest.mark.scenario(48)
def test_a_timer_due_while_the_owner_was_down_fires_on_return() -> None:
    """Once, with the time of the return."""
    story = sleeping()
    story.now += 1_000
    story.crash()
    story.fire()
    story.fire()
    assert story.events.count("timer_fired") == 1
    assert story.history[-1].time == story.now


@pytest.mark.scenario(2)
def test_a_cancelled_timer_never_fires() -> None:
    """Its cancel is recorded, its wake finds nothing."""
    story = sleeping()
    story.signal("go")
    story.decide(cm.CancelTimer(at=3, target=2))
    story.sleep(1_000)
    assert "timer_fired" not in story.events


@pytest.mark.scenario(84)
def test_a_timer_for_the_year_9999_waits() -> None:
    """No overflow on the way."""
    story = sleeping(YEAR_9999)
    story.crash()
    story.sleep(10**12)
    assert list(story.run.timers) == [2]


def test_a_clock_that_went_back_fires_nothing_early() -> None:
    """Another node's clock is behind: its timer counts from the last event, not from that clock."""
    story = sleeping()
    story.now -= 50
    story.signal("go")
    story.decide(cm.StartTimer(at=3, delay=100))
    assert story.history[-1].due == story.history[1].time + 100  # type: ignore[union-attr]
    story.fire()
    assert "timer_fired" not in story.events
