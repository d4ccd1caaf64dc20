"""What a run waits for that no event tells: said with decisions, written without a commit of its own, known after a crash."""

from typing import Any

import pytest

from perdure.core import commands as cm
from perdure.core.description import describe
from perdure.core.notes import Seen
from perdure.core.requests import Commands, PauseWorkflow
from perdure.testing.machine.story import Story

APPROVE = ("signal approve",)


def timer(at: int) -> cm.StartTimer:
    return cm.StartTimer(at=at, delay=60_000_000)


def told(story: Story) -> list[tuple[str, ...] | None]:
    return [note.awaits for note in story.notes[story.run.run_id] if isinstance(note, Seen)]


def kinds(story: Story, **served: Any) -> list[tuple[str, str]]:
    return [(item.kind, item.name) for item in describe(story.state, story.run, story.now, **served).pending]


def test_with_commands_it_rides_in_their_transition() -> None:
    """One transition holds the timer and the note; after a crash the run is still known to wait for the signal."""
    story = Story()
    story.start()
    before = len(story.transitions)
    story.decide(timer(1), awaits=APPROVE)
    assert len(story.transitions) == before + 1
    assert told(story) == [APPROVE]
    story.crash()
    assert kinds(story) == [("timer", ""), ("signal", "approve")]


def test_without_commands_it_waits_for_the_next_transition() -> None:
    """A decision that asks for nothing commits nothing; what it awaits is known at once, and written with what comes next."""
    story = Story()
    story.start()
    before = len(story.transitions)
    story.decide(awaits=APPROVE)
    assert len(story.transitions) == before
    assert kinds(story) == [("signal", "approve")]
    story.signal("other")
    assert len(story.transitions) == before + 1
    assert told(story) == [APPROVE]
    assert story.run.awaits == APPROVE


def test_what_has_not_changed_is_not_written_again() -> None:
    """Only a change leaves a note, and that it waits for nothing of the kind any more is one."""
    story = Story()
    story.start()
    story.decide(timer(1), awaits=APPROVE)
    story.signal("tick")
    story.decide(timer(3), awaits=APPROVE)
    assert told(story) == [APPROVE]
    story.signal("approve")
    story.decide(timer(5))
    assert told(story) == [APPROVE, ()]
    assert "signal" not in dict(kinds(story))


def test_what_came_since_makes_it_old() -> None:
    """While the code has not seen everything, what it said before is not shown: it may have what it waited for."""
    story = Story()
    story.start()
    story.decide(awaits=APPROVE)
    story.signal("approve")
    assert [kind for kind, _ in kinds(story)] == ["decision"]


def test_a_decision_that_is_cut_says_nothing() -> None:
    """Whoever may not decide does not say what the code waits for either."""
    story = Story()
    story.start()
    claimed = story.claim()
    assert not story.report(claimed, Commands(commands=(timer(1),)), token="someone else's", awaits=APPROVE).accepted
    assert story.run.awaits_now == ()
    assert told(story) == []


def test_an_ended_run_waits_for_nothing() -> None:
    """Timers and signals of a closed run are gone."""
    story = Story()
    story.start()
    story.decide(timer(1), awaits=APPROVE)
    story.terminate()
    assert kinds(story) == []
    assert describe(story.state, story.run, story.now).standstill == ()


@pytest.mark.parametrize(
    ("awaits", "why"),
    [
        (APPROVE, "nobody has sent the signal 'approve' since event 1"),
        (("condition Cart.run:3",), "only a signal, an update or a cancel moves it since event 1"),
        ((), "no activity, timer or child is pending: only a signal, an update or a cancel moves it"),
    ],
)
def test_why_nobody_moves_it(awaits: tuple[str, ...], why: str) -> None:
    """A run that only somebody outside can move says so, whether its code has said what it waits for or not."""
    story = Story()
    story.start()
    story.decide(awaits=awaits)
    assert describe(story.state, story.run, story.now).standstill == (why,)


def test_a_queue_nobody_serves_is_named() -> None:
    """For decisions and for activities, each on its own queue."""
    story = Story()
    story.start(queue="slow")
    assert describe(story.state, story.run, story.now, lambda _queue, _kind: False).standstill == (
        "no worker takes workflow tasks of queue 'slow'",
    )
    story.decide(cm.ScheduleActivity(at=1, name="train", queue="gpu"))
    assert describe(story.state, story.run, story.now, lambda queue, _kind: queue == "slow").standstill == (
        "no worker takes activity tasks of queue 'gpu', on which 'train' (event 2) waits",
    )
    assert describe(story.state, story.run, story.now).standstill == ()


def test_a_pause_is_why() -> None:
    """With its reason."""
    story = Story()
    story.start()
    story.decide(timer(1))
    story.ask(PauseWorkflow(workflow_id="w", reason="lunch"))
    assert describe(story.state, story.run, story.now).standstill == (
        "it is paused (lunch): `perdure workflow resume` ends that",
    )
