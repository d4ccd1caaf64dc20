"""`workflow.wait_until`: conditions tried after each input, in order, by code that may only look."""

import asyncio
import random
from typing import Any

import pytest

from perdure import activity, workflow
from perdure.errors import InvalidArgument, WorkflowFailed


@activity
async def step(n: int) -> int:
    return n


@workflow
class Counter:
    def __init__(self) -> None:
        self.n = 0

    @workflow.run
    async def run(self, *goals: int) -> list[int]:
        seen: list[int] = []
        for goal in goals:
            await workflow.wait_until(lambda goal=goal: self.n >= goal)  # type: ignore[misc]
            seen.append(self.n)
        return seen

    @workflow.signal
    def add(self, n: int) -> None:
        self.n += n


@workflow
class Lock:
    """Ten tasks take turns by a flag: whoever is woken finds it free."""

    def __init__(self) -> None:
        self.locked = True
        self.inside = 0
        self.order: list[int] = []

    @workflow.run
    async def run(self) -> list[int]:
        await asyncio.gather(*(self.enter(n) for n in range(10)))
        return self.order

    async def enter(self, n: int) -> None:
        await workflow.wait_until(lambda: not self.locked)
        assert not self.locked
        self.locked = True
        self.inside += 1
        assert self.inside == 1
        await step(n)
        self.order.append(n)
        self.inside -= 1
        self.locked = False

    @workflow.signal
    def unlock(self) -> None:
        self.locked = False


@workflow
class Chained:
    """Each wait is begun by the end of the one before, within one input."""

    def __init__(self) -> None:
        self.stage = 0
        self.log: list[str] = []

    @workflow.run
    async def run(self) -> list[str]:
        follower = asyncio.create_task(self.follow())
        await workflow.wait_until(lambda: self.stage == 1)
        self.log.append("main 1")
        self.stage = 2
        await workflow.wait_until(lambda: self.stage == 3)
        self.log.append("main 3")
        await follower
        return self.log

    async def follow(self) -> None:
        await workflow.wait_until(lambda: self.stage == 2)
        self.log.append("follower 2")
        self.stage = 3

    @workflow.signal
    def begin(self) -> None:
        self.stage = 1


@workflow
async def times_out() -> str:
    try:
        async with asyncio.timeout(0.01):
            await workflow.wait_until(lambda: False)
    except TimeoutError:
        return "timed out"
    return "true"


@workflow
async def waits_on_an_activity() -> int:
    """A plain function with tasks: the predicate sees what another task has got."""
    got: list[int] = []

    async def fetch() -> None:
        got.append(await step(7))

    task = asyncio.create_task(fetch())
    await workflow.wait_until(lambda: bool(got))
    await task
    return got[0]


@workflow
async def raises_later() -> str:
    answers: list[Any] = []

    async def fetch() -> None:
        answers.append(await step(1))

    task = asyncio.create_task(fetch())
    try:
        await workflow.wait_until(lambda: bool(answers) and 1 // 0 == 1)
    except ZeroDivisionError:
        await task
        return "caught"
    return "?"


@workflow
async def stops_iteration() -> str:
    answers: list[Any] = []

    def predicate() -> bool:
        if answers:
            next(iter(()))
        return False

    async def fetch() -> None:
        answers.append(await step(1))

    task = asyncio.create_task(fetch())
    try:
        await workflow.wait_until(predicate)
    except RuntimeError as error:
        await task
        return str(error)
    return "?"


@workflow
async def waits_for_a_coroutine(wrapped: bool) -> str:
    async def never() -> bool:
        return True

    await workflow.wait_until((lambda: never()) if wrapped else never)  # noqa: PLW0108 – the wrapping is what is tried
    return "?"


@workflow
class Meddles:
    """Its predicate does `what`, at once or when the signal has come."""

    def __init__(self) -> None:
        self.now = False
        self.event = asyncio.Event()

    @workflow.run
    async def run(self, what: str, at_once: bool) -> str:
        self.now = at_once
        waiter = asyncio.create_task(self.event.wait())
        await asyncio.sleep(0)
        try:
            await workflow.wait_until(lambda: self.now and self.meddle(what))
        finally:
            waiter.cancel()
        return "passed"

    def meddle(self, what: str) -> bool:
        match what:
            case "chance":
                random.random()
            case "verb":
                workflow.uuid4()
            case "version":
                workflow.version("x", 0, 1)
            case "effect":
                workflow.side_effect(lambda: 1)
            case "task":
                asyncio.get_running_loop().create_task(asyncio.sleep(0))
            case "timer":
                asyncio.get_running_loop().call_later(1, print)
            case "wake":
                self.event.set()
        return True

    @workflow.signal
    def go(self) -> None:
        self.now = True


@workflow
class PingPong:
    """Two waits that wake each other for ever."""

    def __init__(self) -> None:
        self.ball = ""

    @workflow.run
    async def run(self) -> None:
        await asyncio.gather(self.play("ping", "pong"), self.play("pong", "ping"))

    async def play(self, mine: str, other: str) -> None:
        while True:
            await workflow.wait_until(lambda: self.ball == mine)
            self.ball = other

    @workflow.signal
    def serve(self) -> None:
        self.ball = "ping"


async def test_it_returns_when_its_condition_holds(any_house) -> None:
    """At once when it holds already, else after the input that makes it so."""
    async with any_house(Counter) as app:
        handle = await app.client.start(Counter.run(0, 2, 2, 5))
        for n in (1, 1, 3):
            await handle.signal(Counter.add(n))
        seen = await handle.result()
        assert seen[0] == 0
        assert seen[1:] == [2, 2, 5]


async def test_whoever_is_woken_finds_it_true(any_house) -> None:
    """Ten waits for one flag: they are woken one by one, in the order of their waits."""
    async with any_house(Lock, step) as app:
        handle = await app.client.start(Lock.run())
        await handle.signal(Lock.unlock())
        assert await handle.result() == list(range(10))


async def test_waits_begun_while_others_are_woken_are_tried_too(any_house) -> None:
    """One input lets the whole chain through, also when nobody waited any more in between."""
    async with any_house(Chained) as app:
        handle = await app.client.start(Chained.run())
        await handle.signal(Chained.begin())
        assert await handle.result() == ["main 1", "follower 2", "main 3"]


async def test_timeouts_plain_functions_and_exceptions(any_house) -> None:
    """A timeout gives the wait up; a function's tasks can be waited for; what a predicate raises is raised at its waiter."""
    async with any_house(times_out, waits_on_an_activity, raises_later, stops_iteration, step) as app:
        assert await app.client.execute(times_out()) == "timed out"
        assert await app.client.execute(waits_on_an_activity()) == 7
        assert await app.client.execute(raises_later()) == "caught"
        assert "StopIteration" in await app.client.execute(stops_iteration())


@pytest.mark.parametrize("wrapped", [True, False])
async def test_a_predicate_is_no_coroutine(house, wrapped) -> None:
    """It would be true for ever; it is refused, also when only what it gives is one."""
    async with house(waits_for_a_coroutine) as app:
        with pytest.raises(WorkflowFailed) as failed:
            await app.client.execute(waits_for_a_coroutine(wrapped))
        assert type(failed.value.__cause__) is InvalidArgument


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("what", ["chance", "verb", "version", "effect", "task", "timer", "wake"])
async def test_a_predicate_only_looks(house, t, what, at_once) -> None:
    """Anything else quarantines the run, naming the predicate."""
    async with house(Meddles) as app:
        handle = await app.client.start(Meddles.run(what, at_once))
        if not at_once:
            await handle.signal(Meddles.go())
        await t.status(app, handle, "quarantined")
        note = await t.recorded(app, handle, "quarantined")
        assert "predicate" in note.reason


async def test_conditions_that_wake_each_other_for_ever(house, t, monkeypatch) -> None:
    """The run is quarantined instead of never coming to rest."""
    monkeypatch.setattr("perdure.replay.predicates.WAKES_MAX", 100)
    async with house(PingPong) as app:
        handle = await app.client.start(PingPong.run())
        await handle.signal(PingPong.serve())
        await t.status(app, handle, "quarantined")
        assert "never comes to rest" in (await t.recorded(app, handle, "quarantined")).reason


async def test_outside_a_run_there_is_nothing_to_wait_for() -> None:
    """As any verb of workflow code."""
    with pytest.raises(RuntimeError, match=r"workflow\.wait_until"):
        await workflow.wait_until(lambda: True)
    with pytest.raises(RuntimeError):
        workflow.all_handlers_finished()
