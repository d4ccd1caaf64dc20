"""Where tasks of a warm run stand: every kind of wait is told in words, with the author's line, and nothing of the run is touched."""

import asyncio
from typing import Any

from msgspec import Raw

from perdure import activity, workflow
from perdure.core import events as ev
from perdure.replay.runner import Runner
from perdure.replay.task_stacks import TaskStack, task_stacks
from perdure.sdk.workflow import workflow_of


@activity
async def charge(cents: int) -> None: ...


@workflow
async def kid() -> None: ...


async def approval() -> bool:
    async with asyncio.timeout(60):
        return await workflow.receive("approve", bool)


async def answered(event: asyncio.Event) -> None:
    await event.wait()


@workflow
async def everything(number: int) -> None:
    event = asyncio.Event()
    approving = asyncio.create_task(approval(), name="approving")
    waits = asyncio.create_task(answered(event), name="answered")
    await asyncio.gather(
        approving, waits, charge(1), asyncio.sleep(60), workflow.wait_until(lambda: number > 5), workflow.start_child(kid())
    )


@workflow
async def joins() -> None:
    task = asyncio.create_task(approval(), name="approving")
    await task


def warm(definition: Any, *values: bytes) -> Runner:
    started = ev.Started(
        id=1, time=1, workflow_type="w", queue="q", run_id="r", seed=1, request_id="s", input=tuple(map(Raw, values))
    )
    made = workflow_of(definition)
    assert made is not None
    runner = Runner(made, "default", "w", started)
    runner.advance([started], 0)
    return runner


def stacks(runner: Runner) -> dict[str, TaskStack]:
    return {stack.name: stack for stack in task_stacks(runner)}


def test_every_kind_of_wait_is_told() -> None:
    """Activity, timer, signal, condition, child, other tasks, and what only its own code knows of."""
    runner = warm(everything, b"1")
    before = len(runner.matcher.new)
    found = stacks(runner)
    assert found["approving"].awaits == "signal 'approve'"
    assert found["answered"].awaits.startswith("something of its own code")
    assert found["w"].awaits.startswith("tasks 'approving', 'answered', 'Task-")
    told = [stack.awaits for name, stack in found.items() if name.startswith("Task-")]
    assert told == ["activity 'charge'", "timer", "the condition of wait_until", "child 'kid'"]
    assert len(runner.matcher.new) == before
    runner.close()


def test_lines_are_the_authors_own() -> None:
    """The outermost first, with function and source; perdure's and the standard library's are left out."""
    runner = warm(everything, b"1")
    (line,) = stacks(runner)["approving"].lines
    assert (line.function, line.source) == ("approval", 'return await workflow.receive("approve", bool)')
    assert line.file == __file__
    assert [code.function for code in stacks(runner)["w"].lines] == ["everything"]
    runner.close()


def test_a_recorded_command_is_named_by_its_number() -> None:
    """Once it stands in the history."""
    runner = warm(everything, b"1")
    recorded = [
        ev.TimerStarted(id=2, time=1, at=1, based_on=1, delay=60_000_000, due=60_000_001),
        ev.ActivityScheduled(id=3, time=1, at=1, based_on=1, name="charge", ordinal=1),
    ]
    runner.take()
    kinds = [asked.command.type for asked in runner.matcher.new]
    assert kinds[:2] == ["start_timer", "schedule_activity"]
    runner.advance(recorded, 1)
    assert [stack.event_id for stack in task_stacks(runner) if stack.awaits == "activity 'charge'"] == [3]
    runner.close()


def test_a_task_that_joins_another_says_which() -> None:
    """By its name."""
    runner = warm(joins)
    assert stacks(runner)["w"].awaits == "task 'approving'"
    runner.close()


def test_what_a_run_awaits_is_bounded_and_shared() -> None:
    """A run with a thousand waiting tasks tells twenty of them, and equal answers are one object."""

    @workflow
    async def many(count: int) -> None:
        await asyncio.gather(*(workflow.receive(f"s{number:04}") for number in range(count)))

    first, second = warm(many, b"1000"), warm(many, b"1000")
    told = first.context.awaits()
    assert told[:2] == ("signal s0000", "signal s0001")
    assert len(told) == 20
    assert second.context.awaits() is told
    first.close()
    second.close()


def test_a_wait_that_was_given_up_is_not_told() -> None:
    """A receive that timed out awaits nothing any more."""

    @workflow
    async def gives_up() -> None:
        try:
            async with asyncio.timeout(1):
                await workflow.receive("approve")
        except TimeoutError:
            await workflow.wait_until(lambda: False)

    runner = warm(gives_up)
    assert runner.context.awaits() == ("signal approve",)
    runner.take()
    runner.advance([ev.TimerStarted(id=2, time=1, at=1, based_on=1, delay=1_000_000, due=1_000_001)], 1)
    runner.advance([ev.TimerFired(id=3, time=1_000_001, command=2)], 1)
    (told,) = runner.context.awaits()
    assert told.startswith("condition ")
    assert "gives_up" in told
    runner.close()
