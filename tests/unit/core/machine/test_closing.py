"""Closing: signals hold it back three times at most, continue-as-new never is and carries on what nobody took."""

from typing import Any

import pytest

from perdure.core import commands as cm
from perdure.core.events import SignalReceived
from perdure.core.failure import Failure
from perdure.core.requests import Commands
from perdure.testing.machine.story import Story, done, text

COMPLETE = cm.CompleteWorkflow(at=1, result=text("done"))


def started(**fields: Any) -> Story:
    story = Story()
    story.start(**fields)
    return story


@pytest.mark.rule("F4")
@pytest.mark.parametrize("ending", [COMPLETE, cm.FailWorkflow(at=1, failure=Failure(type="Boom"))])
def test_a_close_is_sent_back_three_times_then_taken(ending: Any) -> None:
    """Each time the unseen signals come along; the fourth is accepted and counts what it has not seen."""
    story = started()
    reply: Any = story.claim()
    for number in range(3):
        story.signal("go", f"s{number}")
        reply = story.report(reply, Commands(), closing=ending)
        assert (reply.accepted, reply.close_refused, reply.closed) == (True, True, False)
        assert reply.events[-1].signal_id == f"s{number}"
        assert reply.token
    story.signal("go", "s3")
    reply = story.report(reply, Commands(), closing=ending, untaken=2)
    assert (reply.closed, story.history[-1].unseen_signals) == (True, 3)  # type: ignore[union-attr]


def test_commands_before_a_refused_close_are_kept() -> None:
    """Only the closing command is refused."""
    story = started()
    claimed = story.claim()
    story.signal("go")
    reply = story.report(claimed, Commands(commands=(cm.RecordSideEffect(at=1, result=text("x")),)), closing=COMPLETE)
    assert (reply.close_refused, story.events[-1]) == (True, "side_effect_recorded")


def test_only_signals_hold_a_close_back() -> None:
    """A cancel request and an activity's result that crossed it do not."""
    story = started()
    claim = story.decide(cm.ScheduleActivity(at=1, name="charge"), room=1, queues=("default",)).activities[0]
    story.cancel()
    claimed = story.claim()
    story.cancel()
    story.succeed(claim)
    reply = story.report(claimed, Commands(), closing=COMPLETE)
    assert (reply.closed, story.history[-1].based_on, story.history[-1].at) == (True, 3, 1)  # type: ignore[union-attr]


def test_a_fused_close_is_one_commit() -> None:
    """The last result and the end of the run are one write; nothing can be unseen, for the prefix was exact."""
    story = started()
    reply = story.decide(cm.ScheduleActivity(at=1, name="charge"), room=1, queues=("default",))
    written = len(story.transitions)
    fact = done(reply.activities[0], fed_at=story.now)
    closed = story.report(reply, Commands(), fact, Commands(), closing=cm.CompleteWorkflow(at=3))
    assert (closed.closed, len(story.transitions)) == (True, written + 1)
    assert (story.history[-1].at, story.history[-1].based_on) == (3, 3)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("ending", "status", "event"),
    [
        (COMPLETE, "completed", "completed"),
        (cm.FailWorkflow(at=1, failure=Failure(type="Boom")), "failed", "failed"),
        (cm.CancelWorkflow(at=1, reason="enough"), "cancelled", "cancelled"),
    ],
)
def test_ends_of_a_run(ending: Any, status: str, event: str) -> None:
    """The status says how; activities end, their workers are told; nothing wakes a closed run."""
    story = started(timeout=1_000)
    claim = story.decide(
        cm.ScheduleActivity(at=1, name="charge"), cm.StartTimer(at=1, delay=9), room=1, queues=("default",)
    ).activities[0]
    story.signal("go")
    story.decide(closing=ending)
    assert (story.run.status, story.events[-1]) == (status, event)
    assert story.cancels[-1][1].token == claim.token
    length = len(story.history)
    story.sleep(10_000)
    assert len(story.history) == length


# ------------------------------------------------------------------------------------------------------- continue as new


def continued(story: Story, at: int, claimed: Any = None, **fields: Any) -> Any:
    fields = {"next_run_id": "next", "next_seed": 7, **fields}
    untaken = tuple(event.id for event in fields.get("carried", ()))
    closing = cm.ContinueAsNew(at=at, input=(text("again"),), untaken=untaken)
    if claimed is None:
        return story.decide(closing=closing, **fields)
    return story.report(claimed, Commands(), closing=closing, **fields)


@pytest.mark.scenario(30)
@pytest.mark.scenario(32)
def test_it_is_never_refused_and_carries_what_came_meanwhile() -> None:
    """Signals and cancel requests after its input become the successor's first inputs, in order, in the same commit."""
    story = started()
    claimed = story.claim()
    story.signal("go", "a")
    story.cancel("c")
    story.signal("go", "b")
    written = len(story.transitions)
    assert continued(story, 1, claimed).closed
    assert len(story.transitions) == written + 1
    assert story.events == ["started", "signal_received", "cancel_requested", "signal_received"]
    carried = [(event.signal_id, event.carried_from) for event in story.history if isinstance(event, SignalReceived)]
    assert carried == [("a", 2), ("b", 4)]
    assert story.run.wants_decision


def test_signals_fed_and_not_taken_are_carried_taken_ones_are_not() -> None:
    """What a decision before has covered the worker hands back; what code took stays behind."""
    story = started()
    story.signal("raw", "kept")
    story.signal("go", "taken")
    story.decide(cm.RecordSideEffect(at=3, result=text("x")))
    story.signal("raw", "kept too")
    kept = tuple(event for event in story.history if isinstance(event, SignalReceived) and event.name == "raw")
    continued(story, 5, carried=kept)
    assert [event.signal_id for event in story.history if isinstance(event, SignalReceived)] == ["kept", "kept too"]


def test_a_signal_named_as_untaken_must_be_there() -> None:
    """A worker that names a signal and does not hand it over is refused: it would be lost without a trace."""
    story = started()
    story.signal("raw", "kept")
    story.decide(cm.RecordSideEffect(at=2, result=text("x")))
    story.signal("go")
    refused = story.decide(closing=cm.ContinueAsNew(at=4, untaken=(2,)), next_run_id="next")
    assert (refused.code, story.run.run_id) == ("INVALID_ARGUMENT", "r1")


def test_results_reported_with_it_do_not_cut_it_off() -> None:
    """A result in the same report does not matter any more; were the close cut there, what its commands covered would be lost."""
    story = started()
    reply = story.decide(cm.ScheduleActivity(at=1, name="charge"), room=1, queues=("default",))
    story.signal("go", "early")
    story.signal("go", "late")
    claimed = story.claim(held=reply.length)
    steps = (Commands(commands=(cm.RecordSideEffect(at=3, result=text("x")),)), done(reply.activities[0]))
    closing = cm.ContinueAsNew(at=3)
    assert story.report(claimed, *steps, closing=closing, next_run_id="next").closed
    assert [event.signal_id for event in story.history if isinstance(event, SignalReceived)] == ["late"]


def test_a_stale_result_behind_the_end_does_not_hold_it_back() -> None:
    """The code has ended at what was fed before; were its end dropped for a result nobody wants, nobody would be asked for it again."""
    story = started()
    reply = story.decide(cm.ScheduleActivity(at=1, name="charge"), room=1, queues=("default",))
    claim = reply.activities[0]
    story.signal("go")
    claimed = story.claim(held=reply.length)
    stale = done(claim)
    story.succeed(claim)
    reply = story.report(claimed, Commands(), stale, closing=cm.CompleteWorkflow(at=3))
    assert (reply.closed, reply.facts_dropped, story.run.status) == (True, 1, "completed")
    assert story.history[-1].based_on == 3  # type: ignore[union-attr]


def test_an_end_that_came_at_a_result_falls_with_it() -> None:
    """The result was not taken as it was fed: the end is asked for again, after the result in its place."""
    story = started()
    reply = story.decide(cm.ScheduleActivity(at=1, name="charge"), room=1, queues=("default",))
    story.signal("go")
    fused = done(reply.activities[0], fed_at=story.now)
    reply = story.report(reply, fused, Commands(), closing=cm.CompleteWorkflow(at=3))
    assert (reply.accepted, reply.closed, story.run.wants_decision) == (False, False, True)


def test_what_a_successor_inherits() -> None:
    """Type, queue, timeout, memo, attributes, request id, origin and the chain's first run; its seed and time are its own."""
    story = started(
        queue="q", timeout=10**9, memo={"m": text("1")}, attributes={"a": 1}, origin="visitor", priority=3, workflow_type="toy"
    )
    continued(story, 1)
    story.decide(closing=cm.ContinueAsNew(at=1, workflow_type="other"), next_run_id="third")
    second, third = story.histories["next"][0], story.histories["third"][0]
    for field in ("queue", "timeout", "memo", "attributes", "origin", "priority", "request_id"):
        assert getattr(third, field) == getattr(story.histories["r1"][0], field), field
    assert (second.seed, second.continued_from, second.first_run_id) == (7, "r1", "r1")  # type: ignore[union-attr]
    assert (third.workflow_type, third.continued_from, third.first_run_id) == ("other", "next", "r1")  # type: ignore[union-attr]
    assert [story.histories[run][-1].type for run in ("r1", "next")] == ["continued_as_new"] * 2


def test_a_successor_has_its_own_time_limit() -> None:
    """The bound counts from the successor's start."""
    story = started(timeout=100)
    story.sleep(90)
    continued(story, 1)
    story.sleep(99)
    assert story.run.is_open
    story.sleep(1)
    assert (story.run.run_id, story.run.status) == ("next", "timed_out")


def test_it_needs_a_run_id() -> None:
    """The machine makes up nothing."""
    story = started()
    assert continued(story, 1, next_run_id="").code == "INVALID_ARGUMENT"
    assert story.run.is_open
