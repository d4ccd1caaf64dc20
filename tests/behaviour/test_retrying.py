"""Starts that begin later, and failed runs that are tried again, on a whole node and under a virtual clock."""

from datetime import timedelta
from typing import Any

import pytest

import perdure
from perdure import Retry, workflow
from perdure.errors import ApplicationError, InvalidArgument, WorkflowFailed, WorkflowTimedOut


class DeclinedError(Exception):
    pass


@workflow(retry=Retry(initial=0.01, max_attempts=3, non_retryable=[DeclinedError]))
async def third_time(kind: str) -> Any:
    attempt = workflow.info().attempt
    if kind == "final":
        raise DeclinedError(str(attempt))
    if kind == "hopeless" or attempt < 3:
        raise ValueError(f"attempt {attempt}")
    return [attempt, kind]


@workflow(retry=Retry(initial=0.01, max_attempts=3))
async def takes_signals_then_fails() -> list[Any]:
    """The first attempt takes one signal and leaves the other."""
    if workflow.info().attempt == 1:
        taken = await workflow.receive("first")
        raise ValueError(taken)
    return [await workflow.receive("second"), workflow.info().attempt]


@workflow(retry=Retry(initial=3600, max_interval=86_400, jitter=0))
async def hourly() -> int:
    attempt = workflow.info().attempt
    if attempt == 1:
        raise ApplicationError("soon", next_retry_delay=60)
    if attempt == 2:
        raise ValueError("later")
    return attempt


@workflow
async def says_when() -> float:
    return workflow.time()


@workflow(timeout=60)
async def waits() -> None:
    await workflow.receive("never")


async def test_a_failed_run_is_tried_again(any_house, t) -> None:
    """result() follows the attempts to the last one; each is a run of its own with the failure it ended with."""
    async with any_house(third_time) as app:
        handle = await app.client.start(third_time("lucky"), id="l")
        assert await handle.result() == [3, "lucky"]
        runs = [row async for row in app.client.list()]
        assert [row.status for row in runs] == ["completed", "failed", "failed"]
        first = app.client.handle("l", handle.run_id)
        assert (await first.describe()).status == "failed"
        assert await first.result() == [3, "lucky"]
        with pytest.raises(WorkflowFailed) as failed:
            await app.client.execute(third_time("hopeless"), id="h")
        assert str(failed.value.__cause__) == "attempt 3"
        with pytest.raises(WorkflowFailed) as failed:
            await app.client.execute(third_time("final"), id="f")
        assert str(failed.value.__cause__) == "1"


async def test_a_start_by_name_knows_nothing_of_the_decorator(any_house) -> None:
    """Only the worker has the code: the run is tried once, as the documentation says."""
    async with any_house(third_time) as app:
        with pytest.raises(WorkflowFailed) as failed:
            await app.client.execute("third_time", "lucky", id="n")
        assert str(failed.value.__cause__) == "attempt 1"


async def test_signals_a_failed_attempt_did_not_take_are_the_next_ones(any_house) -> None:
    """Nobody's signal is lost by another's failure."""
    async with any_house(takes_signals_then_fails) as app:
        handle = await app.client.signal_with_start(takes_signals_then_fails(), "second", 2, id="s")
        await handle.signal("first", 1)
        assert await handle.result() == [2, 2]


async def test_attempts_wait_as_long_as_the_policy_says() -> None:
    """Never early; an error may name its own delay."""
    async with perdure.testing.environment() as env:
        env.register(hourly)
        began = env.now()
        handle = await env.client.start(hourly(), id="h")
        assert await handle.result() == 3
        waited = env.now() - began
        assert timedelta(seconds=60 + 7200) <= waited < timedelta(seconds=60 + 7201)


async def test_a_delayed_start() -> None:
    """The run is there at once; its code begins so much later; its timeout counts from then."""
    async with perdure.testing.environment() as env:
        env.register(says_when, waits)
        began = env.now().timestamp()
        handle = await env.client.start(says_when(), id="d", start_delay=timedelta(days=2))
        view = await handle.describe()
        assert (view.status, view.pending[0].kind) == ("running", "start")
        assert view.pending[0].until is not None
        assert 2 * 86400 <= view.pending[0].until.timestamp() - began < 2 * 86400 + 1
        assert await handle.result() == view.pending[0].until.timestamp()
        late = await env.client.start(waits(), id="w", start_delay=3600)
        with pytest.raises(WorkflowTimedOut):
            await late.result()
        assert env.now().timestamp() - began >= 2 * 86400 + 3600 + 60


async def test_a_delayed_start_survives_a_restart(any_house, t) -> None:
    """It begins on time in the process that is there then."""
    async with any_house(says_when) as app:
        soon = await app.client.start(says_when(), id="soon", start_delay=0.3)
        due = (await soon.describe()).pending[0].until
        await app.client.start(says_when(), id="never", start_delay=86400)
    async with any_house(says_when) as app:
        assert due is not None
        assert await app.client.handle("soon").result() >= due.timestamp()
        assert (await app.client.handle("never").describe()).pending[0].kind == "start"
        await app.client.handle("never").terminate()


async def test_delays_are_checked(house) -> None:
    """Nothing is written of a start that makes no sense; zero is none."""
    async with house(says_when) as app:
        for wrong in (-1, float("nan"), "soon", timedelta(days=40_000)):
            with pytest.raises(InvalidArgument):
                await app.client.start(says_when(), start_delay=wrong)  # type: ignore[arg-type]
        assert await app.client.execute(says_when(), start_delay=0) > 0


async def test_a_remembered_signal_starts_no_run(house) -> None:
    """Sent again after the run it started has ended, a signal with start gives that run; a new one starts another."""
    async with house(takes_signals_then_fails) as app:
        send = app.client.signal_with_start
        first = await send(takes_signals_then_fails(), "second", 2, id="r", signal_id="once", start_delay=0.05)
        await first.signal("first", 1)
        assert await first.result() == [2, 2]
        runs = await app.client.count()
        again = await send(takes_signals_then_fails(), "second", 2, id="r", signal_id="once")
        assert await again.result() == [2, 2]
        assert await app.client.count() == runs
        other = await send(takes_signals_then_fails(), "second", 3, id="r", signal_id="twice")
        assert await app.client.count() == runs + 1
        await other.terminate()
