"""Updates in the machine: what is new waits, what is remembered stands, what is accepted follows the fence of decisions."""

import pytest
from msgspec.structs import replace

from perdure.core import commands as cm
from perdure.core.events import Reset, UpdateAccepted, UpdateBody, UpdateCompleted
from perdure.core.failure import Failure
from perdure.core.machine.updates import redelivered, standing
from perdure.core.replies import NotWanted, Rejection, UpdateResult, UpdateWaits, WorkflowClaimed
from perdure.core.requests import Commands, PauseWorkflow, RefusedUpdate
from perdure.core.retry import RetryPolicy
from perdure.core.transition import RunChange, Transition
from perdure.testing.machine.story import Story, text


def body(update_id: str = "u1", **fields: object) -> UpdateBody:
    return UpdateBody(update_id=update_id, name="add", input=(text("x"),), **fields)  # type: ignore[arg-type]


def accept(update_id: str = "u1", at: int = 1) -> cm.AcceptUpdate:
    return cm.AcceptUpdate(at=at, name="add", update_id=update_id, fed_at=5, input=(text("x"),))


def complete(target: int = -1, update_id: str = "u1", at: int = 1) -> cm.CompleteUpdate:
    return cm.CompleteUpdate(at=at, update_id=update_id, target=target, result=text("done"))


@pytest.fixture
def story() -> Story:
    """A run whose only input was decided on."""
    story = Story()
    story.start(run_id="r")
    story.decide()
    return story


def test_a_new_update_waits_and_writes_nothing(story: Story) -> None:
    """It is nowhere in the state: only the owner's memory holds it, and a client may send it again."""
    before = len(story.transitions)
    assert story.update("add", "u1") == UpdateWaits(run_id="r")
    assert story.update("add", "u1") == UpdateWaits(run_id="r")
    assert len(story.transitions) == before


def test_a_run_without_unseen_inputs_may_be_claimed_for_an_update(story: Story) -> None:
    """`waiting` is why: without it there is nothing new to decide."""
    assert isinstance(story.claim(), NotWanted)
    claimed = story.claim(waiting=(body(),))
    assert isinstance(claimed, WorkflowClaimed)
    assert claimed.updates == (body(),)


def test_an_accepted_update_is_recorded_and_remembered(story: Story) -> None:
    """Acceptance, its handler's commands and its end are one decision; the id then stands for what is recorded."""
    reply = story.decide(accept(), cm.StartTimer(at=1, delay=7), complete(), waiting=(body(),))
    assert reply.accepted
    assert story.events[1:] == ["update_accepted", "timer_started", "update_completed"]
    accepted, _, completed = story.history[1:]
    assert isinstance(accepted, UpdateAccepted)
    assert isinstance(completed, UpdateCompleted)
    assert (accepted.fed_at, accepted.at, completed.command) == (5, 1, accepted.id)
    assert story.update("add", "u1") == UpdateResult(run_id="r", update_id="u1", status="accepted", command=2)
    assert standing("r", "u1", story.history) == UpdateResult(
        run_id="r", update_id="u1", status="completed", command=2, result=text("done")
    )


def test_a_handler_may_go_on_over_many_decisions_and_a_crash(story: Story) -> None:
    """The run knows it as open until it has ended."""
    story.decide(accept(), waiting=(body(),))
    assert story.run.updates == {2: "u1"}
    story.crash()
    assert story.run.updates == {2: "u1"}
    story.signal("go")
    story.decide(cm.FailUpdate(at=3, update_id="u1", target=2, failure=Failure(type="Boom")))
    assert story.run.updates == {}
    found = standing("r", "u1", story.history)
    assert found is not None
    assert found.status == "failed"


def test_an_update_is_accepted_once(story: Story) -> None:
    """Whoever accepts it again has seen another history: that decision is dropped, the history untouched."""
    claimed = story.claim(waiting=(body(),), lives_for=10)
    story.sleep(10)
    other = story.claim("bob", waiting=(body(),))
    assert story.report(other, Commands(commands=(accept(), complete())), worker="bob").accepted
    assert not story.report(claimed, Commands(commands=(accept(),))).accepted
    story.signal("go")
    assert not story.decide(accept(at=4)).accepted
    assert story.events.count("update_accepted") == 1
    assert not story.decide(accept("u2", at=4), accept("u2", at=4)).accepted


def test_a_refusal_counts_only_with_the_claim_and_the_fence(story: Story) -> None:
    """A validator that looked at what is not so has judged nothing; with the claim it costs no commit."""
    no = (RefusedUpdate(update_id="u1", failure=Failure(type="No")),)
    claimed = story.claim(waiting=(body(),), lives_for=10)
    story.sleep(10)
    assert not story.report(claimed, Commands(), refused=no, waiting=(body(),)).accepted
    before = len(story.transitions)
    claimed = story.claim(waiting=(body(),))
    reply = story.report(claimed, Commands(), refused=no, waiting=(body(),))
    assert reply.accepted
    assert (reply.token, reply.updates) == ("", ())
    assert len(story.transitions) == before


def test_what_still_waits_comes_with_the_reply(story: Story) -> None:
    """The reporting worker keeps the claim and is offered the rest; without more it gives the claim up."""
    claimed = story.claim(waiting=(body("u1"),))
    waiting = (body("u1"), body("u2"))
    reply = story.report(claimed, Commands(commands=(accept("u1"), complete())), waiting=waiting)
    assert reply.updates == (body("u2"),)
    reply = story.report(reply, Commands(commands=(accept("u2"), complete(update_id="u2"))), waiting=(body("u2"),))
    assert (reply.accepted, reply.token, reply.updates) == (True, "", ())


def test_an_end_refers_to_an_open_update(story: Story) -> None:
    """One that is not open, of another id, or ended before in the same report is asked for by no code: the decision is dropped."""
    assert not story.decide(complete(target=1), waiting=(body(),)).accepted
    assert not story.decide(accept(), complete(update_id="u2"), waiting=(body(),)).accepted
    assert not story.decide(accept(), complete(), complete(), waiting=(body(),)).accepted
    assert not story.decide(cm.StartTimer(at=1, delay=1), accept(), complete(), waiting=(body(),)).accepted
    assert story.decide(cm.StartTimer(at=1, delay=1), accept(), complete(-2), waiting=(body(),)).accepted


@pytest.mark.scenario(23)
def test_a_signal_that_came_meanwhile_is_later(story: Story) -> None:
    """The worker had not seen it: the update stands before it in time, and after it in the history, at the input it was fed after."""
    claimed = story.claim(waiting=(body(),))
    story.signal("go")
    assert story.report(claimed, Commands(commands=(accept(),))).accepted
    assert story.events == ["started", "signal_received", "update_accepted"]
    accepted = story.history[-1]
    assert isinstance(accepted, UpdateAccepted)
    assert (accepted.at, accepted.based_on) == (1, 1)
    assert story.run.wants_decision


@pytest.mark.scenario(31)
def test_an_update_whose_run_ended_first_is_forgotten(story: Story) -> None:
    """Its id may be sent again: to the successor, if there is one; one that had ended keeps its answer."""
    story.decide(accept("u1"), complete(), accept("u2"), waiting=(body("u1"), body("u2")))
    story.signal("go")
    story.decide(closing=cm.ContinueAsNew(at=5), next_run_id="r2")
    assert story.update("add", "u1").command == 2
    assert story.update("add", "u2") == UpdateWaits(run_id="r2")
    story.terminate()
    refused = story.update("add", "u2")
    assert isinstance(refused, Rejection)
    assert refused.code == "WORKFLOW_CLOSED"
    assert story.update("add", "u1").run_id == "r"


def test_a_paused_run_is_offered_no_update(story: Story) -> None:
    """It waits, like everything else."""
    story.ask(PauseWorkflow(workflow_id="w"))
    assert isinstance(story.claim(waiting=(body(),)), NotWanted)
    assert story.update("add", "u1") == UpdateWaits(run_id="r")


def test_remembered_updates_are_bounded(story: Story) -> None:
    """Ten thousand, and none for longer than a week."""
    story.state.limits = story.folded.limits = replace(story.state.limits, remembered_ids_max=3)
    for number in range(5):
        story.decide(accept(f"u{number}"), complete(update_id=f"u{number}"), waiting=(body(f"u{number}"),))
    assert list(story.state.update_ids) == ["u2", "u3", "u4"]
    story.sleep(8 * 86_400 * 1_000_000)
    story.decide(accept("late"), complete(update_id="late"), waiting=(body("late"),))
    assert list(story.state.update_ids) == ["late"]


def reset_before_the_update(story: Story) -> None:
    """A run whose only update, carried out, lies behind the point of its reset."""
    story.decide(accept(), complete(), waiting=(body(),))
    owed = redelivered(story.history[1:])
    assert owed == (body(accepted=True),)
    story.terminate()
    reset = Reset(id=2, time=story.now, run_id="r2", seed=2, reset_from="r", event_id=1, updates=owed)
    started = replace(story.history[0], run_id="r2")
    story._write(Transition(workflow_id="w", runs=(RunChange(run_id="r2", events=(started, reset)),)))


def test_a_reset_owes_what_was_accepted_behind_its_point(story: Story) -> None:
    """The new run takes it again; meanwhile the id means that one, not the outcome it had before."""
    reset_before_the_update(story)
    assert story.run.owed == {"u1": body(accepted=True)}
    assert story.update("add", "u1") == UpdateWaits(run_id="r2")
    claimed = story.claim(waiting=(body(accepted=True),))
    assert story.report(claimed, Commands(commands=(accept(at=2),))).accepted
    assert not story.run.owed
    assert story.update("add", "u1").run_id == "r2"


def test_a_reset_that_is_undone_still_owes(story: Story) -> None:
    """What a reset owed and nobody took yet is owed by the next one, whether that keeps the first or goes back behind it."""
    story.decide(accept("u1"), complete(update_id="u1"), waiting=(body("u1"),))
    story.decide(accept("u2"), complete(update_id="u2"), waiting=(body("u2"),))
    both = {"u1": body("u1", accepted=True), "u2": body("u2", accepted=True)}
    story.reset(1, new_run_id="r2")
    assert story.run.owed == both
    story.reset(1, new_run_id="r3")
    assert story.run.owed == both
    story.decide(accept("u2", at=2), complete(update_id="u2", at=2), waiting=(both["u2"],))
    story.reset(2, new_run_id="r4")
    assert story.run.owed == both
    story.crash()
    assert story.run.owed == both


def test_what_the_open_run_owes_goes_over_when_an_older_one_is_reset(story: Story) -> None:
    """As its unread signals do; but what the older history holds is carried out in there."""
    story.decide(accept("u1"), complete(update_id="u1"), waiting=(body("u1"),))
    story.reset(1, new_run_id="r2")
    story.decide(accept("u1", at=2), complete(update_id="u1", at=2), waiting=(body("u1", accepted=True),))
    story.decide(accept("u2", at=2), complete(update_id="u2", at=2), waiting=(body("u2"),))
    story.reset(2, new_run_id="r3")
    assert list(story.run.owed or {}) == ["u1", "u2"]
    story.reset(3, run_id="r", new_run_id="r4")
    assert list(story.run.owed or {}) == ["u2"]
    assert story.update("add", "u1").run_id == "r4"


def test_what_a_reset_owed_may_be_taken_by_the_run_that_follows(story: Story) -> None:
    """The new run continued before it took it: the successor may, and its id is not held by the history that was left."""
    reset_before_the_update(story)
    story.decide(closing=cm.ContinueAsNew(at=2), next_run_id="r3")
    story.crash()
    assert story.run.owed == {"u1": body(accepted=True)}
    assert story.update("add", "u1") == UpdateWaits(run_id="r3")
    assert story.decide(accept(), complete(), waiting=(body(accepted=True),)).accepted
    assert story.update("add", "u1").run_id == "r3"


def test_a_successor_is_owed_only_what_the_closing_decision_left(story: Story) -> None:
    """One of two is taken in the very decision that continues; the other stands in the successor's start, and outlives its reset."""
    story.decide(accept("u1"), complete(update_id="u1"), accept("u2"), complete(-3, "u2"), waiting=(body("u1"), body("u2")))
    story.reset(1, new_run_id="r2")
    both = (body("u1", accepted=True), body("u2", accepted=True))
    done = (accept("u1", at=2), complete(update_id="u1", at=2))
    assert story.decide(*done, waiting=both, closing=cm.ContinueAsNew(at=2), next_run_id="r3").accepted
    assert story.run.started.updates == both[1:]
    assert story.update("add", "u1").run_id == "r2"
    story.reset(1, new_run_id="r4")
    story.crash()
    assert story.run.owed == {"u2": both[1]}


def test_the_next_attempt_is_owed_what_the_failed_one_was() -> None:
    """A reset run whose code fails before it has taken what is owed is tried again, and owes it still after a crash."""
    story = Story()
    story.start(run_id="r", retry=RetryPolicy(initial=1.0, jitter=0.0))
    story.decide(accept(), complete(), waiting=(body(),))
    story.reset(1, new_run_id="r2")
    story.decide(closing=cm.FailWorkflow(at=2, failure=Failure(type="Boom")), next_run_id="r3")
    story.crash()
    assert story.run.run_id == "r3"
    assert story.run.owed == {"u1": body(accepted=True)}
