"""Activities between schedule and answer: claims, retries, bounds, heartbeats, cancel, keys."""

from typing import Any

import pytest
from msgspec import Raw

from perdure.core import commands as cm
from perdure.core.events import ActivityScheduled
from perdure.core.failure import Failure
from perdure.core.machine.activities import RELEASE_PAUSE
from perdure.core.replies import Beaten, NotWanted, Taken
from perdure.core.requests import ActivityDue, Commands, ReleaseActivity
from perdure.core.retry import RetryPolicy
from perdure.testing.machine.story import Story, done, text

SECOND = 1_000_000
QUICK = RetryPolicy(initial=1.0, jitter=0.0)


def scheduled(**fields: Any) -> Story:
    """A run with one activity, event 2, claimed by nobody."""
    story = Story()
    story.start()
    story.decide(cm.ScheduleActivity(at=1, **{"name": "charge", "retry": QUICK, **fields}))
    return story


def bound(story: Story, kind: Any, attempt: int = 1, token: str = "") -> ActivityDue:
    return ActivityDue(workflow_id="w", run_id=story.run.run_id, command=2, attempt=attempt, kind=kind, token=token)


# ----------------------------------------------------------------------------------------------------------------- claims


@pytest.mark.rule("O22")
def test_only_what_is_wanted_is_claimed() -> None:
    """Another worker's attempt, another attempt number, a finished activity, a closed run: not wanted, nothing changes."""
    story = scheduled()
    claim = story.take(2)
    assert story.try_take(2, worker="bob") == NotWanted(reason="claimed by another worker")
    assert story.try_take(2, 2) == NotWanted(reason="attempt 1 is the current one")
    story.succeed(claim)
    assert isinstance(story.try_take(2), NotWanted)
    story.decide(closing=cm.CompleteWorkflow(at=3))
    assert isinstance(story.try_take(2), NotWanted)


@pytest.mark.rule("O22")
@pytest.mark.scenario(52)
def test_a_stale_attempt_number_is_not_run() -> None:
    """After a retry a pointer to the first attempt means nothing; the attempt's number travels with every message."""
    story = scheduled()
    story.fail(story.take(2))
    story.sleep(SECOND)
    assert isinstance(story.try_take(2, 1), NotWanted)
    assert story.take(2, 2).attempt == 2


def test_a_claim_asked_for_again_is_granted_again() -> None:
    """The reply was lost: the same token gets the same claim, and it counts as a sign of life."""
    story = scheduled()
    first = story.take(2, token="mine", lives_for=10)
    story.now += 8
    again = story.take(2, token="mine", lives_for=10)
    assert (again.token, again.claimed_at) == (first.token, first.claimed_at)
    story.sleep(8)
    assert story.run.activities[2].claim is not None


def test_an_ordinary_claim_is_written_with_the_next_transition() -> None:
    """No commit for a claim alone; the note rides with whatever comes next, if the claim still lives."""
    story = scheduled()
    written = len(story.transitions)
    story.take(2)
    assert len(story.transitions) == written
    story.signal("go")
    assert story.note_types == ["decided_by", "activity_claimed"]


def test_a_claim_that_ended_before_is_never_written() -> None:
    """Its activity was answered first: the claim leaves no note, and nothing trips over it later."""
    story = scheduled()
    story.succeed(story.take(2))
    story.signal("go")
    assert story.note_types == ["decided_by"]


def test_a_claim_is_written_with_its_first_heartbeat_and_with_its_cancel() -> None:
    """Details and cancel requests do not end a claim: after a crash it is still known who runs the activity."""
    for nudge in ("beat", "cancel"):
        story = scheduled()
        claim = story.take(2)
        if nudge == "beat":
            story.beat(claim, details=text("half"))
        else:
            story.signal("go")
            story.decide(cm.CancelActivity(at=3, target=2))
        story.crash()
        found = story.run.activities[2].claim
        assert found is not None, nudge
        assert found.token == claim.token


@pytest.mark.parametrize("options", [{"retry": RetryPolicy(max_attempts=1)}, {"schedule_to_start": SECOND}])
def test_a_claim_something_depends_on_is_written_before_the_attempt_runs(options: Any) -> None:
    """The last allowed attempt, or one that must start in time: the claim is a commit of its own."""
    story = scheduled(**options)
    story.take(2)
    assert story.transitions[-1].runs[0].notes[-1].type == "activity_claimed"
    story.crash()
    assert story.run.activities[2].claim is not None


def test_the_claim_before_the_last_allowed_attempt_is_not_written_first() -> None:
    """Two attempts: the first claim waits, the second is written."""
    story = scheduled(retry=RetryPolicy(max_attempts=2, initial=0.0))
    claim = story.take(2)
    assert story.note_types == ["decided_by"]
    story.fail(claim)
    story.take(2, 2)
    assert story.note_types == ["decided_by", "attempt_failed", "activity_claimed"]


@pytest.mark.parametrize("options", [{}, {"retry": RetryPolicy(max_attempts=1)}])
def test_a_claim_given_back_costs_no_attempt(options: Any) -> None:
    """Given back untouched, written or not, the same attempt is claimed again, also after a crash."""
    story = scheduled(**options)
    claim = story.take(2)
    release = ReleaseActivity(workflow_id="w", run_id=claim.run_id, command=2, attempt=1, token=claim.token)
    assert story.ask(release) == Taken(run_id=claim.run_id)
    assert story.ask(release) == Taken(duplicate=True)
    story.crash()
    assert story.run.activities[2].claim is None
    assert story.take(2, 1, worker="bob").attempt == 1


def test_a_later_attempt_that_is_given_back_is_offered_again_after_a_pause() -> None:
    """It was due already; the law `woken` knows that whoever gave it back is not asked again at once."""
    story = Story()
    story.start()
    story.decide(cm.ScheduleActivity(at=1, name="charge"))
    story.take(2, lives_for=7)
    story.sleep(7)
    claim = story.take(2, attempt=2)
    story.ask(ReleaseActivity(workflow_id="w", run_id=claim.run_id, command=2, attempt=2, token=claim.token))
    story.sleep(RELEASE_PAUSE)
    assert story.take(2, attempt=2).attempt == 2


@pytest.mark.scenario(43)
def test_a_token_that_is_gone_can_do_nothing() -> None:
    """Heartbeat, release and results of a claim that was lost do not touch its replacement, though the worker's name is the same."""
    story = scheduled()
    old = story.take(2, lives_for=10)
    story.sleep(10)
    new = story.take(2, 2)
    assert story.beat(old) == Beaten(wanted=False)
    assert story.ask(ReleaseActivity(workflow_id="w", run_id="r1", command=2, attempt=1, token=old.token)).duplicate
    assert story.succeed(old).facts_dropped == 1
    assert story.run.activities[2].claim.token == new.token  # type: ignore[union-attr]
    assert story.succeed(new).facts_dropped == 0


# ---------------------------------------------------------------------------------------------------------------- retries


@pytest.mark.parametrize("kind", ["start_to_close", "heartbeat", "lost"])
def test_a_bound_of_an_attempt_passes_and_the_next_attempt_follows(kind: str) -> None:
    """Start-to-close, heartbeat and loss end the attempt at their instant, not before; the worker is told; the activity goes on."""
    options = {kind: 10} if kind != "lost" else {}
    story = scheduled(**options)
    claim = story.take(2, lives_for=10 if kind == "lost" else 0)
    story.sleep(9)
    assert story.run.activities[2].attempt == 1
    story.sleep(1)
    note = story.notes["r1"][-1]
    assert (note.type, note.kind, note.attempt) == ("attempt_failed", kind, 1)  # type: ignore[union-attr]
    assert [notice.token for _, notice in story.cancels] == [claim.token]
    story.sleep(SECOND)
    assert story.take(2, 2).attempt == 2


@pytest.mark.parametrize("kind", ["start_to_close", "heartbeat", "lost"])
def test_the_last_allowed_attempt_passes_its_bound(kind: str) -> None:
    """Without another attempt the activity is answered with what ended it."""
    options = {kind: 10} if kind != "lost" else {}
    story = scheduled(retry=RetryPolicy(max_attempts=1), **options)
    story.take(2, lives_for=10 if kind == "lost" else 0)
    story.sleep(10)
    answer = story.history[-1]
    assert (answer.type, answer.kind, answer.command) == ("activity_timed_out", kind, 2)  # type: ignore[union-attr]


def test_a_lost_attempt_is_followed_at_once() -> None:
    """A lost worker is no reason to wait: the next attempt may be claimed in the same instant."""
    story = scheduled()
    story.take(2, lives_for=10)
    story.sleep(10)
    assert story.take(2, 2).attempt == 2


@pytest.mark.rule("F6")
def test_signs_of_life_put_the_loss_off() -> None:
    """A claim is lost only after its whole period without a beat."""
    story = scheduled()
    claim = story.take(2, lives_for=10)
    for _ in range(5):
        story.sleep(9)
        assert story.beat(claim) == Beaten(wanted=True)
    assert story.run.activities[2].attempt == 1
    story.sleep(10)
    assert story.run.activities[2].attempt == 2


def test_schedule_to_start_counts_only_the_first_wait() -> None:
    """Unclaimed in time it ends the activity for good; claimed in time it no longer matters, also if that attempt fails."""
    story = scheduled(schedule_to_start=10)
    story.sleep(10)
    assert (story.history[-1].type, story.history[-1].kind) == ("activity_timed_out", "schedule_to_start")  # type: ignore[union-attr]
    story = scheduled(schedule_to_start=10)
    claim = story.take(2)
    story.sleep(20)
    story.fail(claim)
    story.sleep(5 * SECOND)
    assert story.run.activities[2].attempt == 2


def test_schedule_to_start_still_counts_after_a_claim_was_given_back() -> None:
    """A claim given back after the bound leaves nobody waiting for ever."""
    story = scheduled(schedule_to_start=10)
    claim = story.take(2)
    story.sleep(20)
    story.ask(ReleaseActivity(workflow_id="w", run_id="r1", command=2, attempt=1, token=claim.token))
    story.sleep(0)
    assert story.events[-1] == "activity_timed_out"


def test_schedule_to_close_spans_all_attempts() -> None:
    """The bound runs on over retries and ends whatever attempt it meets."""
    story = scheduled(schedule_to_close=10 * SECOND)
    story.fail(story.take(2))
    story.sleep(SECOND)
    claim = story.take(2, 2)
    story.sleep(9 * SECOND - 1)
    assert story.run.activities
    story.sleep(1)
    answer = story.history[-1]
    assert (answer.type, answer.kind, answer.attempt) == ("activity_timed_out", "schedule_to_close", 2)  # type: ignore[union-attr]
    assert story.cancels[-1][1].token == claim.token


def test_a_retry_that_could_not_begin_in_time_is_not_waited_for() -> None:
    """When the next attempt would come after schedule-to-close, the failure is the answer at once."""
    story = scheduled(schedule_to_close=SECOND)
    story.fail(story.take(2))
    assert story.events[-1] == "activity_failed"


@pytest.mark.scenario(68)
def test_a_retry_is_never_early() -> None:
    """Also for a delay that is no whole number of microseconds as a float: not claimable, and not announced, before it is over."""
    story = scheduled(retry=RetryPolicy(initial=1.001, jitter=0.0))
    story.fail(story.take(2))
    story.sleep(1_000_999)
    assert story.try_take(2, 2) == NotWanted(reason="not due")
    assert ("task", "r1", 2, 2) not in story.published
    story.sleep(1)
    assert ("task", "r1", 2, 2) in story.published
    assert story.take(2, 2).attempt == 2


@pytest.mark.scenario(65)
@pytest.mark.scenario(67)
def test_a_long_delay_is_one_wake_and_one_task() -> None:
    """A delay of days is kept by the owner: until it is over nothing is published, then one task, whatever a broker would do."""
    story = scheduled(retry=RetryPolicy(initial=3 * 86_400.0, max_interval=1e9, jitter=0.0))
    story.published.clear()
    story.fail(story.take(2))
    story.sleep(3 * 86_400 * SECOND - 1)
    assert story.published == {}
    story.sleep(1)
    assert list(story.published) == [("task", "r1", 2, 2)]


@pytest.mark.scenario(67)
def test_a_hundred_thousand_attempts_wait_the_same_bounded_time() -> None:
    """Far beyond where powers of two overflow, the retry still waits the policy's bound."""
    story = scheduled()
    story.checked = False
    story.run.activities[2].attempt = 10**6
    story.fail(story.take(2, 10**6))
    assert story.run.activities[2].retry_at - story.now == 100 * SECOND


@pytest.mark.parametrize(
    "failure",
    [
        Failure(type="Boom", non_retryable=True),
        Failure(type="Wrapped", cause=Failure(type="Boom", non_retryable=True)),
        Failure(type="Fatal"),
        Failure(type="VeryFatal", bases=("Fatal", "Exception")),
        Failure(type="Wrapped", cause=Failure(type="Fatal")),
    ],
)
def test_what_is_not_retryable_ends_the_activity(failure: Failure) -> None:
    """Marked so, named so, a subclass of a named one, or any of these in the cause chain."""
    story = scheduled(retry=RetryPolicy(non_retryable=("Fatal",)))
    story.fail(story.take(2), failure)
    assert (story.events[-1], story.history[-1].failure) == ("activity_failed", failure)  # type: ignore[union-attr]


def test_a_failure_may_ask_for_its_own_delay() -> None:
    """`next_retry_delay` replaces the policy's."""
    story = scheduled()
    story.fail(story.take(2), Failure(type="Later", next_retry_delay=7))
    assert story.run.activities[2].retry_at == story.now + 7


def test_first_and_last_failures_are_kept() -> None:
    """Of fifteen failed attempts the first three and the last seven are remembered; every one is noted."""
    story = scheduled(retry=RetryPolicy(initial=0.0))
    for attempt in range(1, 16):
        story.fail(story.take(2, attempt), f"boom {attempt}")
    kept = [note.attempt for note in story.run.activities[2].failures]
    assert kept == [1, 2, 3, 9, 10, 11, 12, 13, 14, 15]
    assert story.note_types.count("attempt_failed") == 15


# ------------------------------------------------------------------------------------------------------------- heartbeats


def test_heartbeat_details_are_noted_at_most_every_five_seconds() -> None:
    """Details in between are kept in memory; what the attempt last said is noted when it fails, for the next one."""
    story = scheduled()
    claim = story.take(2)
    for number in range(12):
        story.beat(claim, details=text(f"step {number}"))
        story.sleep(SECOND)
    assert story.note_types.count("heartbeat_noted") == 3
    story.fail(claim)
    story.sleep(SECOND)
    assert bytes(story.take(2, 2).heartbeat_details) == b'"step 11"'


def test_a_beat_without_details_writes_nothing() -> None:
    """A sign of life costs no commit."""
    story = scheduled()
    claim = story.take(2)
    written = len(story.transitions)
    for _ in range(3):
        story.beat(claim)
    assert len(story.transitions) == written


# ----------------------------------------------------------------------------------------------------------------- cancel


@pytest.mark.parametrize("on_cancel", ["try", "wait"])
def test_cancelling_an_activity_nobody_runs_answers_it_at_once(on_cancel: Any) -> None:
    """Not claimed, or waiting for its next attempt: cancelled in the same write, never run again."""
    for retrying in (False, True):
        story = scheduled(on_cancel=on_cancel)
        if retrying:
            story.fail(story.take(2))
        story.signal("stop")
        story.decide(cm.CancelActivity(at=3, target=2))
        assert story.events[-2:] == ["activity_cancel_requested", "activity_cancelled"]
        story.sleep(5 * SECOND)
        assert isinstance(story.try_take(2, 2 if retrying else 1), NotWanted)


@pytest.mark.scenario(66)
@pytest.mark.parametrize("on_cancel", ["try", "wait"])
@pytest.mark.parametrize("end", ["cancelled", "succeeded", "failed", "lost", "released"])
def test_cancelling_a_running_activity_is_state(on_cancel: Any, end: str) -> None:
    """The worker is told, hears it with each beat, also after a crash; however its attempt ends there is one answer and no retry."""
    story = scheduled(on_cancel=on_cancel)
    claim = story.take(2, lives_for=10)
    story.signal("stop")
    story.decide(cm.CancelActivity(at=3, target=2))
    assert story.cancels[-1] == ("ann", type(story.cancels[-1][1])(token=claim.token))
    assert story.events[-1] == "activity_cancel_requested"
    if end != "lost":
        story.crash()
        assert story.beat(claim) == Beaten(wanted=True, cancelled=True)
    match end:
        case "cancelled":
            story.fail(claim, Failure(type="CancelledError"), cancelled=True)
        case "succeeded":
            story.succeed(claim)
        case "failed":
            story.fail(claim)
        case "lost":
            story.sleep(10)
        case _:
            story.ask(ReleaseActivity(workflow_id="w", run_id="r1", command=2, attempt=1, token=claim.token))
    assert story.events[-1] == ("activity_completed" if end == "succeeded" else "activity_cancelled")
    story.sleep(100 * SECOND)
    assert not story.run.activities


def test_an_activity_cancelled_twice_is_answered_once() -> None:
    """Two requests in one report, one answer."""
    story = scheduled()
    story.signal("stop")
    story.decide(cm.CancelActivity(at=3, target=2), cm.CancelActivity(at=3, target=2))
    assert story.events[-3:] == ["activity_cancel_requested", "activity_cancelled", "activity_cancel_requested"]


def test_an_activity_scheduled_and_cancelled_in_one_report_is_never_sent() -> None:
    """Referred to by its place in the report; no task leaves, no worker gets it."""
    story = Story()
    story.start()
    story.signal("stop")
    claimed = story.claim()
    step = Commands(commands=(cm.ScheduleActivity(at=1, name="charge"), cm.CancelActivity(at=2, target=-1)))
    reply = story.report(claimed, step, room=5, queues=("default",))
    assert story.events[2:] == ["activity_scheduled", "activity_cancel_requested", "activity_cancelled"]
    assert (reply.activities, story.published) == ((), {})


def test_bounds_brought_for_what_is_over_say_nothing() -> None:
    """Each bound of an answered activity, an older attempt or another claim is out of date."""
    story = scheduled(start_to_close=10, heartbeat=10, schedule_to_close=10**9, schedule_to_start=10)
    claim = story.take(2, lives_for=10)
    for stale in (bound(story, "heartbeat", 2), bound(story, "lost", 1, "other"), bound(story, "schedule_to_start")):
        assert story.ask(stale) == Taken(duplicate=True)
    story.succeed(claim)
    for kind in ("start_to_close", "heartbeat", "schedule_to_close", "schedule_to_start", "lost"):
        assert story.ask(bound(story, kind, 1, claim.token)) == Taken(duplicate=True)


# ------------------------------------------------------------------------------------------------------- keys, dispatching


@pytest.mark.rule("O23")
def test_keys_are_stable_over_retries_and_blind_to_other_activities() -> None:
    """The k-th `charge` of a run has one key, whatever is scheduled around it and however often it is tried."""
    story = Story()
    story.start(run_id="r1")
    story.decide(
        *[cm.ScheduleActivity(at=1, name=name, retry=RetryPolicy(initial=0.0)) for name in ("charge", "ship", "charge")]
    )
    first, second = story.take(2), story.take(4)
    other = Story()
    other.start(run_id="r1")
    other.decide(*[cm.ScheduleActivity(at=1, name=name) for name in ("ship", "ship", "charge", "pack", "charge")])
    assert other.take(4).idempotency_key == first.idempotency_key
    assert other.take(6).idempotency_key == second.idempotency_key != first.idempotency_key
    story.fail(first)
    story.crash()
    assert story.take(2, 2).idempotency_key == first.idempotency_key


@pytest.mark.rule("O23")
def test_an_activitys_own_key_wins_and_a_continued_run_has_its_own() -> None:
    """`options(idempotency_key=…)` is used as it is; the next run of a chain charges anew."""
    story = scheduled(idempotency_key="mine")
    assert story.take(2).idempotency_key == "mine"
    story = scheduled()
    before = story.take(2).idempotency_key
    story.signal("go")
    story.decide(closing=cm.ContinueAsNew(at=3), next_run_id="r2")
    story.signal("go")
    story.decide(cm.ScheduleActivity(at=1, name="charge"))
    number = next(event.id for event in story.history if isinstance(event, ActivityScheduled))
    assert story.take(number).idempotency_key != before


def test_a_worker_gets_what_it_has_room_for_on_its_queues() -> None:
    """Eager claims ride in the commit that scheduled the activities; the rest is sent to the queues."""
    story = Story()
    story.start()
    asked = [cm.ScheduleActivity(at=1, name=f"a{n}", queue="other" if n == 1 else "") for n in range(4)]
    reply = story.decide(*asked, room=2, queues=("default",))
    assert [claim.scheduled.name for claim in reply.activities] == ["a0", "a2"]
    assert [(task.command, task.queue) for task in story.published.values()] == [(3, "other"), (5, "default")]
    assert len(story.transitions) == 2


def test_bounds_of_a_claim_are_told_to_its_worker() -> None:
    """The deadline is the first of start-to-close, from the claim, and schedule-to-close, from the schedule."""
    story = scheduled(start_to_close=50, schedule_to_close=70)
    scheduled_at = story.now
    story.now += 10
    assert story.take(2).deadline == scheduled_at + 60
    story = scheduled(start_to_close=50, schedule_to_close=55)
    story.now += 10
    assert story.take(2).deadline == story.now - 10 + 55


def test_results_are_carried_as_they_came() -> None:
    """Bytes in, the same bytes out, and one commit for them."""
    story = scheduled()
    claim = story.take(2)
    result = Raw(b'{"total": 9.990, "ok":true}')
    story.report(None, done(claim, result))
    assert story.history[-1].result == result  # type: ignore[union-attr]
