"""Every sentence the contract says of cancelling, terminating and timing out."""

import asyncio
import threading
from typing import Any

import pytest

from perdure import Retry, activity, workflow
from perdure.errors import WorkflowCancelled, WorkflowClosed, WorkflowTerminated, WorkflowTimedOut

STARTED: dict[str, asyncio.Event] = {}
GATES: dict[str, asyncio.Event] = {}
LOG: dict[str, list[str]] = {}


def event(key: str, kind: dict[str, asyncio.Event]) -> asyncio.Event:
    return kind.setdefault(key, asyncio.Event())


@activity(retry=Retry(max_attempts=1))
async def hold(key: str) -> str:
    """Runs until its gate opens; says when it began and how it ended."""
    event(key, STARTED).set()
    try:
        await event(key, GATES).wait()
    except asyncio.CancelledError:
        LOG.setdefault(key, []).append("cancelled")
        raise
    LOG.setdefault(key, []).append("done")
    return "held"


@activity(retry=Retry(max_attempts=1))
async def stubborn(key: str) -> str:
    """Sees its cancel, and finishes all the same."""
    event(key, STARTED).set()
    try:
        await event(key, GATES).wait()
    except asyncio.CancelledError:
        await event(key, GATES).wait()
    return "won"


@activity
async def step(n: int) -> int:
    return n


@workflow
async def holds(key: str) -> str:
    return await hold(key)


@workflow
async def sleeps_long() -> None:
    await asyncio.sleep(3_600)


@workflow
async def cleans_up(key: str) -> str:
    try:
        await asyncio.sleep(3_600)
    except asyncio.CancelledError:
        await step(1)
        raise
    return "slept"


@workflow
async def swallows() -> str:
    try:
        await asyncio.sleep(3_600)
    except asyncio.CancelledError as error:
        return f"swallowed {error.args}"
    return "slept"


@workflow
async def counts_cancels(wanted: int) -> int:
    seen = 0
    while seen < wanted:
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            seen += 1
    return seen


@workflow
async def gathers(key: str) -> list[Any]:
    return await asyncio.gather(hold(f"{key}-1"), hold(f"{key}-2"), asyncio.sleep(3_600), return_exceptions=True)


@workflow
async def steps_for_ever() -> None:
    n = 0
    while n < 10_000:
        n = await step(n + 1)


async def test_cancel_raises_at_the_next_await(any_house, t) -> None:
    """A sleeping run sees CancelledError, cleans up with another step, and ends cancelled; the timer is cancelled and recorded so."""
    async with any_house(cleans_up, step) as app:
        handle = await app.client.start(cleans_up("x"))
        await t.recorded(app, handle, "timer_started")
        await handle.cancel("enough")
        with pytest.raises(WorkflowCancelled):
            await handle.result()
        assert await t.types(handle) == [
            "started",
            "timer_started",
            "cancel_requested",
            "timer_cancelled",
            "activity_scheduled",
            "activity_completed",
            "cancelled",
        ]
        with pytest.raises(WorkflowClosed):
            await handle.cancel()


async def test_swallowing_a_cancel_completes_the_run(any_house, t) -> None:
    """The reason reaches the code; returning makes it completed."""
    async with any_house(swallows) as app:
        handle = await app.client.start(swallows())
        await t.recorded(app, handle, "timer_started")
        await handle.cancel("the reason")
        assert await handle.result() == "swallowed ('the reason',)"


async def test_every_request_counts_once(any_house, t) -> None:
    """Three requests raise three times; one repeated under its request id raises once."""
    async with any_house(counts_cancels) as app:
        handle = await app.client.start(counts_cancels(3))
        for n in range(3):
            await handle.cancel(request_id=f"c-{n}")
            await handle.cancel(request_id=f"c-{n}")
        assert await handle.result() == 3
        assert (await t.types(handle)).count("cancel_requested") == 3


async def test_cancel_before_the_first_activation(house, t) -> None:
    """No worker has the code yet: the code starts all the same, then sees the request."""
    async with house(memory=True) as app:
        handle = await app.client.start("cleans_up", "x")
        await handle.cancel()
        app.register(cleans_up, step)
        with pytest.raises(WorkflowCancelled):
            await handle.result()
        assert (await t.types(handle))[:3] == ["started", "cancel_requested", "timer_started"]


@pytest.mark.scenario(1)
async def test_cancel_at_the_instant_a_step_completes(any_house, t) -> None:
    """A loop of short steps is always stopped by its cancel, wherever it falls."""
    async with any_house(steps_for_ever, step) as app:
        for n in range(6):
            handle = await app.client.start(steps_for_ever())
            await t.recorded(app, handle, "activity_completed", n + 1)
            await handle.cancel()
            with pytest.raises(WorkflowCancelled):
                await handle.result()


@pytest.mark.scenario(6)
async def test_cancel_in_gather_with_return_exceptions(any_house, t) -> None:
    """gather does not swallow the cancel: the run ends, its activities are cancelled."""
    key = f"gather-{any_house.mode}"
    async with any_house(gathers, hold) as app:
        handle = await app.client.start(gathers(key))
        await event(f"{key}-1", STARTED).wait()
        await event(f"{key}-2", STARTED).wait()
        await handle.cancel()
        with pytest.raises(WorkflowCancelled):
            await handle.result()
    assert LOG[f"{key}-1"] == LOG[f"{key}-2"] == ["cancelled"]


# ------------------------------------------------------------------------------------------------------------------- on_cancel


@workflow
async def tries(key: str, how: str) -> list[str]:
    task = asyncio.create_task(stubborn.options(on_cancel=how)(key))
    await workflow.receive("cancel it")
    task.cancel()
    try:
        return ["result", await task]
    except asyncio.CancelledError:
        return ["raised"]


async def test_on_cancel_try_raises_at_once(any_house, t) -> None:
    """The request is recorded, the task raises there and then, whatever the activity does later."""
    key = f"try-{any_house.mode}"
    async with any_house(tries, stubborn) as app:
        handle = await app.client.start(tries(key, "try"))
        await event(key, STARTED).wait()
        await handle.signal("cancel it")
        assert await handle.result() == ["raised"]
        assert "activity_cancel_requested" in await t.types(handle)
        event(key, GATES).set()


async def test_on_cancel_wait_takes_a_result_that_won(any_house, t) -> None:
    """The task waits for the activity's end; one that finished after all gives its result."""
    key = f"wait-{any_house.mode}"
    async with any_house(tries, stubborn) as app:
        handle = await app.client.start(tries(key, "wait"))
        await event(key, STARTED).wait()
        await handle.signal("cancel it")
        await t.recorded(app, handle, "activity_cancel_requested")
        assert (await handle.describe()).status == "running"
        event(key, GATES).set()
        assert await handle.result() == ["result", "won"]


@workflow
async def waits_cancelled(key: str) -> str:
    task = asyncio.create_task(hold.options(on_cancel="wait")(key))
    await workflow.receive("cancel it")
    task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        return "raised"


@pytest.mark.scenario(4)
async def test_on_cancel_wait_raises_when_the_activity_was_cancelled(any_house, t) -> None:
    """An activity that obeys is recorded as cancelled before the code goes on."""
    key = f"wait-cancelled-{any_house.mode}"
    async with any_house(waits_cancelled, hold) as app:
        handle = await app.client.start(waits_cancelled(key))
        await event(key, STARTED).wait()
        await handle.signal("cancel it")
        assert await handle.result() == "raised"
        kinds = await t.types(handle)
        assert kinds.index("activity_cancel_requested") < kinds.index("activity_cancelled") < kinds.index("completed")


async def test_on_cancel_abandon_does_not_ask(any_house, t) -> None:
    """The task raises, the activity is left alone: nothing is recorded."""
    key = f"abandon-{any_house.mode}"
    async with any_house(tries, stubborn) as app:
        handle = await app.client.start(tries(key, "abandon"))
        await event(key, STARTED).wait()
        await handle.signal("cancel it")
        assert await handle.result() == ["raised"]
        assert "activity_cancel_requested" not in await t.types(handle)
        event(key, GATES).set()


@workflow
async def waits_through(key: str) -> list[str]:
    told = []
    try:
        told.append(await stubborn.options(on_cancel="wait")(key))
    except asyncio.CancelledError:
        told.append("raised")
    try:
        await asyncio.sleep(3_600)
    except asyncio.CancelledError:
        told.append("raised")
    return told


@pytest.mark.scenario(4)
async def test_on_cancel_wait_waits_through_every_cancel(any_house, t) -> None:
    """A second request does not break the wait for the activity's end; it is raised at the next await behind it."""
    key = f"through-{any_house.mode}"
    async with any_house(waits_through, stubborn) as app:
        handle = await app.client.start(waits_through(key))
        await event(key, STARTED).wait()
        await handle.cancel()
        await handle.cancel()
        await t.recorded(app, handle, "cancel_requested", 2)
        await t.decided(app, handle)
        assert (await handle.describe()).status == "running"
        event(key, GATES).set()
        assert await handle.result() == ["won", "raised"]
        assert (await t.types(handle)).count("activity_cancel_requested") == 1


ROUNDS: dict[str, int] = {}


@activity(retry=Retry(initial=3_600, jitter=0))
async def fails_once(key: str) -> None:
    ROUNDS[key] = ROUNDS.get(key, 0) + 1
    raise ConnectionError("not yet")


@workflow
async def cancels_retry(key: str, how: str) -> str:
    task = asyncio.create_task(fails_once.options(on_cancel=how)(key))
    await workflow.receive("cancel it")
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return "raised"
    return "result"


@pytest.mark.parametrize("how", ["try", "wait"])
async def test_cancel_while_it_waits_for_a_retry(any_house, t, how) -> None:
    """Nobody runs it: it ends at once, and is not tried again."""
    key = f"retry-{how}-{any_house.mode}"
    async with any_house(cancels_retry, fails_once) as app:
        handle = await app.client.start(cancels_retry(key, how))
        await t.recorded(app, handle, "attempt_failed")
        await handle.signal("cancel it")
        assert await handle.result() == "raised"
        assert "activity_cancelled" in await t.types(handle) or how == "try"
        assert ROUNDS[key] == 1


@pytest.mark.parametrize("how", ["try", "wait"])
async def test_cancel_before_it_is_taken(any_house, t, how) -> None:
    """No worker serves its queue: it ends at once and is never run."""
    key = f"untaken-{how}-{any_house.mode}"
    async with any_house(cancels_untaken, hold) as app:
        handle = await app.client.start(cancels_untaken(key, how))
        await t.recorded(app, handle, "activity_scheduled")
        await handle.signal("cancel it")
        assert await handle.result() == "raised"
        if how == "wait":
            kinds = await t.types(handle)
            assert kinds.index("activity_cancel_requested") < kinds.index("activity_cancelled") < kinds.index("completed")
    assert key not in STARTED


@workflow
async def cancels_untaken(key: str, how: str) -> str:
    task = asyncio.create_task(hold.options(on_cancel=how, queue="nobody")(key))
    await workflow.receive("cancel it")
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return "raised"
    return "result"


@pytest.mark.scenario(66)
async def test_a_cancel_outlives_the_process(any_house, t) -> None:
    """The worker never saw it: after a restart the attempt that was lost is not tried again, because its cancel is in the history."""
    key = f"outlives-{any_house.mode}"
    async with any_house(waits_deaf, deaf, replays=False, grace=0) as app:
        THREAD_GATES[key] = threading.Event()
        handle = await app.client.start(waits_deaf(key), id="outlives")
        await asyncio.to_thread(THREAD_GATES[key].wait, 20)
        await handle.signal("cancel it")
        await t.recorded(app, handle, "activity_cancel_requested")
    async with any_house(waits_deaf, deaf) as app:
        handle = app.client.handle("outlives", workflow=waits_deaf)
        assert await handle.result() == "raised"
    assert ROUNDS[key] == 1


@activity(retry=Retry(initial=0.001, jitter=0))
def deaf(key: str) -> str:
    """Never looks whether it is wanted."""
    ROUNDS[key] = ROUNDS.get(key, 0) + 1
    THREAD_GATES[key].set()
    threading.Event().wait()
    return "never"


@workflow
async def waits_deaf(key: str) -> str:
    task = asyncio.create_task(deaf.options(on_cancel="wait")(key))
    await workflow.receive("cancel it")
    task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        return "raised"


@workflow
async def abandons(key: str) -> list[str]:
    task = asyncio.create_task(stubborn.options(on_cancel="abandon")(key))
    await workflow.receive("cancel it")
    task.cancel()
    await asyncio.wait([task])
    await workflow.receive("go on")
    return [str(task.cancelled())]


async def test_an_abandoned_activity_runs_on_and_its_result_is_recorded(any_house, t) -> None:
    """It is not told, its result lies in the history, and the code that gave it up does not see it."""
    key = f"abandoned-{any_house.mode}"
    async with any_house(abandons, stubborn) as app:
        handle = await app.client.start(abandons(key))
        await event(key, STARTED).wait()
        await handle.signal("cancel it")
        await t.decided(app, handle)
        event(key, GATES).set()
        assert (await t.recorded(app, handle, "activity_completed")).result == "won"
        await handle.signal("go on")
        assert await handle.result() == ["True"]
        assert "activity_cancel_requested" not in await t.types(handle)


@workflow
async def abandons_and_ends(key: str) -> None:
    await hold.options(on_cancel="abandon")(key)


async def test_an_abandoned_activity_runs_on_when_its_run_is_cancelled(any_house, t) -> None:
    """The run ends cancelled; the activity is left to its end."""
    key = f"left-{any_house.mode}"
    async with any_house(abandons_and_ends, hold) as app:
        handle = await app.client.start(abandons_and_ends(key))
        await event(key, STARTED).wait()
        await handle.cancel()
        with pytest.raises(WorkflowCancelled):
            await handle.result()
        event(key, GATES).set()
    assert LOG[key] == ["done"]


THREAD_GATES: dict[str, threading.Event] = {}


@activity(retry=Retry(max_attempts=1))
def on_thread(key: str) -> str:
    """Looks now and then whether it is wanted, and finishes all the same."""
    gate = THREAD_GATES[key]
    gate.wait(20)
    return f"won, cancelled {activity.is_cancelled()}"


@workflow
async def cancels_thread(key: str) -> list[str]:
    task = asyncio.create_task(on_thread.options(on_cancel="wait")(key))
    await workflow.receive("cancel it")
    task.cancel()
    try:
        return ["result", await task]
    except asyncio.CancelledError:
        return ["raised"]


async def test_an_activity_on_a_thread_ends_when_its_function_does(any_house, t) -> None:
    """A thread cannot be interrupted: cancelled, it sees `is_cancelled()`, and what it returns in the end is its result."""
    key = f"thread-{any_house.mode}"
    THREAD_GATES[key] = threading.Event()
    async with any_house(cancels_thread, on_thread) as app:
        handle = await app.client.start(cancels_thread(key))
        await t.recorded(app, handle, "activity_scheduled")
        await handle.signal("cancel it")
        await t.recorded(app, handle, "activity_cancel_requested")
        with pytest.raises(TimeoutError):
            await handle.result(timeout=0.05)
        THREAD_GATES[key].set()
        assert await handle.result() == ["result", "won, cancelled True"]


@workflow
async def cancels_at_once() -> str:
    task = asyncio.create_task(step(1))
    await asyncio.sleep(0)
    task.cancel()
    sleeper = asyncio.create_task(asyncio.sleep(60))
    await asyncio.sleep(0)
    sleeper.cancel()
    await asyncio.wait([task, sleeper])
    return f"{task.cancelled()} {sleeper.cancelled()}"


async def test_start_and_cancel_in_one_breath_leave_nothing(any_house, t) -> None:
    """An activity and a timer asked for and cancelled within one input are not recorded at all."""
    async with any_house(cancels_at_once, step) as app:
        handle = await app.client.start(cancels_at_once())
        assert await handle.result() == "True True"
        assert await t.types(handle) == ["started", "completed"]


@workflow
async def cancels_a_sleeper() -> str:
    sleeper = asyncio.create_task(asyncio.sleep(3_600))
    await step(1)
    sleeper.cancel()
    await asyncio.wait([sleeper])
    await step(2)
    return "on"


@pytest.mark.scenario(2)
@pytest.mark.scenario(7)
async def test_a_cancelled_sleeper_takes_its_timer_along(any_house, t) -> None:
    """Cancelling the task round a durable sleep records the timer's cancel; nothing is pending afterwards."""
    async with any_house(cancels_a_sleeper, step) as app:
        handle = await app.client.start(cancels_a_sleeper())
        assert await handle.result() == "on"
        kinds = await t.types(handle)
        assert "timer_cancelled" in kinds
        assert "timer_fired" not in kinds
        assert not (await handle.describe()).pending


# -------------------------------------------------------------------------------------------------------- terminate, time out


async def test_terminate_ends_the_run_now(any_house, t) -> None:
    """No code runs any more, activities are told, the reason is kept."""
    key = f"terminate-{any_house.mode}"
    async with any_house(holds, hold) as app:
        handle = await app.client.start(holds(key))
        await event(key, STARTED).wait()
        await handle.terminate("over")
        with pytest.raises(WorkflowTerminated, match="over"):
            await handle.result()
        assert (await t.types(handle))[-1] == "terminated"
        with pytest.raises(WorkflowClosed):
            await handle.terminate()
        with pytest.raises(WorkflowClosed):
            await handle.signal("late")
    assert LOG[key] == ["cancelled"]


async def test_a_run_passes_its_timeout(any_house, t) -> None:
    """`timeout=` bounds the run; its activities are told."""
    key = f"timeout-{any_house.mode}"
    async with any_house(holds, hold) as app:
        handle = await app.client.start(holds(key), timeout=0.2)
        await event(key, STARTED).wait()
        with pytest.raises(WorkflowTimedOut):
            await handle.result()
        assert (await handle.describe()).status == "timed_out"
    assert LOG[key] == ["cancelled"]


@pytest.mark.scenario(8)
async def test_giving_up_a_wait_never_touches_the_run(house) -> None:
    """A cancelled or timed-out `result()` is only a wait that ended: the run goes on to its end."""
    key = "given-up"
    async with house(holds, hold) as app:
        handle = await app.client.start(holds(key))
        await event(key, STARTED).wait()
        waiting = asyncio.create_task(handle.result())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with pytest.raises(TimeoutError):
            await handle.result(timeout=0.01)
        event(key, GATES).set()
        assert await handle.result() == "held"
    assert LOG[key] == ["done"]


# ------------------------------------------------------------------------------------------------------------------------ saga


@workflow
async def buys(key: str) -> str:
    async with workflow.saga() as saga:
        await step(1)
        saga.add(undo(key, "first"))
        await step(2)
        saga.add(undo(key, "second"))
        await asyncio.sleep(3_600)
    return "bought"


@activity
async def undo(key: str, what: str) -> None:
    LOG.setdefault(key, []).append(what)


async def test_a_saga_compensates_when_the_run_is_cancelled(any_house, t) -> None:
    """Compensations run last first, though the run is being cancelled, and the run ends cancelled."""
    key = f"saga-{any_house.mode}"
    async with any_house(buys, step, undo) as app:
        handle = await app.client.start(buys(key))
        await t.recorded(app, handle, "timer_started")
        await handle.cancel()
        with pytest.raises(WorkflowCancelled):
            await handle.result()
    assert LOG[key] == ["second", "first"]
