"""Handlers in a runner alone: when they run, what they leave behind, and what ends a run."""

import asyncio
from typing import Any

import pytest
from msgspec import json

from perdure import activity, workflow
from perdure.core import commands as cm
from perdure.core import events as ev
from perdure.core.payload import Payload
from perdure.core.queries import Query, Raised, Refused, Told
from perdure.replay.asking import ask
from perdure.replay.history import replay_history
from perdure.replay.mismatch import Mismatch
from perdure.replay.runner import Runner
from perdure.sdk.workflow import workflow_of

LOG: list[str] = []


@pytest.fixture(autouse=True)
def fresh_log() -> None:
    LOG.clear()


@activity
async def step(n: int) -> int:
    return n


@workflow
class Logged:
    def __init__(self) -> None:
        LOG.append("made")
        self.items: list[str] = []
        self.told = asyncio.Event()

    @workflow.run
    async def run(self) -> str:
        LOG.append("main begins")
        await self.told.wait()
        LOG.append("main woken")
        await workflow.receive("end")
        LOG.append("main ends")
        return "done"

    @workflow.signal
    def tell(self, text: str) -> None:
        LOG.append(f"told {text}")
        self.items.append(text)
        self.told.set()

    @workflow.signal
    async def work(self, n: int) -> None:
        LOG.append(f"work {n}")
        LOG.append(f"worked {await step(n)}")

    @workflow.signal
    def fail(self) -> None:
        self.told.set()
        raise LookupError("told to")

    @workflow.signal
    def end_here(self) -> None:
        workflow.continue_as_new()

    @workflow.signal
    def cancel_myself(self) -> None:
        raise asyncio.CancelledError

    @workflow.query
    def all(self) -> list[str]:
        return self.items


def payload(value: Any) -> Payload:
    return Payload(json.encode(value))


def started(name: str, number: int = 1) -> ev.Started:
    return ev.Started(id=number, time=10, workflow_type=name, queue="q", run_id="r", seed=1, request_id="s")


def signal(number: int, name: str, *values: Any) -> ev.SignalReceived:
    return ev.SignalReceived(
        id=number, time=10 + number, name=name, input=tuple(payload(value) for value in values), signal_id=f"s{number}"
    )


def runner_of(cls: type, events: list[Any], covered: int = 0) -> Runner:
    definition = workflow_of(cls)
    assert definition is not None
    runner = Runner(definition, "default", "w", events[0])
    runner.advance(events, covered)
    return runner


def test_a_handler_runs_before_a_later_input() -> None:
    """Made, main's first steps, then each signal's handler and what it wakes, one input after the other."""
    runner = runner_of(Logged, [started("Logged"), signal(2, "tell", "a"), signal(3, "tell", "b"), signal(4, "end")])
    assert LOG == ["made", "main begins", "told a", "main woken", "told b", "main ends"]
    assert isinstance(runner.ending, cm.CompleteWorkflow)
    assert runner.ending.at == 4
    runner.close()


def test_handlers_run_on_when_main_has_ended() -> None:
    """Its result stays; async handlers go as far as they come."""
    events = [started("Logged"), signal(2, "tell", "a"), signal(3, "end"), signal(4, "tell", "late"), signal(5, "work", 1)]
    runner = runner_of(Logged, events)
    assert LOG[-3:] == ["main ends", "told late", "work 1"]
    assert runner.ending is not None
    assert runner.ending.at == 3
    assert [command.at for command in runner.take()] == [5]
    runner.close()


def test_a_failing_handler_ends_the_run_there() -> None:
    """Nothing later is fed, not even to main, which its own signal woke; what was not fed is counted."""
    runner = runner_of(
        Logged, [started("Logged"), signal(2, "fail"), signal(3, "tell", "x"), signal(4, "end"), signal(5, "unknown")]
    )
    assert isinstance(runner.ending, cm.FailWorkflow)
    assert (runner.ending.at, runner.ending.failure.type, runner.fed, len(runner.unfed)) == (2, "LookupError", 2, 3)
    assert "told x" not in LOG
    runner.close()


def test_a_failing_handler_wins_over_a_main_that_returns_with_it() -> None:
    """Both end in one input: an error nobody else can be told of must not be lost."""

    @workflow
    class Both:
        def __init__(self) -> None:
            self.told = asyncio.Event()

        @workflow.run
        async def run(self) -> None:
            await self.told.wait()

        @workflow.signal
        async def go(self) -> None:
            self.told.set()
            await asyncio.sleep(0)
            raise LookupError("after all")

    runner = runner_of(Both, [started("Both"), signal(2, "go")])
    assert isinstance(runner.ending, cm.FailWorkflow)
    runner.close()


def test_a_handler_may_continue_as_new() -> None:
    """As main may; what nobody took goes with it."""
    runner = runner_of(Logged, [started("Logged"), signal(2, "other", 1), signal(3, "end_here"), signal(4, "tell", "x")])
    assert isinstance(runner.ending, cm.ContinueAsNew)
    assert (runner.ending.at, runner.ending.untaken) == (3, (2,))
    runner.close()


def test_a_handler_that_is_cancelled_just_ends() -> None:
    """It is no request to stop the run."""
    runner = runner_of(Logged, [started("Logged"), signal(2, "cancel_myself"), signal(3, "tell", "on")])
    assert runner.ending is None
    assert LOG[-1] == "main woken"
    runner.close()


def test_a_misfit_is_set_aside_once() -> None:
    """With the decision that covers it; a replay of covered history notes nothing again."""
    events = [started("Logged"), signal(2, "tell"), signal(3, "tell", 7), signal(4, "work", "x")]
    runner = runner_of(Logged, events)
    assert [aside.command for aside in runner.context.set_aside or ()] == [2, 3, 4]
    assert runner.ending is None
    runner.close()
    again = runner_of(Logged, events, covered=3)
    assert [aside.command for aside in again.context.set_aside or ()] == [4]
    again.close()


def test_async_handlers_are_counted() -> None:
    """Until each has ended, however it ends."""
    runner = runner_of(Logged, [started("Logged"), signal(2, "work", 1), signal(3, "work", 2), signal(4, "work", "x")])
    assert runner.context.handlers_running == 2
    scheduled = [
        ev.ActivityScheduled(
            id=5 + place, time=20, at=2 + place, based_on=4, name="step", ordinal=place, input=(payload(1 + place),)
        )
        for place in range(2)
    ]
    runner.advance([*scheduled, ev.ActivityCompleted(id=7, time=30, command=6, result=payload(2), attempt=1)], 4)
    assert LOG[-1] == "worked 2"
    assert runner.context.handlers_running == 1
    runner.close()


@pytest.mark.parametrize(
    "code",
    [
        lambda: workflow.side_effect(lambda: 1),
        lambda: workflow.version("x", 0, 1),
        lambda: asyncio.get_running_loop().create_task(asyncio.sleep(1)),
        lambda: asyncio.get_running_loop().call_later(1, print),
        lambda: workflow.set_details("made"),
    ],
    ids=["side effect", "version", "task", "timer", "details"],
)
def test_a_constructor_asks_for_nothing(code: Any) -> None:
    """What it asks for breaks the run's rules, naming `__init__`; the run waits for mended code."""

    @workflow
    class Asks:
        def __init__(self) -> None:
            code()

        @workflow.run
        async def run(self) -> None: ...

    with pytest.raises(Mismatch, match="__init__ of a workflow"):
        runner_of(Asks, [started("Asks")])


def test_runs_without_handlers_hold_nothing_for_them() -> None:
    """No list, no map: what is not used costs a parked run nothing but its slots."""

    @workflow
    async def plain() -> None:
        await workflow.receive("x")

    runner = Runner(plain, "default", "w", started("plain"))
    runner.advance([started("plain")], 0)
    context = runner.context
    assert (context.instance, context.predicates, context.set_aside, context.handlers_running) == (None, None, None, 0)
    runner.close()


def test_waits_that_are_over_leave_nothing() -> None:
    """When nobody waits for a condition any more, none is tried."""

    @workflow
    class Waits:
        def __init__(self) -> None:
            self.n = 0

        @workflow.run
        async def run(self) -> None:
            await workflow.wait_until(lambda: self.n == 1)
            await workflow.receive("end")

        @workflow.signal
        def add(self) -> None:
            self.n += 1

    runner = runner_of(Waits, [started("Waits")])
    assert runner.context.predicates is not None
    runner.advance([signal(2, "add")], 0)
    assert runner.context.predicates is None
    runner.close()


def question(name: str, *values: Any) -> Query:
    return Query(workflow_id="w", name=name, timeout=1, input=tuple(payload(value) for value in values))


def test_a_query_is_a_value_and_so_is_its_answer() -> None:
    """Told, raised or refused; the runner has asked for nothing and is not spoiled."""
    runner = runner_of(Logged, [started("Logged"), signal(2, "tell", "a")])
    asked = len(runner.take())
    assert ask(runner, "q", question("all")) == Told(query_id="q", run_id="r", result=payload(["a"]))
    raised = ask(runner, "q", question("all", 1))
    assert isinstance(raised, Raised)
    assert raised.failure.type == "InvalidArgument"
    refused = ask(runner, "q", question("none"))
    assert isinstance(refused, Refused)
    assert (refused.code, len(runner.take()), runner.spoiled) == ("NOT_FOUND", asked, False)
    runner.close()


def test_a_query_of_a_run_that_never_had_an_object() -> None:
    """Its constructor raised: there is nothing to ask."""

    @workflow
    class Unmade:
        def __init__(self) -> None:
            raise LookupError

        @workflow.run
        async def run(self) -> None: ...

        @workflow.query
        def size(self) -> int:
            return 1

    definition = workflow_of(Unmade)
    assert definition is not None
    failed = ev.Failed(id=2, time=10, at=1, based_on=1, failure=_failure(runner_of(Unmade, [started("Unmade")])))
    runner = replay_history(definition, [started("Unmade"), failed])
    refused = ask(runner, "q", question("size"))
    assert isinstance(refused, Refused)
    assert "no object" in refused.message
    runner.close()


def _failure(runner: Runner) -> Any:
    assert isinstance(runner.ending, cm.FailWorkflow)
    runner.close()
    return runner.ending.failure
