"""Reports: the claim and the fence for decisions, the claim alone for facts, an exact prefix and the fed time for what follows a fact."""

from typing import Any

import pytest

from perdure.core import commands as cm
from perdure.core.replies import ActivityClaim, Reported
from perdure.core.requests import Commands, WorkflowClaimDue, WriteDown
from perdure.core.retry import RetryPolicy
from perdure.testing.machine.story import Story, done, text

EFFECT = cm.RecordSideEffect(at=1, result=text("x"))


def effect(at: int) -> Commands:
    return Commands(commands=(cm.RecordSideEffect(at=at, result=text("x")),))


def running() -> tuple[Story, Reported, ActivityClaim]:
    """A run whose activity, event 2, is claimed by the warm worker that scheduled it."""
    story = Story()
    story.start()
    reply = story.decide(cm.ScheduleActivity(at=1, name="charge"), room=1, queues=("default",))
    return story, reply, reply.activities[0]


# ------------------------------------------------------------------------------------------------------------- decisions


def test_a_report_told_again_hands_over_again_what_it_handed() -> None:
    """Its answer was lost with the node: told again it decides nothing, and the claims that rode with it are granted again, the same ones."""
    story = Story()
    story.start()
    claimed = story.claim()
    schedule = Commands(commands=(cm.ScheduleActivity(at=1, name="charge"), cm.ScheduleActivity(at=1, name="ship")))
    first = story.report(claimed, schedule, nonce="n", room=2, queues=("default",), lives_for=10)
    length = story.run.length
    again = story.report(claimed, schedule, nonce="n", room=2, queues=("default",), lives_for=10)
    assert not again.accepted
    assert story.run.length == length
    assert [claim.token for claim in again.activities] == [claim.token for claim in first.activities] == ["n.2", "n.3"]
    story.report(None, done(again.activities[0]))
    last = story.report(claimed, schedule, nonce="n", room=2, queues=("default",), lives_for=10)
    assert [claim.token for claim in last.activities] == ["n.3"]
    other = story.report(claimed, schedule, nonce="m", room=2, queues=("default",), lives_for=10)
    assert not other.activities


@pytest.mark.rule("F4")
def test_a_report_that_contradicts_itself_decides_nothing() -> None:
    """Whoever has seen a decision holds the events it was based on: commands of one that claims otherwise would stand in the wrong order."""
    story = Story()
    story.start()
    story.decide(EFFECT)
    story.signal("go")
    story.decide(cm.RecordSideEffect(at=3, result=text("x")))
    story.signal("go")
    claimed = story.claim()
    before = len(story.transitions)
    reply = story.report(claimed, Commands(commands=(EFFECT,)), based_on=1)
    assert not reply.accepted
    assert len(story.transitions) == before


@pytest.mark.rule("F4")
def test_two_workers_at_the_same_length_one_is_accepted() -> None:
    """The second decision changes nothing: not a byte, not a commit; its runner is to be thrown away."""
    story = Story()
    story.start()
    lost = story.claim("ann", lives_for=10)
    story.sleep(10)
    claimed = story.claim("bob")
    assert story.report(claimed, Commands(commands=(EFFECT,)), worker="bob").accepted
    before = len(story.transitions)
    late = story.report(lost, Commands(commands=(EFFECT,)))
    assert (late.accepted, len(story.transitions), story.events) == (False, before, ["started", "side_effect_recorded"])


@pytest.mark.rule("F4")
@pytest.mark.rule("F5")
def test_a_decision_whose_claim_was_lost_is_dropped() -> None:
    """Also when nobody else has decided yet."""
    story = Story()
    story.start()
    lost = story.claim(lives_for=10)
    story.sleep(10)
    assert not story.report(lost, Commands(commands=(EFFECT,))).accepted
    assert story.events == ["started"]


@pytest.mark.rule("F4")
def test_a_decision_older_than_the_last_one_is_dropped() -> None:
    """Holding the claim is not enough: the fence must be the last decision's."""
    story = Story()
    story.start()
    story.decide(EFFECT)
    story.signal("go")
    claimed = story.claim()
    assert not story.report(claimed, effect(3), decided=0).accepted
    assert story.events[-1] == "signal_received"


@pytest.mark.rule("F4")
def test_steady_signals_do_not_keep_a_decision_from_being_taken() -> None:
    """A signal between every claim and its report: each decision stands, the signals are simply later."""
    story = Story()
    story.start()
    reply: Any = story.claim()
    for number in range(20):
        story.signal("go", f"s{number}")
        reply = story.report(reply, effect(reply.length))
        assert reply.accepted
        assert reply.token
    assert story.events.count("side_effect_recorded") == 20


def test_the_reply_carries_everything_after_what_the_worker_held() -> None:
    """Its own events and others', in order; `decided` is the fence for the next report."""
    story = Story()
    story.start()
    claimed = story.claim()
    story.signal("go")
    reply = story.report(claimed, Commands(commands=(EFFECT,)))
    assert [event.id for event in reply.events] == [2, 3]
    assert (reply.length, reply.decided, reply.covered) == (3, 1, 1)


@pytest.mark.rule("F5")
def test_a_report_that_comes_twice_is_taken_once() -> None:
    """The copy fails the fence."""
    story = Story()
    story.start()
    claimed = story.claim()
    first, second = (story.report(claimed, Commands(commands=(EFFECT,)), nonce="same") for _ in range(2))
    assert (first.accepted, second.accepted) == (True, False)
    assert story.events.count("side_effect_recorded") == 1


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (effect(2), "asked at an input it has not fed"),
        (Commands(commands=(cm.CancelTimer(at=1, target=-1),)), "refers to a place before the report's first"),
        (Commands(commands=(EFFECT, cm.CancelTimer(at=1, target=-2))), "refers to itself"),
        (Commands(commands=(cm.CancelTimer(at=1, target=0),)), "refers to nothing"),
    ],
)
def test_what_no_code_could_ask_for_is_dropped(step: Commands, why: str) -> None:
    """A report that cannot be true leaves no trace."""
    story = Story()
    story.start()
    assert not story.report(story.claim(), step).accepted, why
    assert story.events == ["started"]


def test_commands_refer_to_earlier_ones_by_number_or_place() -> None:
    """A timer of this report by its place over all steps, one of an earlier report by its number."""
    story = Story()
    story.start()
    story.decide(cm.StartTimer(at=1, delay=100))
    story.signal("go")
    story.decide(cm.StartTimer(at=3, delay=100), cm.CancelTimer(at=3, target=-1), cm.CancelTimer(at=3, target=2))
    assert [getattr(event, "command", 0) for event in story.history[-2:]] == [4, 2]
    assert story.run.timers == {}


# --------------------------------------------------------------------------------------------------- decisions without commands


def test_a_decision_without_commands_is_covered_and_written_with_the_next_transition() -> None:
    """No commit of its own; after a crash before that, the input is simply decided on again."""
    story = Story()
    story.start()
    written = len(story.transitions)
    story.decide()
    assert (len(story.transitions), story.run.wants_decision) == (written, False)
    story.crash()
    assert story.run.wants_decision
    story.decide()
    story.signal("go")
    assert [(note.type, note.based_on) for note in story.notes["r1"] if note.type == "seen"] == [("seen", 1)]  # type: ignore[union-attr]
    story.crash()
    assert story.run.covered == 1


@pytest.mark.rule("F10")
def test_what_was_seen_is_written_with_what_a_report_writes_anyway() -> None:
    """A result the code only looked at is covered in the same commit that writes it."""
    story, reply, claim = running()
    story.report(reply, Commands(), done(claim, fed_at=story.now), Commands())
    assert story.note_types[-1] == "seen"
    story.crash()
    assert not story.run.wants_decision


@pytest.mark.rule("F10")
def test_what_was_seen_is_written_before_the_owner_stops() -> None:
    """On request, once; there is nothing to write the second time."""
    story = Story()
    story.start()
    story.decide()
    written = len(story.transitions)
    for _ in range(2):
        story.ask(WriteDown(workflow_id="w", run_id=story.run.run_id))
    assert (len(story.transitions), story.note_types[-1]) == (written + 1, "seen")
    story.crash()
    assert not story.run.wants_decision


# ----------------------------------------------------------------------------------------------------------- fused reports


@pytest.mark.rule("F2")
def test_a_fused_step_costs_one_commit() -> None:
    """Fact and the decision that follows it are one transition, and the fact has the very time it was fed at."""
    story, reply, claim = running()
    written = len(story.transitions)
    story.now += 100
    fed_at = story.now - 40
    reply = story.report(reply, Commands(), done(claim, fed_at=fed_at), effect(3))
    assert (reply.accepted, len(story.transitions)) == (True, written + 1)
    assert story.events[-2:] == ["activity_completed", "side_effect_recorded"]
    assert (story.history[-2].time, story.history[-1].based_on) == (fed_at, 3)  # type: ignore[union-attr]


@pytest.mark.rule("F2")
def test_commands_before_a_fused_fact_leave_its_time_alone() -> None:
    """What was asked for at a signal is stamped no later than the fact that was fed right behind it, so the fact is not cut off."""
    story, _, claim = running()
    story.signal("go")
    claimed = story.claim(held=2)
    fed_at = story.now + 5
    story.now += 100
    reply = story.report(claimed, effect(3), done(claim, fed_at=fed_at), effect(5))
    assert reply.accepted
    assert [event.time for event in story.history[-3:]][:2] == [fed_at, fed_at]
    assert story.history[-1].time == story.now


@pytest.mark.rule("F2")
def test_an_n_step_run_costs_n_plus_one_commits() -> None:
    """Start and first decision apart, each step is one write: fact, commands, and the claim of the next."""
    story, reply, claim = running()
    for number in range(3, 23, 2):
        step = Commands(commands=(cm.ScheduleActivity(at=number, name="step"),))
        reply = story.report(reply, Commands(), done(claim, fed_at=story.now), step, room=1, queues=("default",))
        claim = reply.activities[0]
    assert len(story.transitions) == 2 + 10


def test_what_follows_a_fact_is_cut_when_something_came_between() -> None:
    """The fact is kept, the decision is not: a signal was appended after the prefix the worker held."""
    story, reply, claim = running()
    story.signal("go")
    cut = story.report(reply, Commands(), done(claim, fed_at=story.now), effect(3))
    assert (cut.accepted, cut.facts_dropped) == (False, 0)
    assert story.events[-2:] == ["signal_received", "activity_completed"]
    assert story.run.wants_decision
    assert story.run.claim is None


@pytest.mark.parametrize(
    ("offset", "accepted"),
    [(-1, False), (0, True), (500, True), (500 + 1_000_000, True), (500 + 1_000_001, False)],
)
def test_a_fused_facts_time_lies_between_the_last_event_and_a_second_ahead(offset: int, accepted: bool) -> None:
    """Recorded exactly, or what follows is cut and the owner's time is recorded; time never falls after one from ahead."""
    story, reply, claim = running()
    last = story.history[-1].time
    story.now = last + 500
    answer = story.report(reply, Commands(), done(claim, fed_at=last + offset), effect(3))
    fact = story.history[2]
    assert answer.accepted == accepted
    assert fact.time == (last + offset if accepted else story.now)
    story.signal("go")
    assert story.history[-1].time >= fact.time


def test_a_fact_alone_is_kept_whoever_decides() -> None:
    """By its own claim: from a worker that holds nothing, while another holds the workflow claim."""
    story, _, claim = running()
    story.signal("go")
    claimed = story.claim("bob")
    alone = story.succeed(claim)
    assert (alone.accepted, alone.facts_dropped, story.events[-1]) == (True, 0, "activity_completed")
    assert story.report(claimed, effect(3), worker="bob").accepted


@pytest.mark.rule("F5")
def test_a_zombies_result_is_dropped() -> None:
    """Its claim was lost and another attempt runs: neither the fact nor what followed it is taken, and it must forget its runner."""
    story = Story()
    story.start()
    reply = story.decide(cm.ScheduleActivity(at=1, name="charge"), room=1, queues=("default",), lives_for=10)
    claim = reply.activities[0]
    story.sleep(10)
    story.take(2, 2, worker="bob")
    before = len(story.transitions)
    late = story.report(reply, Commands(), done(claim, fed_at=story.now), effect(3))
    assert (late.accepted, late.facts_dropped, len(story.transitions)) == (False, 1, before)


def test_a_dropped_or_misfed_fact_ends_its_runner_also_without_commands_after_it() -> None:
    """The runner has fed what the history does not hold (or holds with another time): the reply says so."""
    story, reply, claim = running()
    gone = story.report(reply, Commands(), done(claim, fed_at=story.now - 10**9))
    assert (gone.accepted, story.events[-1]) == (False, "activity_completed")
    again = story.report(reply, Commands(), done(claim, fed_at=story.now))
    assert (again.accepted, again.facts_dropped) == (False, 1)


def test_facts_after_a_cancel_answered_on_the_spot_are_not_fused() -> None:
    """The answer takes a number the worker did not expect: what follows the next fact is cut."""
    story = Story()
    story.start()
    asked = [cm.ScheduleActivity(at=1, name=name) for name in ("charge", "ship")]
    reply = story.decide(*asked, room=1, queues=("default",))
    claim = reply.activities[0]
    story.signal("stop")
    claimed = story.claim(held=reply.length)
    stop = Commands(commands=(cm.CancelActivity(at=4, target=3),))
    cut = story.report(claimed, stop, done(claim, fed_at=story.now), effect(6))
    assert not cut.accepted
    assert story.events[-3:] == ["activity_cancel_requested", "activity_cancelled", "activity_completed"]


def test_two_facts_and_what_followed_each_in_one_report() -> None:
    """The wire form is a list: both facts and both decisions are one commit, each decision based on its fact."""
    story = Story()
    story.start()
    asked = [cm.ScheduleActivity(at=1, name=name) for name in ("charge", "ship")]
    reply = story.decide(*asked, room=2, queues=("default",))
    first, second = reply.activities
    steps = (Commands(), done(first, fed_at=story.now), effect(4), done(second, fed_at=story.now), effect(6))
    assert story.report(reply, *steps).accepted
    assert story.events[3:] == ["activity_completed", "side_effect_recorded"] * 2
    assert [event.based_on for event in story.history if event.type == "side_effect_recorded"] == [4, 6]  # type: ignore[union-attr]


def test_a_report_to_a_closed_run_says_so() -> None:
    """Facts are counted as dropped, nothing is written."""
    story, reply, claim = running()
    story.terminate()
    before = len(story.transitions)
    late = story.report(reply, Commands(), done(claim, fed_at=story.now))
    assert (late.closed, late.accepted, late.facts_dropped, len(story.transitions)) == (True, False, 1, before)


def test_a_close_among_other_commands_is_refused_before_anything_is_written() -> None:
    """The whole report is rejected, with what is wrong with it named."""
    story, reply, claim = running()
    refused = story.report(reply, Commands(), done(claim), Commands(commands=(cm.CompleteWorkflow(at=3),)))
    assert refused.code == "INVALID_ARGUMENT"
    assert "complete_workflow" in refused.message
    assert story.run.activities


# ------------------------------------------------------------------------------------------------------------------ claims


def test_a_claim_asked_for_again_is_granted_again() -> None:
    """Its reply was lost; the same token gets it once more, another one does not."""
    story = Story()
    story.start()
    story.claim(token="mine")
    assert story.claim(token="mine").token == "mine"
    assert story.claim("bob").reason == "claimed by another worker"


@pytest.mark.rule("F6")
def test_a_lost_workflow_claim_is_offered_again() -> None:
    """After its period without a decision anyone may claim; brought early or for another token, the wake changes nothing."""
    story = Story()
    story.start()
    story.claim("ann", lives_for=10, token="t")
    story.ask(WorkflowClaimDue(workflow_id="w", run_id="r1", token="other"))
    story.sleep(9)
    assert story.claim("bob").reason == "claimed by another worker"
    story.sleep(1)
    assert story.claim("bob").token


def test_a_claim_kept_after_a_lost_one_has_a_new_token() -> None:
    """Whoever reports by right of an activity claim and gets the workflow claim never gets back a token that was lost."""
    story = Story()
    story.start()
    reply = story.decide(cm.ScheduleActivity(at=1, name="charge"), room=1, queues=("default",))
    story.signal("go")
    lost = story.claim(held=2, lives_for=10)
    story.sleep(10)
    kept = story.report(lost, done(reply.activities[0]))
    assert kept.token
    assert kept.token != lost.token


def test_local_activities_find_room_first_and_their_claims_are_not_written():
    """Handed to whoever reports, also of a queue it does not serve; a crash forgets the claim, and the attempt is the first again."""
    story = Story()
    story.start()
    asked = [cm.ScheduleActivity(at=1, name=name, local=name == "near", queue="elsewhere") for name in ("far", "near", "near")]
    reply = story.decide(*asked, room=2, queues=("default",))
    assert [claim.scheduled.id for claim in reply.activities] == [3, 4]
    assert "activity_claimed" not in story.note_types
    assert [task.command for task in story.published.values() if task.command] == [2]
    story.succeed(reply.activities[0])
    assert story.note_types.count("activity_claimed") == 1
    story.crash()
    assert story.run.activities[4].claim is not None

    story = Story()
    story.start()
    reply = story.decide(cm.ScheduleActivity(at=1, name="near", local=True), room=1, queues=("default",))
    story.crash()
    assert story.take(2, 1).attempt == 1


def test_a_claim_a_policy_depends_on_is_written_though_it_is_local():
    """The last attempt that is allowed is written before it runs."""
    story = Story()
    story.start()
    only = cm.ScheduleActivity(at=1, name="near", local=True, retry=RetryPolicy(max_attempts=1))
    story.decide(only, room=1, queues=("default",))
    assert "activity_claimed" in story.note_types


def test_room_goes_to_the_most_urgent():
    """Where not everything finds room, priority decides; the rest waits in line."""
    story = Story()
    story.start()
    asked = [cm.ScheduleActivity(at=1, name="step", priority=priority) for priority in (0, 7, 3)]
    reply = story.decide(*asked, room=2, queues=("default",))
    assert [claim.scheduled.priority for claim in reply.activities] == [7, 3]
