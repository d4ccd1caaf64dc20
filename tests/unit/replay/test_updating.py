"""The runner and updates: offered once, taken at their place on replay, never judged twice, never run behind an input they came before."""

from typing import Any

import pytest
from msgspec import Raw

from perdure import workflow
from perdure.core import commands as cm
from perdure.core import events as ev
from perdure.replay.mismatch import Mismatch, Stale
from perdure.replay.runner import Runner
from perdure.sdk.workflow import workflow_of

JUDGED: list[str] = []


@workflow
class Desk:
    def __init__(self) -> None:
        self.said: list[str] = []

    @workflow.run
    async def run(self) -> list[str]:
        await workflow.wait_until(lambda: "end" in self.said)
        return self.said

    @workflow.signal
    def tell(self, text: str) -> None:
        self.said.append(text)

    @workflow.update
    def ask(self, text: str) -> list[Any]:
        self.said.append(text)
        return [workflow.time(), workflow.is_replaying(), list(self.said)]

    @ask.validator
    def _judge(self, text: str) -> None:
        JUDGED.append(text)


STARTED = ev.Started(id=1, time=1_000_000, workflow_type="Desk", queue="default", run_id="r", seed=1)


def signal(number: int, text: str) -> ev.SignalReceived:
    return ev.SignalReceived(id=number, time=number * 1_000_000, name="tell", input=(Raw(b'"%b"' % text.encode()),))


def accepted(number: int, at: int, text: str, fed_at: int = 5_000_000) -> ev.UpdateAccepted:
    value = Raw(b'"%b"' % text.encode())
    return ev.UpdateAccepted(
        id=number, time=9_000_000, at=at, based_on=at, name="ask", update_id=text, fed_at=fed_at, input=(value,)
    )


def completed(number: int, at: int, command: int, text: str, result: bytes = b"null") -> ev.UpdateCompleted:
    return ev.UpdateCompleted(
        id=number, time=9_000_000, at=at, based_on=at, update_id=text, command=command, result=Raw(result)
    )


def offered(text: str) -> ev.UpdateBody:
    return ev.UpdateBody(update_id=text, name="ask", input=(Raw(b'"%b"' % text.encode()),))


@pytest.fixture
def runner() -> Any:
    JUDGED.clear()
    runner = Runner(workflow_of(Desk), "default", "w", STARTED)  # type: ignore[arg-type]
    runner.advance([STARTED], 0)
    yield runner
    runner.close()


def said(runner: Runner) -> list[str]:
    found: list[str] = runner.context.instance.said
    return found


def test_an_offer_is_judged_and_runs_at_once(runner: Runner) -> None:
    """Its acceptance and its end are commands at the input fed last, with the time at which it was taken."""
    assert runner.offer(offered("a"), 7_000_000) is None
    accept, end = runner.take()
    assert isinstance(accept, cm.AcceptUpdate)
    assert isinstance(end, cm.CompleteUpdate)
    assert (accept.at, accept.fed_at, end.target) == (1, 7_000_000, -1)
    assert bytes(end.result) == b'[7.0,false,["a"]]'
    assert JUDGED == ["a"]


def test_one_that_is_held_is_not_taken_twice(runner: Runner) -> None:
    """Offered again before its acceptance is recorded: it is accepted already."""
    runner.offer(offered("a"), 7_000_000)
    assert runner.offer(offered("a"), 8_000_000) is None
    assert len(runner.take()) == 2
    assert said(runner) == ["a"]


@pytest.mark.scenario(18)
def test_replay_runs_the_handler_before_any_later_input(runner: Runner) -> None:
    """Where its acceptance stands in the order of commands, at the recorded time, without asking the validator."""
    runner.advance([signal(2, "x"), accepted(3, 1, "a"), completed(4, 1, 3, "a"), signal(5, "y")], 5)
    assert said(runner) == ["a", "x", "y"]
    assert JUDGED == []
    assert runner.context.time == 5_000_000


def test_a_warm_runner_takes_up_what_another_accepted(runner: Runner) -> None:
    """At the input it has fed last; the command that ends it is then matched."""
    runner.advance([signal(2, "x")], 0)
    runner.advance([accepted(3, 2, "a"), completed(4, 2, 3, "a")], 4)
    assert said(runner) == ["x", "a"]
    assert runner.take() == ()


@pytest.mark.scenario(19)
def test_a_runner_that_has_fed_a_later_input_is_stale(runner: Runner) -> None:
    """The update came before that input: what is held here never was."""
    runner.advance([signal(2, "x")], 0)
    with pytest.raises(Stale):
        runner.advance([accepted(3, 1, "a"), completed(4, 1, 3, "a")], 4)


def test_a_recorded_update_the_code_does_not_have_is_a_mismatch(runner: Runner) -> None:
    """It was completed, and this code would fail it."""
    other = ev.UpdateAccepted(id=2, time=9_000_000, at=1, based_on=1, name="gone", update_id="u", fed_at=1)
    with pytest.raises(Mismatch):
        runner.advance([other, completed(3, 1, 2, "u")], 3)


def test_one_accepted_before_a_reset_is_not_judged_again(runner: Runner) -> None:
    """A client was told that it is accepted; even when the code has no such update any more, it is taken, and fails."""
    gone = ev.UpdateBody(update_id="u", name="gone", accepted=True)
    assert runner.offer(gone, 0) is None
    assert [command.type for command in runner.take()] == ["accept_update", "fail_update"]
    assert JUDGED == []
