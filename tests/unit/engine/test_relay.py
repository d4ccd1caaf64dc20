"""The relay by itself: order, patience, and what it does with answers. Its targets are a script."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from perdure.core import events as ev
from perdure.core.deliveries import Delivery
from perdure.core.errors import NotFound, ResourceExhausted, Unavailable, WorkflowAlreadyStarted
from perdure.core.replies import RunResult, RunStarted, Taken
from perdure.core.requests import (
    ChildRefused,
    ChildStands,
    ExternalAnswered,
    MessagesDelivered,
    RequestCancel,
    SignalBody,
    SignalWorkflow,
    StartWorkflow,
)
from perdure.core.state import ChildState, RunState, WorkflowState
from perdure.engine.relay import AGAIN_MAX_US, AGAIN_US, Relay
from perdure.runtime.chance import RealChance

Key = tuple[str, str]


class HandClock:
    """Stands still; `pass_time` moves it and calls what is due."""

    def __init__(self) -> None:
        self.time = 0
        self.calls: list[tuple[int, Callable[[], None]]] = []

    def now(self) -> int:
        return self.time

    def call_at(self, instant: int, callback: Callable[[], None]) -> Any:
        entry = (instant, callback)
        self.calls.append(entry)

        class Cancel:
            def cancel(wake) -> None:
                if entry in self.calls:
                    self.calls.remove(entry)

        return Cancel()

    def pass_time(self, microseconds: int) -> None:
        self.time += microseconds
        due = [entry for entry in self.calls if entry[0] <= self.time]
        self.calls = [entry for entry in self.calls if entry not in due]
        for _, callback in due:
            callback()


class Script:
    """Implements `relay.Ways`: what was brought waits in `brought` for the test to answer."""

    def __init__(self) -> None:
        self.brought: list[tuple[Any, Callable[[Any, Any], None]]] = []
        self.states: dict[Key, WorkflowState] = {}
        self.away: set[Key] = set()
        self.loaded: list[Key] = []
        self.arrived = asyncio.Event()

    def state_of(self, key: Key) -> WorkflowState | None:
        return self.states.get(key)

    def is_at_hand(self, key: Key) -> bool:
        return key not in self.away

    def goes_on(self, key: Key) -> bool:
        return key in self.states

    async def load(self, key: Key) -> None:
        await asyncio.sleep(0)
        self.loaded.append(key)
        self.away.discard(key)

    def bring(self, request: Any, answer: Any) -> None:
        self.brought.append((request, answer))
        self.arrived.set()

    async def outcome(self, key: Key, run_id: str) -> RunResult:
        return RunResult(run_id=run_id, status="failed")

    def names(self) -> list[str]:
        return [request.signal.name for request, _ in self.brought if isinstance(request, SignalWorkflow)]

    def answer(self, reply: Any = None, error: BaseException | None = None) -> Any:
        """Answer what was brought first; what it was."""
        request, answer = self.brought.pop(0)
        answer(reply if error is None else None, error)
        return request


def made() -> tuple[Relay, Script, HandClock]:
    script, clock = Script(), HandClock()
    relay = Relay(clock, RealChance(), script)  # type: ignore[arg-type]
    relay.begin()
    return relay, script, clock


def signal(name: str, to: str = "t") -> Delivery:
    body = SignalBody(name=name, signal_id=name)
    return Delivery(key=name, request=SignalWorkflow(workflow_id=to, signal=body), source="s", command=2, hears="external")


def start(key: str = "s/2") -> Delivery:
    request = StartWorkflow(workflow_id="t", workflow_type="toy", run_id="", seed=0, request_id=key)
    return Delivery(key=key, request=request, source="s", command=2, hears="child")


def test_nothing_is_brought_before_the_start_is_done() -> None:
    """Every open run is taken up first; then what was sent goes out, in order."""
    script = Script()
    relay = Relay(HandClock(), RealChance(), script)  # type: ignore[arg-type]
    relay.send(signal("a"))
    relay.send(signal("b"))
    assert script.names() == []
    relay.begin()
    assert script.names() == ["a", "b"]


@pytest.mark.rule("O19")
def test_many_are_under_way_to_one_target_and_none_twice() -> None:
    """A message that is under way is not sent again; answered, it may be."""
    relay, script, _ = made()
    for name in ("a", "b", "a"):
        relay.send(signal(name))
    assert script.names() == ["a", "b"]
    script.answer(Taken())
    assert isinstance(script.brought[-1][0], ExternalAnswered)
    relay.send(signal("a"))
    assert script.names() == ["b"]
    script.answer(Taken())
    while script.brought:
        script.answer(Taken())
    assert not relay.busy
    relay.send(signal("a"))
    assert script.names() == ["a"]


def test_what_a_target_cannot_take_waits_and_so_does_what_is_behind_it() -> None:
    """Order is kept over a full disk, and the pauses grow; other targets go on."""
    relay, script, clock = made()
    for name in ("a", "b"):
        relay.send(signal(name))
    script.answer(error=ResourceExhausted("the disk is full"))
    relay.send(signal("c"))
    relay.send(signal("x", to="other"))
    assert script.names() == ["b", "x"]
    script.answer(error=Unavailable("the write it depended on failed"))
    assert script.names() == ["x"]
    clock.pass_time(AGAIN_US - 1)
    assert script.names() == ["x"]
    clock.pass_time(1)
    assert script.names() == ["x", "a", "b", "c"]
    script.brought.pop(0)
    for _ in range(3):
        script.answer(error=ResourceExhausted("still full"))
    clock.pass_time(AGAIN_US)
    assert script.names() == []
    clock.pass_time(AGAIN_US)
    assert script.names() == ["a", "b", "c"]


def test_pauses_have_an_end() -> None:
    """However long a target takes nothing, it is tried every ten seconds."""
    relay, script, clock = made()
    relay.send(signal("a"))
    for _ in range(20):
        script.answer(error=Unavailable("no"))
        clock.pass_time(AGAIN_MAX_US)
    assert script.names() == ["a"]
    script.answer(Taken())
    assert isinstance(script.answer(Taken()), ExternalAnswered)
    assert not relay.busy


def test_a_target_is_loaded_once_before_anything_is_brought() -> None:
    """Two messages that each load it themselves could overtake one another."""

    async def proof() -> None:
        relay, script, _ = made()
        script.away.add(("default", "t"))
        relay.send(signal("a"))
        relay.send(signal("b"))
        assert relay.busy
        await script.arrived.wait()
        assert script.names() == ["a", "b"]
        assert script.loaded == [("default", "t")]
        await relay.stop()

    asyncio.run(proof())


def parent(*, waits: bool) -> WorkflowState:
    run = RunState(started=ev.Started(id=1, time=0, workflow_type="toy", queue="q", run_id="s", seed=1))
    if waits:
        asked = ev.ChildRequested(id=2, time=0, at=1, based_on=1, workflow_type="toy", workflow_id="t")
        run.children = {2: ChildState(event=asked, request_id="s/2")}
    return WorkflowState(namespace="default", workflow_id="s", run=run)


def test_a_start_is_given_what_a_run_needs() -> None:
    """Run id and seed come with the request; the parent hears of the run that was begun."""
    relay, script, _ = made()
    script.states["default", "s"] = parent(waits=True)
    relay.send(start())
    request = script.answer(RunStarted(run_id="k1"))
    assert request.run_id
    assert request.seed
    told = script.answer(Taken())
    assert isinstance(told, ChildStands)
    assert (told.workflow_id, told.command, told.request_id, told.run_id) == ("s", 2, "s/2", "k1")


def test_a_start_nobody_wants_any_more_is_not_brought() -> None:
    """The parent closed while its message waited for the target."""
    relay, script, _ = made()
    script.states["default", "s"] = parent(waits=False)
    relay.send(start())
    assert script.brought == []
    assert not relay.busy


def test_a_refusal_is_told_as_data() -> None:
    """Class, message and fields, so that it can be raised where it was asked for."""
    relay, script, _ = made()
    relay.send(start())
    script.answer(error=WorkflowAlreadyStarted("taken", run_id="k0"))
    told = script.answer(Taken())
    assert isinstance(told, ChildRefused)
    assert (told.failure.type, told.failure.message) == ("WorkflowAlreadyStarted", "taken")
    assert bytes(told.failure.fields) == b'{"run_id":"k0"}'
    relay.send(signal("a"))
    script.answer(error=NotFound("nobody"))
    told = script.answer(Taken())
    assert isinstance(told, ExternalAnswered)
    assert told.failure is not None
    assert told.failure.type == "NotFound"


def test_an_answer_that_cannot_be_told_yet_is_told_later() -> None:
    """The source's disk is full: the message counts as under way until it knows."""
    relay, script, clock = made()
    relay.send(signal("a"))
    script.answer(Taken())
    script.answer(error=ResourceExhausted("full"))
    relay.send(signal("a"))
    assert script.names() == []
    clock.pass_time(AGAIN_US)
    assert isinstance(script.answer(Taken()), ExternalAnswered)
    assert not relay.busy


def test_messages_left_behind_are_noted_together() -> None:
    """Answers of one turn of the loop become one request, so that a parent of a thousand children does not write a thousand notes."""

    async def proof() -> None:
        relay, script, _ = made()
        for number in range(3):
            request = RequestCancel(workflow_id=f"t{number}", request_id=f"c{number}")
            relay.send(Delivery(key=f"c{number}", request=request, source="s", hears="message"))
        script.arrived.clear()
        for number in range(3):
            script.answer(*((None, NotFound("gone")) if number else (Taken(),)))
        assert relay.busy
        await script.arrived.wait()
        assert script.answer(Taken()) == MessagesDelivered(workflow_id="s", request_ids=("c0", "c1", "c2"))
        assert not relay.busy

    asyncio.run(proof())


def test_how_a_child_ended_is_looked_up_when_its_id_is_in_use_again() -> None:
    """Its chain is not its id's last one: the store knows how it ended."""

    async def proof() -> None:
        relay, script, _ = made()
        relay.send(start())
        script.arrived.clear()
        script.answer(RunStarted(run_id="k1", attached=True, superseded=True))
        await script.arrived.wait()
        told = script.answer(Taken())
        assert isinstance(told, ChildStands)
        assert told.outcome == RunResult(run_id="k1", status="failed")
        await relay.stop()

    asyncio.run(proof())


@pytest.mark.rule("O19")
def test_what_is_with_nobody_is_missing() -> None:
    """A start that was never sent; and the end of a child that is gone, whose report was lost."""
    relay, script, _ = made()
    state = parent(waits=True)
    script.states["default", "s"] = state
    assert [delivery.key for delivery in relay.missing(state)] == ["s/2"]
    relay.send(start())
    assert relay.missing(state) == []
    script.answer(RunStarted(run_id="k1"))
    assert state.run is not None
    assert state.run.children is not None
    state.run.children[2].run_id = "k1"
    script.answer(Taken())
    script.states["default", "t"] = parent(waits=False)
    assert relay.missing(state) == []
    del script.states["default", "t"]
    assert [delivery.key for delivery in relay.missing(state)] == ["s/2"]


def test_a_relay_that_has_stopped_brings_nothing() -> None:
    """Nor does it wake again."""

    async def proof() -> None:
        relay, script, clock = made()
        relay.send(signal("a"))
        script.answer(error=Unavailable("no"))
        await relay.stop()
        await relay.stop()
        clock.pass_time(AGAIN_MAX_US)
        relay.send(Delivery(key="c", request=RequestCancel(workflow_id="t"), source="s", hears="message"))
        assert script.brought == []

    asyncio.run(proof())
