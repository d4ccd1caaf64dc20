"""Starts: one run at a time under an id, the same request always the same run, conflicts and reuse as asked."""

from typing import Any

import pytest

from perdure.core import commands as cm
from perdure.core.failure import Failure
from perdure.core.replies import Rejection, RunStarted, Taken
from perdure.core.requests import RunDue, SignalBody
from perdure.testing.machine.story import Story

GO = SignalBody(name="go", signal_id="g1")


def end(story: Story, how: str) -> None:
    match how:
        case "completed":
            story.decide(closing=cm.CompleteWorkflow(at=1))
        case "failed":
            story.decide(closing=cm.FailWorkflow(at=1, failure=Failure(type="Boom")))
        case "cancelled":
            story.decide(closing=cm.CancelWorkflow(at=1))
        case "terminated":
            story.terminate()
        case _:
            story.sleep(10)
    assert story.run.status == how


def ended(how: str) -> Story:
    story = Story()
    story.start("first", timeout=10 if how == "timed_out" else 0)
    end(story, how)
    return story


def code(reply: Any) -> str:
    return reply.code if isinstance(reply, Rejection) else "ok"


@pytest.mark.rule("O39")
@pytest.mark.scenario(42)
def test_two_starts_of_one_id_make_one_run() -> None:
    """The second is told who holds the id, or attaches, as it asked; nothing is written for it."""
    story = Story()
    first = story.start("one")
    refused = story.start("two")
    attached = story.start("three", on_conflict="attach")
    assert (code(refused), refused.fields) == ("WORKFLOW_ALREADY_STARTED", {"run_id": first.run_id})
    assert attached == RunStarted(run_id=first.run_id, attached=True)
    assert (list(story.histories), len(story.transitions)) == ([first.run_id], 1)


@pytest.mark.rule("O39")
@pytest.mark.parametrize("how", ["completed", "failed", "cancelled", "terminated", "timed_out"])
@pytest.mark.parametrize("reuse", ["always", "failed", "never"])
def test_a_start_repeated_after_the_close_gets_that_run(how: str, reuse: Any) -> None:
    """Whatever `reuse` says, the same request means the same run, open or closed."""
    story = ended(how)
    closed = story.run.run_id
    assert story.start("first", reuse=reuse) == RunStarted(run_id=closed)
    assert list(story.histories) == [closed]


def test_a_start_repeated_after_continue_as_new_gets_the_chain() -> None:
    """The request that began a chain still finds it when it has gone on."""
    story = Story()
    story.start("first")
    story.decide(closing=cm.ContinueAsNew(at=1), next_run_id="next")
    assert story.start("first") == RunStarted(run_id="next")


@pytest.mark.parametrize(
    ("how", "reuse", "expected"),
    [
        ("completed", "always", "ok"),
        ("completed", "failed", "WORKFLOW_ALREADY_STARTED"),
        ("completed", "never", "WORKFLOW_ALREADY_STARTED"),
        ("failed", "failed", "ok"),
        ("cancelled", "failed", "ok"),
        ("terminated", "failed", "ok"),
        ("timed_out", "failed", "ok"),
        ("timed_out", "never", "WORKFLOW_ALREADY_STARTED"),
    ],
)
def test_reuse_of_a_closed_id(how: str, reuse: Any, expected: str) -> None:
    """`always` starts anew, `failed` only after an end that was no success, `never` not at all."""
    assert code(ended(how).start("second", reuse=reuse)) == expected


def test_conflict_terminate_ends_one_run_and_starts_the_other_in_one_write() -> None:
    """The open run is terminated and its successor begins in the same transition, not earlier than it ended."""
    story = Story()
    old = story.start("one").run_id
    story.now -= 500
    new = story.start("two", on_conflict="terminate").run_id
    assert [change.run_id for change in story.transitions[-1].runs] == [old, new]
    assert story.histories[old][-1].type == "terminated"
    assert story.histories[new][0].time >= story.histories[old][-1].time


def test_an_empty_request_id_finds_nothing() -> None:
    """Two starts without a request id are two starts."""
    story = Story()
    story.start("")
    assert code(story.start("")) == "WORKFLOW_ALREADY_STARTED"


def test_a_run_times_out_once_and_not_early() -> None:
    """A run's own bound closes it at its instant; brought too early it waits, brought again it says nothing."""
    story = Story()
    story.start(timeout=100)
    due = RunDue(workflow_id="w", run_id=story.run.run_id)
    story.ask(due)
    assert story.events == ["started"]
    story.sleep(99)
    assert story.run.is_open
    story.sleep(1)
    assert (story.run.status, story.history[-1].time - story.history[0].time) == ("timed_out", 100)
    assert story.ask(due) == Taken(duplicate=True)


# ------------------------------------------------------------------------------------------------------ signal with start


@pytest.mark.rule("F8")
@pytest.mark.rule("F9")
def test_signal_with_start_delivers_right_behind_started() -> None:
    """The signal is there before any code runs, in the same write."""
    story = Story()
    story.start("one", signal=GO)
    assert (story.events, len(story.transitions)) == (["started", "signal_received"], 1)


@pytest.mark.rule("F8")
def test_signal_with_start_repeated_after_the_close_starts_nothing() -> None:
    """While its signal id is remembered, a repeated signal-with-start is answered with the run that got it."""
    story = Story()
    first = story.start("one", signal=GO).run_id
    story.decide(closing=cm.CompleteWorkflow(at=2))
    assert story.start("two", signal=GO) == RunStarted(run_id=first, attached=True)
    assert list(story.histories) == [first]


@pytest.mark.rule("F8")
def test_signal_with_start_reaches_the_open_run_once() -> None:
    """Attached to an open run it is one signal; sent again, none."""
    story = Story()
    story.start("one")
    for request_id in ("two", "three"):
        story.start(request_id, on_conflict="attach", signal=GO)
    assert story.events == ["started", "signal_received"]
