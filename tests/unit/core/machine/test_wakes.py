"""Which wakes still matter, read off a run's state."""

from perdure.core import commands as cm
from perdure.core import requests as rq
from perdure.core.machine.wakes import matters, wakes_of
from perdure.testing.machine.story import Story


def test_a_wake_matters_until_what_it_was_set_for_is_over() -> None:
    """Every wake that state calls for matters; those of an answered activity, a cancelled timer and a closed run do not."""
    story = Story()
    story.start("s", run_id="r", timeout=10**9)
    charge = cm.ScheduleActivity(at=1, name="charge", start_to_close=50, schedule_to_close=10**8)
    story.report(story.claim(token="t"), rq.Commands(commands=(charge, cm.StartTimer(at=1, delay=5))))
    claim = story.take(2, token="a")
    set_before = [target for _, target in wakes_of(story.state)]
    assert {type(target) for target in set_before} == {rq.ActivityDue, rq.TimerDue, rq.RunDue}
    assert all(matters(story.state, target) for target in set_before)
    story.fail(claim)
    dead = [target for target in set_before if not matters(story.state, target)]
    assert [(target.kind, target.attempt) for target in dead] == [("start_to_close", 1)]
    assert all(matters(story.state, target) for _, target in wakes_of(story.state))
    story.terminate("k")
    assert not any(matters(story.state, target) for target in set_before)
