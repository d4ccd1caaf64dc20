"""What perdure says when something is amiss: each message names what is wrong and what to do."""

import asyncio
import logging
import warnings
from datetime import timedelta
from typing import Any

import pytest

import perdure
from perdure import Retry, activity, workflow
from perdure.errors import Unavailable, WorkflowAlreadyStarted, WorkflowCancelled


@activity
async def note(text: str) -> str:
    return text


@activity(retry=Retry(initial=0.001, factor=1, jitter=0, max_attempts=9))
async def flaky() -> None:
    raise OSError("no network")


@workflow
async def forgets_await() -> str:
    note("never asked for")
    return "done"


@workflow
async def calls_flaky() -> None:
    await flaky()


@workflow
async def waits() -> str:
    return await workflow.receive("go", str)


async def test_a_forgotten_await_is_told(house: Any) -> None:
    """A call that is dropped in workflow code asks for nothing; the warning names the activity."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        async with house(forgets_await, note) as app:
            assert await app.client.execute(forgets_await()) == "done"
    (warning,) = {str(entry.message): entry for entry in told}.values()
    assert "note was called and never awaited" in str(warning.message)
    assert warning.filename.endswith("test_guidance.py")


async def test_calls_outside_workflows_warn_of_nothing() -> None:
    """A call is a value: it may be made, looked at and dropped."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        note("a")
        waits()


async def test_failing_attempts_are_logged_ever_more_rarely(house: Any, caplog: Any) -> None:
    """The first three, then each power of two: 1, 2, 3, 4, 8."""
    async with house(calls_flaky, flaky) as app:
        handle = await app.client.start(calls_flaky(), id="f")
        with pytest.raises(perdure.errors.WorkflowFailed):
            await handle.result()
    told = [record.getMessage() for record in caplog.records if "failed at attempt" in record.getMessage()]
    assert [line.split("attempt ")[1] for line in told] == [f"{n}: OSError: no network" for n in (1, 2, 3, 4, 8)]


async def test_work_that_no_worker_serves_is_told_once(house: Any, caplog: Any) -> None:
    """Nothing registered: the node says so instead of waiting in silence."""
    async with house() as app:
        await app.client.start("nobody", id="n")
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                await app.frontend.sweeper.sweep()
    told = [record for record in caplog.records if "no worker serves it" in record.getMessage()]
    assert len(told) == 1
    assert "'default'" in told[0].getMessage()


async def test_a_node_must_be_entered(tmp_path: Any) -> None:
    """Using a node that was never started says how to start it."""
    node = perdure.embedded(tmp_path)
    with pytest.raises(Unavailable, match="enter the node first"):
        await node.client.start(waits())
    with pytest.raises(Unavailable, match="enter the node first"):
        await node.client.handle("x").result()


async def test_a_taken_id_says_what_can_be_done(house: Any) -> None:
    """The refusal names both ways on."""
    async with house(waits) as app:
        await app.client.start(waits(), id="one")
        with pytest.raises(WorkflowAlreadyStarted, match="'attach' gives its handle"):
            await app.client.start(waits(), id="one")
        await app.client.handle("one").terminate()


async def test_waiting_takes_a_timedelta_and_says_what_it_waited_for(house: Any) -> None:
    """The built-in TimeoutError, with words in it."""
    async with house(waits) as app:
        handle = await app.client.start(waits(), id="slow")
        with pytest.raises(TimeoutError, match=r"'slow' has not ended within 0\.01 s; it goes on"):
            await handle.result(timeout=timedelta(milliseconds=10))
        await handle.terminate()


async def test_the_reason_of_a_cancel_is_told(house: Any) -> None:
    """Whoever asks for the result learns why it was cancelled."""
    async with house(waits) as app:
        handle = await app.client.start(waits(), id="c")
        await handle.cancel("customer left")
        with pytest.raises(WorkflowCancelled, match="customer left"):
            await handle.result()
        assert (await handle.describe()).reason == "customer left"


async def test_a_timeout_of_the_caller_is_its_own(house: Any) -> None:
    """A surrounding timeout is not dressed up as the wait's."""
    async with house(waits) as app:
        handle = await app.client.start(waits(), id="outer")
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(0.01):
                await handle.result(timeout=60)
        assert "has not ended" not in str(caught.value)
        await handle.terminate()
