"""Children and messages to other runs, seen from one workflow id: what is recorded, what is sent, what is left behind."""

from typing import Any

import msgspec
import pytest

from perdure.core import commands as cm
from perdure.core.events import ChildClosed, ChildStarted, ParentLink, SignalReceived
from perdure.core.failure import Failure
from perdure.core.machine.messages import deliveries_of, is_wanted
from perdure.core.replies import Rejection, RunResult, RunStarted, Taken
from perdure.core.requests import (
    ChildRefused,
    ChildStands,
    ExternalAnswered,
    MessagesDelivered,
    RequestCancel,
    SignalBody,
    SignalWorkflow,
    StartWorkflow,
    TerminateWorkflow,
)
from perdure.testing.machine.story import Story, text

CHILD = cm.RequestChild(at=1, workflow_type="toy")
SIGNAL = cm.SignalExternal(at=1, workflow_id="other", name="go", input=(text("x"),))
DONE = RunResult(run_id="k2", status="completed", result=text("result"))


def running(*commands: Any, **fields: Any) -> Story:
    """A run `r1` of `w` whose code has asked for `commands`."""
    story = Story()
    story.start()
    story.decide(*commands, **fields)
    return story


def stands(outcome: RunResult | None = None, command: int = 2, request_id: str = "") -> ChildStands:
    return ChildStands(
        workflow_id="w",
        command=command,
        request_id=request_id or f"r1/{command}",
        child_id="r1.1",
        run_id="k1",
        outcome=outcome,
    )


def sent(story: Story) -> list[tuple[str, str]]:
    """What the state says must be on its way: kind and target."""
    return [(delivery.request.__struct_config__.tag, delivery.request.workflow_id) for delivery in deliveries_of(story.state)]


def left(story: Story) -> list[tuple[str, str, str]]:
    """What the outbox holds: kind, target and request id."""
    return [(m.kind, m.workflow_id, m.request_id) for m in (story.state.outgoing or {}).values()]


@pytest.mark.scenario(9)
def test_ids_of_children_are_made_by_the_owner() -> None:
    """Origin run id and a count over all children of the run; one that was named keeps its name and counts too."""
    story = running(CHILD, cm.RequestChild(at=1, workflow_type="toy", workflow_id="named"), CHILD)
    assert [child.event.workflow_id for child in (story.run.children or {}).values()] == ["r1.1", "named", "r1.3"]
    story.signal("go")
    story.decide(cm.RequestChild(at=5, workflow_type="toy"))
    assert list((story.run.children or {}).values())[-1].event.workflow_id == "r1.4"


def test_a_start_names_its_parent_and_may_be_repeated() -> None:
    """It is sent until it is answered, on the parent's queue; the request id is made of the run and the command."""
    story = running(CHILD)
    (delivery,) = deliveries_of(story.state)
    request = delivery.request
    assert isinstance(request, StartWorkflow)
    assert (request.workflow_id, request.request_id, request.queue) == ("r1.1", "r1/2", "default")
    assert request.parent == ParentLink(workflow_id="w", run_id="r1", command=2)
    story.crash()
    assert deliveries_of(story.state) == [delivery]


def test_a_parent_hears_once_of_each_step() -> None:
    """Started, closed; said again, or about another start of the same number, nothing happens."""
    story = running(CHILD)
    assert story.ask(stands()) == Taken(run_id="r1")
    assert story.ask(stands()) == Taken(duplicate=True)
    assert sent(story) == []
    assert story.ask(stands(DONE, request_id="r0/2")) == Taken(duplicate=True)
    story.ask(stands(DONE))
    assert story.ask(stands(DONE)) == Taken(duplicate=True)
    started, closed = story.history[-2:]
    assert isinstance(started, ChildStarted)
    assert isinstance(closed, ChildClosed)
    assert (started.run_id, closed.run_id, closed.status) == ("k1", "k2", "completed")
    assert story.run.children is None


def test_start_and_end_may_come_together() -> None:
    """After a restart the parent asks, and the child has closed long ago."""
    story = running(CHILD)
    story.ask(stands(DONE))
    assert story.events[-2:] == ["child_started", "child_closed"]


def test_a_child_that_cannot_be_started() -> None:
    """Its id is taken: the parent is told why, once."""
    story = running(CHILD)
    refused = ChildRefused(workflow_id="w", command=2, request_id="r1/2", failure=Failure(type="WorkflowAlreadyStarted"))
    story.ask(refused)
    story.ask(refused)
    assert story.events[-1] == "child_start_failed"
    assert story.run.children is None


def test_a_cancel_follows_its_start() -> None:
    """Both in one decision, and both after a crash: the child starts, then sees it."""
    story = running(CHILD, cm.CancelChild(at=1, target=-1, reason="enough"))
    assert [delivery.key for delivery in story.deliveries.values()] == ["r1/2", "r1/2:3"]
    story.crash()
    start, cancel = deliveries_of(story.state, asking=True)
    assert isinstance(start.request, StartWorkflow)
    assert isinstance(cancel.request, RequestCancel)
    assert (cancel.request.started_by, cancel.request.reason) == ("r1/2", "enough")


@pytest.mark.parametrize(
    ("policy", "kinds"),
    [("terminate", ["terminate_workflow"]), ("cancel", ["request_cancel"]), ("abandon", [])],
)
@pytest.mark.parametrize("how", ["code", "terminated", "timed out"])
def test_a_close_tells_children(policy: Any, kinds: list[str], how: str) -> None:
    """However the parent ends, each child is told what its policy says, in the transition that ends it."""
    story = Story()
    story.start(timeout=1_000)
    story.decide(cm.RequestChild(at=1, workflow_type="toy", on_parent_close=policy))
    story.ask(stands())
    if how == "code":
        story.decide(closing=cm.CompleteWorkflow(at=3))
    elif how == "terminated":
        story.terminate()
    else:
        story.sleep(1_000)
    assert not story.run.is_open
    assert [kind for kind, _, _ in left(story)] == kinds
    story.crash()
    assert [kind for kind, _ in sent(story)] == kinds
    story.ask(MessagesDelivered(workflow_id="w", request_ids=("r1/2:end:r1", "unknown")))
    assert left(story) == []
    assert story.ask(MessagesDelivered(workflow_id="w", request_ids=("r1/2:end:r1",))) == Taken(duplicate=True)


def test_a_child_that_is_asked_to_stop_is_not_terminated() -> None:
    """A cancelled parent ends at once; its child is left to clean up."""
    story = running(CHILD)
    story.ask(stands())
    story.cancel()
    story.decide(cm.CancelChild(at=4, target=2), closing=cm.CancelWorkflow(at=4))
    assert [kind for kind, _, _ in left(story)] == ["request_cancel"]


def test_what_is_asked_and_left_in_one_decision() -> None:
    """A signal is left behind; a child to be abandoned is started; one that would end with its parent is not, if nobody sent it yet."""
    abandoned = cm.RequestChild(at=1, workflow_type="toy", workflow_id="free", on_parent_close="abandon")
    story = running(CHILD, abandoned, SIGNAL, closing=cm.CompleteWorkflow(at=1))
    assert left(story) == [
        ("start_workflow", "free", "r1/3"),
        ("terminate_workflow", "r1.1", "r1/2:end:r1"),
        ("signal_workflow", "other", "r1/4"),
    ]
    starts = [d for d in story.deliveries.values() if isinstance(d.request, StartWorkflow)]
    assert [(d.request.workflow_id, is_wanted(story.state, d)) for d in starts] == [("r1.1", False), ("free", True)]


def test_what_is_left_reads_back_as_it_was() -> None:
    """A payload goes through the outbox byte for byte."""
    story = running(cm.SignalExternal(at=1, workflow_id="other", name="go", input=(msgspec.Raw(b'{"a": [1.50, "\\u00e9"]}'),)))
    (before,) = deliveries_of(story.state)
    story.terminate()
    story.crash()
    (after,) = deliveries_of(story.state)
    assert isinstance(before.request, SignalWorkflow)
    assert isinstance(after.request, SignalWorkflow)
    assert bytes(after.request.signal.input[0]) == bytes(before.request.signal.input[0])
    assert after.request.signal.signal_id == before.request.signal.signal_id == "r1/2"


def test_continue_as_new_keeps_children_for_the_last_close() -> None:
    """The successor knows nothing of them and still ends them; one that closes meanwhile is forgotten with a note."""
    story = running(CHILD, cm.RequestChild(at=1, workflow_type="toy", workflow_id="second"))
    story.ask(stands())
    story.ask(stands(command=3))
    story.decide(closing=cm.ContinueAsNew(at=5), next_run_id="r2")
    assert left(story) == []
    assert list(story.state.kin or {}) == ["r1/2", "r1/3"]
    story.ask(stands(DONE))
    assert story.note_types[-1] == "delivered"
    story.crash()
    assert list(story.state.kin or {}) == ["r1/3"]
    story.decide(closing=cm.CompleteWorkflow(at=1))
    assert left(story) == [("terminate_workflow", "second", "r1/3:end:r2")]
    story.start("another")
    assert story.state.kin is None


def test_an_answer_to_a_signal() -> None:
    """Delivered or refused, recorded once."""
    story = running(SIGNAL, cm.CancelExternal(at=1, workflow_id="other"))
    assert sent(story) == [("signal_workflow", "other"), ("request_cancel", "other")]
    for _ in range(2):
        story.ask(ExternalAnswered(workflow_id="w", command=2, request_id="r1/2"))
        story.ask(ExternalAnswered(workflow_id="w", command=3, request_id="r1/3", failure=Failure(type="NotFound")))
    assert story.events[-2:] == ["external_signal_delivered", "external_cancel_failed"]
    assert sent(story) == []


# ------------------------------------------------------------------------------------------------------------- as a child


def child_of(parent: str, request_id: str = "p/2", **fields: Any) -> Story:
    story = Story()
    story.start(request_id, parent=ParentLink(workflow_id=parent, run_id="p", command=2), **fields)
    return story


def again(story: Story, request_id: str = "p/2") -> Any:
    return story.start(request_id, parent=ParentLink(workflow_id="mum", run_id="p", command=2))


def test_a_start_that_comes_again_says_how_the_child_stands() -> None:
    """Open, closed, and after the id was used for something else: never a second run."""
    story = child_of("mum")
    assert again(story) == RunStarted(run_id="r1", attached=True)
    story.decide(closing=cm.ContinueAsNew(at=1), next_run_id="r1b")
    assert again(story) == RunStarted(run_id="r1", attached=True)
    story.decide(closing=cm.CompleteWorkflow(at=1, result=text("x")))
    outcome = again(story).outcome
    assert (outcome.run_id, outcome.status, bytes(outcome.result)) == ("r1b", "completed", b'"x"')
    story.crash()
    story.start("another")
    assert again(story) == RunStarted(run_id="r1", attached=True, superseded=True)
    assert again(story, "p/9").code == "WORKFLOW_ALREADY_STARTED"


def test_a_child_reports_its_chains_last_close() -> None:
    """Not the runs it continues as; a start that replaces it is an end like any."""
    story = child_of("mum")
    story.decide(closing=cm.ContinueAsNew(at=1), next_run_id="r1b")
    assert not story.deliveries
    story.start("another", on_conflict="terminate")
    ((_, report),) = story.deliveries.items()
    assert isinstance(report.request, ChildStands)
    assert (report.request.workflow_id, report.request.command, report.request.request_id) == ("mum", 2, "p/2")
    assert report.request.outcome is not None
    assert (report.request.run_id, report.request.outcome.run_id, report.request.outcome.status) == ("r1", "r1b", "terminated")


def test_a_message_to_a_child_never_reaches_another_run_of_its_id() -> None:
    """It follows continuations; once the chain is over it is refused as closed, whoever has the id now."""
    story = child_of("mum")
    story.decide(closing=cm.ContinueAsNew(at=1), next_run_id="r1b")
    signal = SignalWorkflow(workflow_id="w", signal=SignalBody(name="go", signal_id="p/5"), started_by="p/2")
    story.ask(signal)
    assert isinstance(story.history[-1], SignalReceived)
    story.decide(closing=cm.CompleteWorkflow(at=2))
    story.start("another")
    assert story.ask(signal).duplicate
    late = SignalWorkflow(workflow_id="w", signal=SignalBody(name="go", signal_id="p/6"), started_by="p/2")
    for request in (
        late,
        RequestCancel(workflow_id="w", request_id="p/2:7", started_by="p/2"),
        TerminateWorkflow(workflow_id="w", request_id="p/2:end", started_by="p/2"),
    ):
        refused = story.ask(request)
        assert isinstance(refused, Rejection)
        assert refused.code == "WORKFLOW_CLOSED"
    assert story.run.is_open


def test_commands_of_a_child_that_is_not_there_are_harmless() -> None:
    """A cancel that aims at something else is recorded, as every command is, and sent to nobody."""
    story = running(cm.StartTimer(at=1, delay=5))
    story.signal("go")
    story.decide(cm.CancelChild(at=3, target=2))
    assert story.events[-1] == "child_cancel_requested"
    assert sent(story) == []
