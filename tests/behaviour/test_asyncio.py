"""All of asyncio's vocabulary works in workflows, and means the same warm, always cold and unfused."""

import asyncio
import contextvars
import random
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from perdure import activity, workflow
from perdure.core.errors import WorkflowFailed
from perdure.errors import ActivityError

MODES = ("warm", "cold", "unfused")
PLACE: contextvars.ContextVar[str] = contextvars.ContextVar("PLACE", default="nowhere")


@activity
async def echo(value: int) -> int:
    return value


@activity
async def turns(value: int, count: int) -> int:
    """Ends after so many rounds of the loop, so that several end in another order than they began."""
    for _ in range(count):
        await asyncio.sleep(0)
    return value


class Broken(Exception):
    pass


@activity(retry=None)
async def break_at_once(word: str) -> None:
    from perdure.errors import ApplicationError

    raise ApplicationError(word, non_retryable=True)


@workflow
async def sleeps() -> list[float]:
    moments = [workflow.time()]
    await asyncio.sleep(0.02)
    moments.append(workflow.time())
    await asyncio.sleep(0)
    await asyncio.sleep(-1)
    await workflow.sleep(0.01, summary="short")
    moments.append(workflow.time())
    return moments


@workflow
async def gathers() -> list[Any]:
    first = await asyncio.gather(turns(1, 9), turns(2, 3), asyncio.sleep(0.01, "slept"))
    second = await asyncio.gather(echo(3), break_at_once("no"), return_exceptions=True)
    return [*first, second[0], type(second[1]).__name__, str(second[1])]


@workflow
async def gather_fails() -> str:
    try:
        await asyncio.gather(asyncio.sleep(0.02), break_at_once("first"), break_at_once("second"))
    except Exception as error:  # noqa: BLE001
        return str(error)
    return "nothing"


@workflow
async def waits() -> list[int]:
    found = []
    pending: set[Any] = {asyncio.create_task(turns(n, 12 - 3 * n)) for n in range(4)}
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        found += [await task for task in done]
    return found


@workflow
async def waits_for_exception() -> list[str]:
    tasks = [asyncio.create_task(asyncio.sleep(30)), asyncio.create_task(break_at_once("bad"))]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    for task in pending:
        task.cancel()
    return [str(task.exception()) for task in done]


@workflow
async def completes() -> list[int]:
    return [await each for each in asyncio.as_completed([turns(n, 20 - 4 * n) for n in range(5)])]


@workflow
async def bounded() -> list[str]:
    found = []
    try:
        await asyncio.wait_for(asyncio.sleep(30), 0.01)
    except TimeoutError:
        found.append("wait_for")
    try:
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()
    except TimeoutError:
        found.append("timeout")
    async with asyncio.timeout(30):
        await echo(1)
    found.append(str(await asyncio.wait_for(echo(2), 30)))
    try:
        async with asyncio.timeout_at(asyncio.get_running_loop().time()):
            await echo(3)
    except TimeoutError:
        found.append("timeout_at")
    return found


@workflow
async def groups() -> list[Any]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(turns(n, 3 * n)) for n in range(3)]
    found: list[Any] = [task.result() for task in tasks]
    try:
        async with asyncio.TaskGroup() as group:
            sleeper = group.create_task(asyncio.sleep(30))
            group.create_task(break_at_once("group"))
    except* Exception as errors:  # noqa: BLE001
        found.append([str(error) for error in errors.exceptions])
    found.append(sleeper.cancelled())
    return found


@workflow
async def primitives() -> list[Any]:
    log: list[Any] = []
    event, lock, semaphore, condition = asyncio.Event(), asyncio.Lock(), asyncio.Semaphore(2), asyncio.Condition()
    queue: asyncio.Queue[int] = asyncio.Queue(1)

    async def guarded(n: int) -> None:
        await event.wait()
        async with lock:
            log.append(await echo(n))

    async def limited(n: int) -> None:
        async with semaphore:
            log.append(await turns(10 + n, 5 - n))

    async def produce() -> None:
        for n in range(3):
            await queue.put(await echo(20 + n))
        async with condition:
            condition.notify_all()

    async def consume() -> None:
        for _ in range(3):
            log.append(await queue.get())  # noqa: PERF401

    async def hear() -> None:
        async with condition:
            await condition.wait()
        log.append("heard")

    async with asyncio.TaskGroup() as group:
        for n in range(3):
            group.create_task(guarded(n))
        event.set()
    async with asyncio.TaskGroup() as group:
        for n in range(4):
            group.create_task(limited(n))
    async with asyncio.TaskGroup() as group:
        group.create_task(hear())
        group.create_task(consume())
        group.create_task(produce())
    return log


@workflow
async def shielded() -> list[Any]:
    inner = asyncio.create_task(turns(5, 10))
    outer = asyncio.create_task(_await_shielded(inner))
    await echo(1)
    outer.cancel()
    try:
        await outer
    except asyncio.CancelledError:
        return ["cancelled", await inner]
    return ["finished", await inner]


async def _await_shielded(task: Any) -> Any:
    return await asyncio.shield(asyncio.sleep(30, task))


async def _numbers() -> AsyncIterator[int]:
    for n in range(3):
        yield await echo(n)


@workflow
async def generators() -> list[int]:
    found = [n async for n in _numbers()]
    async for n in _numbers():
        found.append(n)
        break
    return found


@workflow
async def contexts() -> list[str]:
    found = [PLACE.get()]
    PLACE.set("main")

    async def inside() -> str:
        before = PLACE.get()
        PLACE.set("task")
        await echo(1)
        return f"{before}>{PLACE.get()}"

    found.append(await asyncio.create_task(inside()))
    await asyncio.sleep(0.001)
    found.append(PLACE.get())
    return found


@workflow
async def chances() -> list[str]:
    numbers = [random.random(), workflow.random().random(), random.randint(0, 1_000_000)]
    ids = [uuid.uuid4(), uuid.uuid1(), workflow.uuid4(), workflow.uuid7()]
    await echo(1)
    more = [random.choice("abcdefgh"), time.time(), time.monotonic(), time.perf_counter()]
    return [str(item) for item in (*numbers, *ids, *more)]


async def ran(app: Any, call: Any) -> Any:
    return await app.client.execute(call)


@pytest.mark.rule("F25")
async def test_sleep_is_a_durable_timer_never_early(any_house, t) -> None:
    """`asyncio.sleep` and `workflow.sleep` take at least their time by the run's clock and only positive ones are recorded."""
    async with any_house(sleeps) as app:
        handle = await app.client.start(sleeps())
        a, b, c = await handle.result()
        assert b - a >= 0.02
        assert c - b >= 0.01
        started = [entry for entry in await handle.history() if entry.type == "timer_started"]
        assert [entry.delay for entry in started] == [20_000, 10_000]
        assert started[1].summary == "short"


@pytest.mark.scenario(15)
async def test_gather_in_both_ways(any_house) -> None:
    """gather keeps argument order whatever ends first, and with return_exceptions gives the error in its place."""
    async with any_house(gathers, gather_fails, turns, echo, break_at_once) as app:
        assert await ran(app, gathers()) == [1, 2, "slept", 3, "ApplicationError", "no"]
        assert await ran(app, gather_fails()) in {"first", "second"}


@pytest.mark.scenario(16)
async def test_wait_and_as_completed_follow_the_history(any_house) -> None:
    """What ends first comes first, and the same on every replay."""
    async with any_house(waits, waits_for_exception, completes, turns, break_at_once) as app:
        assert sorted(await ran(app, waits())) == [0, 1, 2, 3]
        assert await ran(app, waits_for_exception()) == ["bad"]
        assert sorted(await ran(app, completes())) == [0, 1, 2, 3, 4]


async def test_timeouts_of_asyncio(any_house) -> None:
    """wait_for, timeout and timeout_at are durable timers that end what they bound."""
    async with any_house(bounded, echo) as app:
        assert await ran(app, bounded()) == ["wait_for", "timeout", "2", "timeout_at"]


async def test_task_groups(any_house) -> None:
    """A group gives its results, and one failure cancels the rest."""
    async with any_house(groups, turns, break_at_once) as app:
        assert await ran(app, groups()) == [0, 1, 2, ["group"], True]


async def test_synchronisation_primitives(any_house) -> None:
    """Event, Lock, Semaphore, Queue and Condition."""
    async with any_house(primitives, echo, turns) as app:
        found = await ran(app, primitives())
        assert found[:3] == [0, 1, 2]
        assert sorted(found[3:7]) == [10, 11, 12, 13]
        assert found[7:] == [20, 21, 22, "heard"] or found[7:] == [20, 21, "heard", 22]


async def test_shield(any_house) -> None:
    """Cancelling who waits on a shield leaves the shielded work alone."""
    async with any_house(shielded, turns, echo) as app:
        assert await ran(app, shielded()) == ["cancelled", 5]


async def test_async_generators_and_contextvars(any_house) -> None:
    """Async generators, abandoned ones too, and context variables: empty at the start, one copy a task."""
    PLACE.set("the test")
    async with any_house(generators, contexts, echo) as app:
        assert await ran(app, generators()) == [0, 1, 2, 0]
        assert await ran(app, contexts()) == ["nowhere", "main>task", "main"]


@pytest.mark.rule("F24")
async def test_chance_and_clock_come_from_the_history(any_house) -> None:
    """random, uuid and time inside a workflow are the run's own; replay (see conftest) must make the very same result."""
    async with any_house(chances, echo) as app:
        one, two = await ran(app, chances()), await ran(app, chances())
        assert one != two


@workflow
async def group_leaves() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(break_at_once("out"))


async def test_an_exception_group_leaving_main_fails_the_run(house) -> None:
    """The group arrives as the cause, with its members."""
    async with house(group_leaves, break_at_once) as app:
        with pytest.raises(WorkflowFailed) as caught:
            await app.client.execute(group_leaves())
        group = caught.value.__cause__
        assert isinstance(group, ExceptionGroup)
        assert [str(error) for error in group.exceptions] == ["out"]
        assert isinstance(group.exceptions[0].__cause__, ActivityError)


@workflow
async def wide(count: int) -> int:
    return sum(await asyncio.gather(*(echo(n) for n in range(count))))


async def test_a_fan_out_of_a_thousand(house) -> None:
    """1,000 activities asked for at one input all run, and come back."""
    async with house(wide, echo, memory=True) as app:
        assert await app.client.execute(wide(1_000)) == sum(range(1_000))


@workflow
async def sequence(count: int) -> list[int]:
    found = []
    for n in range(count):
        if n % 3 == 2:
            await asyncio.sleep(0.001)
        elif workflow.patched(f"change-{n}"):
            found.append(await echo(workflow.random().randrange(100) * 0 + n))
    return found


@pytest.mark.rule("O36")
@pytest.mark.scenario(19)
async def test_warm_cold_and_unfused_ask_for_the_same(tmp_path, t, exported) -> None:
    """The same inputs give the same commands, at the same places, whatever the worker remembers and fuses."""
    asked = []
    for mode in MODES:
        house = t.House(tmp_path / mode, exported, mode)
        async with house(sequence, echo) as app:
            handle = await app.client.start(sequence(9))
            result = await handle.result()
            history = await handle.history()
            asked.append((result, [(entry.id, entry.type, *_place(entry)) for entry in history]))
    assert asked[0] == asked[1] == asked[2]


def _place(entry: Any) -> tuple[Any, ...]:
    fields = entry.fields()
    return tuple(fields.get(name) for name in ("at", "name", "input", "delay", "change_id", "version", "command"))
