"""What the history holds of an input is looked through once, however many side effects and versions its code asks for."""

from typing import Any

import pytest

from perdure import workflow
from perdure.core import events as ev
from perdure.replay import matcher
from perdure.replay.history import replay_history
from perdure.replay.runner import Runner
from perdure.sdk.workflow import workflow_of

MADE: list[int] = []


@workflow
class Draws:
    def __init__(self) -> None:
        self.drawn: list[int] = []

    @workflow.run
    async def run(self) -> list[int]:
        for number in range(50):
            if workflow.version(f"change {number}", 0, 1):
                self.draw(number)
        await workflow.wait_until(lambda: len(self.drawn) >= 53)
        return self.drawn

    @workflow.update
    async def more(self, count: int) -> int:
        for number in range(count):
            if workflow.patched(f"update {number}"):
                self.draw(100 + number)
        return len(self.drawn)

    def draw(self, number: int) -> None:
        self.drawn.append(workflow.side_effect(lambda: made(number), int))


def made(number: int) -> int:
    MADE.append(number)
    return number


def started() -> Any:
    return ev.Started(id=1, time=1, workflow_type="Draws", queue="q", run_id="r", seed=1, request_id="s")


def lived() -> list[Any]:
    """A history as it comes about: the start's commands, then those of an update at the same input."""
    definition = workflow_of(Draws)
    assert definition is not None
    runner = Runner(definition, "default", "w", started())
    events: list[Any] = [started()]
    runner.advance(events, 0)
    events += recorded(runner, len(events))
    runner.advance(events, 1)
    runner.offer(ev.UpdateBody(update_id="u", name="more", input=(b"3",)), 2)  # type: ignore[arg-type]
    events += recorded(runner, len(events))
    runner.close()
    return events


def recorded(runner: Runner, length: int) -> list[Any]:
    """What an owner makes of commands of these kinds."""
    kinds: dict[str, Any] = {
        "mark_version": ev.VersionMarked,
        "record_side_effect": ev.SideEffectRecorded,
        "accept_update": ev.UpdateAccepted,
        "complete_update": ev.UpdateCompleted,
    }
    found: list[Any] = []
    accepted = 0
    for command in runner.take():
        number = length + len(found) + 1
        fields = {name: getattr(command, name) for name in command.__struct_fields__ if name != "target"}
        if command.type == "accept_update":
            accepted = number
        if command.type == "complete_update":
            fields["command"] = accepted
        found.append(kinds[command.type](id=number, time=1, based_on=1, **fields))
    return found


def test_each_call_gets_its_own_value_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replayed, nothing is drawn anew, in main or in the update's handler; and there was one look for each of the two."""
    MADE.clear()
    events = lived()
    assert [*range(50), 100, 101, 102] == MADE
    looks: list[int] = []
    real = matcher._Ahead

    def look(expected: Any, at: int) -> Any:
        looks.append(at)
        return real(expected, at)

    monkeypatch.setattr(matcher, "_Ahead", look)
    definition = workflow_of(Draws)
    assert definition is not None
    runner = replay_history(definition, events, covered=1)
    assert runner.context.instance.drawn == [*range(50), 100, 101, 102]
    assert len(MADE) == 53
    assert looks == [1, 1]
    runner.close()
