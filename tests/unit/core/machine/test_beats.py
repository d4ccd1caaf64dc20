"""Claims that live by signs of life, and claims presented to an owner that has just taken the run over."""

from typing import Any

import pytest

from perdure.core import commands as cm
from perdure.core.replies import Beaten, NotWanted, WorkflowClaimed
from perdure.core.requests import Commands, CompleteLater, HeartbeatActivity
from perdure.core.retry import RetryPolicy
from perdure.testing.machine.story import Story, done, text

SECOND = 1_000_000
LIFE = 10 * SECOND


def started() -> Story:
    story = Story()
    story.start()
    return story


def scheduled(**fields: Any) -> Story:
    """A run with activity 2 scheduled and everything seen."""
    story = started()
    retry = RetryPolicy(initial=1.0, jitter=0.0)
    story.decide(cm.ScheduleActivity(**{"at": 1, "name": "charge", "retry": retry, **fields}))
    return story


# ---------------------------------------------------------------------------------------------------------- workflow claims


@pytest.mark.rule("F6")
@pytest.mark.scenario(85)
def test_a_workflow_claim_lives_as_long_as_its_worker_gives_signs_of_life() -> None:
    """Beats put the loss off, and cost no commit; without them the run is offered again after the claim's period, not before."""
    story = started()
    claimed = story.claim("ann", lives_for=10)
    written = len(story.transitions)
    for _ in range(5):
        story.sleep(9)
        assert story.beat_workflow(claimed) == Beaten(wanted=True)
    assert len(story.transitions) == written
    story.sleep(9)
    assert isinstance(story.claim("bob"), NotWanted)
    story.sleep(1)
    assert isinstance(story.claim("bob"), WorkflowClaimed)


@pytest.mark.rule("F5")
@pytest.mark.scenario(43)
def test_a_lost_workflow_claim_cannot_be_kept_alive_nor_decide() -> None:
    """Whoever has it now is not touched by beats and decisions under the old token."""
    story = started()
    old = story.claim("ann", lives_for=10)
    story.sleep(10)
    new = story.claim("bob", lives_for=10)
    assert story.beat_workflow(old) == Beaten(wanted=False)
    assert not story.report(old, Commands(commands=(cm.StartTimer(at=1, delay=5),))).accepted
    story.sleep(10)
    assert story.beat_workflow(new) == Beaten(wanted=False)  # nobody beat for it: it was not kept alive by the other's beats
    assert story.events == ["started"]


def test_a_beat_for_a_run_that_is_closed_is_told_so() -> None:
    """And for one that never was."""
    story = started()
    claimed = story.claim(lives_for=10)
    story.terminate()
    assert story.beat_workflow(claimed) == Beaten(wanted=False)
    assert story.beat_workflow(claimed, run_id="other") == Beaten(wanted=False)


# ---------------------------------------------------------------------------------------------------------- activity claims


@pytest.mark.scenario(56)
def test_the_workers_sign_of_life_is_no_heartbeat_of_the_function() -> None:
    """A worker that lives does not hide that its activity hangs: the activity's own bound passes in its time."""
    story = scheduled(heartbeat=10)
    claim = story.take(2, lives_for=20)
    story.sleep(9)
    story.beat(claim)
    story.sleep(1)
    assert story.notes["r1"][-1].kind == "heartbeat"  # type: ignore[union-attr]


@pytest.mark.scenario(85)
def test_a_claim_that_outlives_its_first_beat_is_written() -> None:
    """One note, once: from then on beats cost nothing, and another owner knows the claim."""
    story = scheduled()
    claim = story.take(2, lives_for=LIFE)
    assert "activity_claimed" not in story.note_types
    for _ in range(3):
        story.present(claim)
    assert story.note_types.count("activity_claimed") == 1
    story.crash(LIFE)
    found = story.run.activities[2].claim
    assert found is not None
    assert (found.token, found.time) == (claim.token, claim.claimed_at)


# ----------------------------------------------------------------------------------------------------------------- takeover


@pytest.mark.rule("F5")
@pytest.mark.scenario(63)
def test_a_claim_survives_any_number_of_owners() -> None:
    """It is written: nobody else may have the attempt, the worker goes on beating, and start-to-close counts from the claim."""
    story = scheduled(start_to_close=7200 * SECOND)
    claim = story.take(2, lives_for=LIFE)
    story.present(claim)
    for _ in range(200):
        story.crash(LIFE)
        assert isinstance(story.try_take(2), NotWanted)
        story.sleep(9 * SECOND)
        assert story.present(claim) == Beaten(wanted=True)
        story.sleep(9 * SECOND)
        story.present(claim)
    assert story.run.activities[2].attempt == 1
    story.sleep(9 * SECOND)
    assert story.succeed(claim).facts_dropped == 0
    assert story.events == ["started", "activity_scheduled", "activity_completed"]


@pytest.mark.rule("F6")
def test_after_a_takeover_a_claim_without_sign_of_life_is_lost_after_its_period() -> None:
    """The new owner knows how long claims live, though it never granted this one."""
    story = scheduled()
    claim = story.take(2, lives_for=LIFE)
    story.present(claim)
    story.sleep(5 * SECOND)
    story.crash(LIFE)
    story.sleep(LIFE - 1)
    assert story.run.activities[2].attempt == 1
    story.sleep(1)
    assert story.run.activities[2].attempt == 2
    assert story.present(claim) == Beaten(wanted=False)
    assert story.succeed(claim).facts_dropped == 1


@pytest.mark.parametrize("kind", ["start_to_close", "schedule_to_close", "heartbeat"])
def test_no_bound_passes_for_a_period_after_a_takeover(kind: str) -> None:
    """It may have passed while nobody could be told that the attempt had ended: whoever has the result is heard first."""
    story = scheduled(**{kind: 3 * SECOND})
    claim = story.take(2, lives_for=LIFE)
    story.present(claim)
    story.sleep(SECOND)
    story.now += 60 * SECOND  # nobody is there
    story.crash(LIFE)
    story.sleep(2 * SECOND)
    assert story.run.activities[2].attempt == 1
    story.crash(LIFE)
    assert story.succeed(claim).facts_dropped == 0


@pytest.mark.parametrize("kind", ["start_to_close", "schedule_to_close"])
def test_a_bound_that_has_passed_passes_when_the_period_is_over(kind: str) -> None:
    """Not a moment later, however well the worker."""
    story = scheduled(retry=RetryPolicy(max_attempts=1), **{kind: 3 * SECOND})
    claim = story.take(2, lives_for=LIFE)
    story.crash(LIFE)
    story.sleep(6 * SECOND)
    assert story.present(claim).wanted
    story.sleep(4 * SECOND)
    assert story.history[-1].type == "activity_timed_out"


@pytest.mark.parametrize("way", ["beat", "result", "failure", "later"])
def test_a_claim_that_was_never_written_is_taken_over_when_it_is_presented(way: str) -> None:
    """The owner died before it wrote it; the worker lives and says so, or has ended by now: the attempt does not run twice."""
    story = scheduled()
    claim = story.take(2, lives_for=LIFE)
    story.crash(LIFE)
    story.sleep(SECOND)
    if way == "beat":
        assert story.present(claim) == Beaten(wanted=True)
        found = story.run.activities[2].claim
        assert found is not None
        assert (found.token, found.time, found.worker) == (claim.token, claim.claimed_at, "ann")
        assert isinstance(story.try_take(2), NotWanted)
        story.sleep(LIFE)
        assert story.run.activities[2].attempt == 2
    elif way == "result":
        assert story.succeed(claim).facts_dropped == 0
        assert story.events[-1] == "activity_completed"
    elif way == "failure":
        assert story.fail(claim).facts_dropped == 0
        assert story.run.activities[2].attempt == 2
    else:
        request = CompleteLater(workflow_id="w", run_id="r1", command=2, attempt=1, token=claim.token)
        assert story.ask(request) == Beaten(wanted=True)
        found = story.run.activities[2].claim
        assert found is not None
        assert found.outside


def test_a_cancel_in_the_same_report_comes_before_a_claim_that_was_never_written() -> None:
    """Nobody seemed to run the activity, so its cancel was its answer; the result that stands behind it in the report is dropped."""
    story = scheduled()
    claim = story.take(2, lives_for=LIFE)
    story.crash(LIFE)
    story.signal("stop")
    claimed = story.claim()
    cancel = Commands(commands=(cm.CancelActivity(at=3, target=2),))
    assert story.report(claimed, cancel, done(claim, text("paid"))).facts_dropped == 1
    assert story.events[-2:] == ["activity_cancel_requested", "activity_cancelled"]


def test_the_first_who_presents_a_claim_has_it() -> None:
    """Another worker that claims the attempt first, or presents one first, is believed; the second stops."""
    story = scheduled()
    claim = story.take(2, lives_for=LIFE)
    story.crash(LIFE)
    story.take(2, worker="bob", lives_for=LIFE)
    assert story.present(claim) == Beaten(wanted=False)
    assert story.succeed(claim).facts_dropped == 1


def test_nothing_is_taken_over_later_nor_of_another_attempt() -> None:
    """When the period is over, or the attempt is another one, an unknown token is nobody's."""
    story = scheduled()
    claim = story.take(2, lives_for=LIFE)
    story.crash(LIFE)
    story.sleep(LIFE)
    assert story.present(claim) == Beaten(wanted=False)
    story = scheduled()
    claim = story.take(2, lives_for=LIFE)
    story.fail(claim)
    story.crash(LIFE)
    story.sleep(2 * SECOND)
    assert story.present(claim) == Beaten(wanted=False)
    assert story.succeed(claim).facts_dropped == 1


def test_a_beat_that_does_not_say_whose_it_is_presents_nothing() -> None:
    """A heartbeat by task token, say."""
    story = scheduled()
    claim = story.take(2, lives_for=LIFE)
    story.crash(LIFE)
    beat = HeartbeatActivity(workflow_id="w", run_id="r1", command=2, attempt=1, token=claim.token)
    assert story.ask(beat) == Beaten(wanted=False)


@pytest.mark.rule("F4")
@pytest.mark.rule("F5")
def test_a_decision_under_a_claim_of_the_owner_before_is_dropped_its_facts_are_not() -> None:
    """What it was based on may never have been written, though it has the same length. The result stands; the code is replayed."""
    story = scheduled()
    held = story.take(2, lives_for=LIFE)
    story.present(held)
    story.signal("lost")  # in memory only, as seen by a worker whose claim was answered before the commit
    claimed = story.claim(lives_for=LIFE)
    story.lose_last()
    story.crash(LIFE)
    story.signal("another")
    decision = (Commands(commands=(cm.StartTimer(at=3, delay=5),)), done(held, text("paid")))
    reply = story.report(claimed, *decision)
    assert not reply.accepted
    assert reply.facts_dropped == 0
    assert story.events == ["started", "activity_scheduled", "signal_received", "activity_completed"]
    assert story.run.wants_decision
    assert story.decide(cm.StartTimer(at=4, delay=5)).accepted


@pytest.mark.rule("F4")
def test_whoever_saw_what_was_never_written_throws_its_runner_away() -> None:
    """Also when its decision asks for nothing: kept warm, it would go on from a history that is another one now."""
    story = scheduled()
    story.checked = False
    story.signal("lost")
    claimed = story.claim(lives_for=LIFE)
    story.lose_last()
    story.crash(LIFE)
    assert not story.report(claimed, Commands()).accepted
    assert story.events == ["started", "activity_scheduled"]


# --------------------------------------------------------------------------------------------------------------- strictness


@pytest.mark.rule("F4")
def test_strictly_anything_newer_drops_a_decision(lower_limits: Any) -> None:
    """The original's rule, for whoever wants it: a signal nobody has seen is enough; the next decision sees it and is taken."""
    lower_limits(strict_based_on=True)
    story = started()
    claimed = story.claim()
    story.signal("go")
    decision = Commands(commands=(cm.StartTimer(at=1, delay=5),))
    assert not story.report(claimed, decision).accepted
    assert story.events == ["started", "signal_received"]
    assert story.report(story.claim(), decision).accepted


@pytest.mark.rule("F4")
def test_strictly_a_run_still_makes_progress(lower_limits: Any) -> None:
    """Facts and decisions of several activities that end while others decide: every result is kept, the run comes to its end."""
    lower_limits(strict_based_on=True)
    story = started()
    story.decide(*(cm.ScheduleActivity(at=1, name=f"a{number}") for number in range(5)))
    claims = [story.take(number) for number in range(2, 7)]
    dropped = 0
    for claim in claims:
        claimed = story.claim() if story.run.wants_decision else None
        story.succeed(claim)
        if claimed is not None:
            dropped += not story.report(claimed, Commands()).accepted
    assert dropped == 4
    claimed = story.claim()
    assert story.report(claimed, Commands(), closing=cm.CompleteWorkflow(at=11)).closed
    assert story.events.count("activity_completed") == 5


def test_without_the_setting_what_is_newer_is_simply_later() -> None:
    """No livelock under a steady stream of signals."""
    story = started()
    claimed = story.claim()
    story.signal("go")
    assert story.report(claimed, Commands(commands=(cm.StartTimer(at=1, delay=5),))).accepted
