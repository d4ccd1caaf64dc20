"""Faults other systems had, as short stories about one workflow id: requests in, events out."""

import pytest

from perdure.core import commands as cm
from perdure.core.events import ActivityCompleted, SignalReceived
from perdure.core.failure import Failure
from perdure.core.replies import NotWanted
from perdure.core.requests import Commands
from perdure.core.retry import RetryPolicy
from perdure.testing.machine.story import Story, done, text

CHARGE = cm.ScheduleActivity(at=1, name="charge", retry=RetryPolicy(initial=1.0, jitter=0.0))
SHIP = Commands(commands=(cm.ScheduleActivity(at=3, name="ship"),))
SECOND = 1_000_000


@pytest.fixture
def story() -> Story:
    story = Story("order-42")
    story.start()
    return story


@pytest.mark.scenario(1)
def test_a_cancel_that_arrives_as_a_step_completes_is_seen(story: Story) -> None:
    """The worker has fed itself the result and gone on; the cancel was first. The result is kept, what followed it is not, and the
    cancel is before it in the history, where the next await meets it."""
    reply = story.decide(CHARGE, room=1, queues=("default",))
    story.cancel()
    cut = story.report(reply, Commands(), done(reply.activities[0], fed_at=story.now), SHIP)
    assert not cut.accepted
    assert story.events == ["started", "activity_scheduled", "cancel_requested", "activity_completed"]
    assert story.run.wants_decision


@pytest.mark.scenario(1)
def test_a_cancel_before_the_first_activation_is_seen(story: Story) -> None:
    """It is simply the second input; the code starts, then sees it."""
    story.cancel()
    assert [event.type for event in story.claim().events] == ["started", "cancel_requested"]


@pytest.mark.scenario(28)
@pytest.mark.scenario(38)
def test_two_workers_get_one_task_one_may_have_it(story: Story) -> None:
    """A task is a pointer: whoever claims it first runs it, the other is told that it is not wanted."""
    story.decide(CHARGE)
    story.take(2, worker="ann")
    assert isinstance(story.try_take(2, worker="bob"), NotWanted)
    story.signal("go")
    story.claim("ann")
    assert isinstance(story.claim("bob"), NotWanted)


@pytest.mark.scenario(28)
def test_two_processes_of_one_runs_code_cannot_both_take_a_message(story: Story) -> None:
    """A worker that lost its claim and one that got it both saw the signal and went on: one decision is in the history."""
    story.signal("approve")
    lost = story.claim("ann", lives_for=10)
    story.sleep(10)
    claimed = story.claim("bob")
    mine, yours = (Commands(commands=(cm.RecordSideEffect(at=2, result=text(name)),)) for name in ("ann", "bob"))
    assert story.report(claimed, yours, worker="bob").accepted
    assert not story.report(lost, mine, worker="ann").accepted
    assert story.events == ["started", "signal_received", "side_effect_recorded"]


@pytest.mark.scenario(30)
@pytest.mark.scenario(32)
def test_steady_signals_neither_stop_continue_as_new_nor_get_lost(story: Story) -> None:
    """Fifty generations, each with a signal that crosses its end: every one arrives once, in order, in the run that follows."""
    for number in range(50):
        claimed = story.claim()
        story.signal("tick", f"t{number}")
        at = story.run.length - 1
        assert story.report(claimed, Commands(), closing=cm.ContinueAsNew(at=at), next_run_id=f"g{number}").closed
    arrived = [[e.signal_id for e in history[1:] if isinstance(e, SignalReceived)] for history in story.histories.values()]
    taken = [ids[0] for ids in arrived[1:-1]]
    assert taken == [f"t{number}" for number in range(49)]
    assert arrived[-1] == ["t49"]


@pytest.mark.scenario(39)
@pytest.mark.scenario(43)
def test_a_worker_with_the_name_of_its_predecessor_has_nothing_of_its_claims(story: Story) -> None:
    """Same name, new process: it holds no token, so it can neither beat for, give back nor finish what the old one had."""
    story.decide(CHARGE)
    old = story.take(2, worker="ann", lives_for=10)
    assert isinstance(story.try_take(2, worker="ann"), NotWanted)
    story.sleep(10)
    new = story.take(2, 2, worker="ann")
    assert not story.beat(old).wanted
    assert story.beat(new).wanted


@pytest.mark.scenario(52)
def test_a_task_nobody_runs_does_not_hit_the_running_steps_timeout(story: Story) -> None:
    """Start-to-close is about a claimed attempt: parked for a day the activity has failed nothing."""
    story.decide(cm.ScheduleActivity(at=1, name="charge", start_to_close=10))
    story.sleep(86_400 * SECOND)
    assert story.events == ["started", "activity_scheduled"]
    story.take(2)
    story.sleep(10)
    assert story.run.activities[2].attempt == 2


@pytest.mark.scenario(54)
def test_a_run_without_workers_can_be_cancelled_and_terminated(story: Story) -> None:
    """Nobody is there; both are state, and neither waits for anyone."""
    story.decide(CHARGE)
    story.cancel()
    story.crash()
    assert story.events[-1] == "cancel_requested"
    story.terminate()
    assert (story.run.status, story.run.activities) == ("terminated", {})


@pytest.mark.scenario(66)
def test_a_cancel_asked_for_while_workers_are_down_is_not_forgotten(story: Story) -> None:
    """The claimed attempt's worker is away; back again, its first beat hears of the cancel, and the attempt ends cancelled."""
    story.decide(CHARGE)
    claim = story.take(2)
    story.signal("stop")
    story.decide(cm.CancelActivity(at=3, target=2))
    story.crash()
    assert story.beat(claim).cancelled
    story.fail(claim, Failure(type="CancelledError"), cancelled=True)
    assert story.events[-2:] == ["activity_cancel_requested", "activity_cancelled"]


@pytest.mark.scenario(96)
def test_both_sides_of_a_race_are_recorded_once(story: Story) -> None:
    """Two activities race, their results cross and come twice: two answers, in one order for all time."""
    reply = story.decide(CHARGE, cm.ScheduleActivity(at=1, name="ask"), room=2, queues=("default",))
    first, second = reply.activities
    for claim in (second, first, second, first):
        story.succeed(claim)
    assert [event.command for event in story.history if isinstance(event, ActivityCompleted)] == [3, 2]
