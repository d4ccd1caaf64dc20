"""Activities that are completed from outside: by any process that has the token, whatever became of the worker."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

import perdure
from perdure import Retry, activity, workflow
from perdure.errors import ActivityError, InvalidArgument, NotFound, WorkflowCancelled
from perdure.testing import environment

TOKENS: dict[str, list[str]] = {}


@pytest.fixture(autouse=True)
def no_tokens() -> None:
    TOKENS.clear()


@activity(retry=Retry(initial=0.001, jitter=0))
async def ask_someone(key: str) -> str:
    TOKENS.setdefault(key, []).append(activity.info().task_token)
    activity.complete_later()


@activity(retry=Retry(initial=0.001, jitter=0))
def ask_on_thread(key: str) -> str:
    TOKENS.setdefault(key, []).append(activity.info().task_token)
    activity.complete_later()


@activity(heartbeat=0.2, retry=Retry(max_attempts=1))
async def ask_with_beats(key: str) -> str:
    TOKENS.setdefault(key, []).append(activity.info().task_token)
    activity.complete_later()


@activity
async def details(key: str) -> list[Any]:
    info = activity.info()
    if info.attempt == 1:
        TOKENS.setdefault(key, []).append(info.task_token)
        activity.complete_later()
    return list(info.heartbeat_details)


@workflow
async def asks(key: str) -> list[str]:
    return [await ask_someone(f"{key}-1"), await ask_on_thread(f"{key}-2")]


@workflow
async def asks_one(key: str) -> str:
    return await ask_someone(key)


@workflow
async def asks_with_beats(key: str) -> str:
    try:
        return await ask_with_beats(key)
    except ActivityError as error:
        return error.kind


@workflow
async def remembers(key: str) -> list[Any]:
    return await details.options(retry=Retry(initial=0.001, jitter=0))(key)


@workflow
async def waits_for_the_end(key: str) -> str:
    task = asyncio.ensure_future(ask_someone.options(on_cancel="wait")(key))
    try:
        return await task
    except asyncio.CancelledError:
        return "cancelled"


async def token(app: Any, handle: Any, t: Any, key: str, number: int = 1) -> str:
    """The token of that attempt, once the claim is written as one from outside."""

    async def holds() -> str | None:
        claims = [e for e in await handle.history(notes=True) if e.type == "activity_claimed" and e.fields().get("outside")]
        found = TOKENS.get(key, [])
        return found[number - 1] if len(found) >= number and claims and claims[-1].attempt == number else None

    return await t.until(app, holds)


async def test_completed_from_outside(any_house, t) -> None:
    """Async functions and those on threads; the slot is free meanwhile, the result is what the workflow gets, and a token works once."""
    async with any_house(asks, ask_someone, ask_on_thread, max_activities=1) as app:
        handle = await app.client.start(asks("both"))
        first = await token(app, handle, t, "both-1")
        assert app.worker.running_activities == 0
        pending = (await handle.describe()).pending[0]
        assert (pending.kind, pending.state) == ("activity", "to be completed from outside")
        await app.client.complete_activity(first, "yes")
        with pytest.raises(NotFound):
            await app.client.complete_activity(first, "no")
        with pytest.raises(NotFound):
            await app.client.heartbeat_activity(first)
        await app.client.complete_activity(await token(app, handle, t, "both-2"), "also")
        assert await handle.result() == ["yes", "also"]


async def test_the_claim_survives_the_process(any_house, t) -> None:
    """Stopped and started again, the activity still waits for the same token; its function does not run again."""
    async with any_house(asks_one, ask_someone, replays=False) as app:
        handle = await app.client.start(asks_one("restart"), id="restart")
        given = await token(app, handle, t, "restart")
    async with any_house(asks_one, ask_someone) as app:
        handle = app.client.handle("restart", workflow=asks_one)
        assert (await handle.describe()).pending[0].state == "to be completed from outside"
        assert await app.client.heartbeat_activity(given, "still there") is False
        await app.client.complete_activity(given, "later")
        assert await handle.result() == "later"
    assert len(TOKENS["restart"]) == 1


async def test_a_failure_is_retried_with_another_token(any_house, t) -> None:
    """The retry policy decides, and the last details reach the next attempt."""
    async with any_house(remembers, details) as app:
        handle = await app.client.start(remembers("retry"))
        given = await token(app, handle, t, "retry")
        await app.client.heartbeat_activity(given, 1, "half")
        await app.client.fail_activity(given, ValueError("not today"))
        with pytest.raises(NotFound):
            await app.client.fail_activity(given, ValueError("twice"))
        assert await handle.result() == [1, "half"]
        failed = await t.recorded(app, handle, "attempt_failed")
        assert failed.failure.type == "ValueError"


async def test_silence_ends_it(any_house, t) -> None:
    """The heartbeat bound goes on running when the function has ended."""
    async with any_house(asks_with_beats, ask_with_beats) as app:
        handle = await app.client.start(asks_with_beats("silent"))
        assert await handle.result() == "heartbeat"
        with pytest.raises(NotFound):
            await app.client.complete_activity(TOKENS["silent"][-1])


async def test_cancel_is_heard_with_a_heartbeat(any_house, t) -> None:
    """With "wait" the workflow goes on when whoever completes it says that it was cancelled; with "try" at once."""
    async with any_house(waits_for_the_end, asks_one, ask_someone) as app:
        handle = await app.client.start(waits_for_the_end("wait"))
        given = await token(app, handle, t, "wait")
        await handle.cancel()
        await t.recorded(app, handle, "activity_cancel_requested")
        assert await app.client.heartbeat_activity(given) is True
        await app.client.fail_activity(given, asyncio.CancelledError())
        assert await handle.result() == "cancelled"

        handle = await app.client.start(asks_one("try"))
        given = await token(app, handle, t, "try")
        await handle.cancel()
        with pytest.raises(WorkflowCancelled):
            await handle.result()
        with pytest.raises(NotFound):
            await app.client.complete_activity(given, "too late")


async def test_what_is_no_token_is_refused(house, t) -> None:
    """Not a token, one that was changed, one of another namespace."""
    async with house(asks_one, ask_someone) as app:
        for text in ("", "p1.AAAA", "nonsense"):
            with pytest.raises(InvalidArgument):
                await app.client.complete_activity(text)
        other = perdure.Client(app.frontend, app.client._chance, "elsewhere")
        handle = await app.client.start(asks_one("ns"))
        await token(app, handle, t, "ns")
        with pytest.raises(NotFound, match="namespace"):
            await other.complete_activity(TOKENS["ns"][0])
        await app.client.complete_activity(TOKENS["ns"][0], "here")
        assert await handle.result() == "here"


def test_outside_a_worker_it_is_refused() -> None:
    """There is no attempt to leave open."""
    with pytest.raises(perdure.errors.PerdureError, match=r"activity\.info"):
        asyncio.run(_await(ask_someone("nobody")))


async def _await(call: Any) -> Any:
    return await call


@activity(heartbeat=60, retry=Retry(max_attempts=1))
async def ask_for_a_minute(key: str) -> str:
    TOKENS.setdefault(key, []).append(activity.info().task_token)
    activity.complete_later()


@workflow
async def asks_for_a_minute(key: str) -> str:
    try:
        return await ask_for_a_minute(key)
    except ActivityError as error:
        return error.kind


async def test_a_heartbeat_bound_begins_anew_with_the_process(tmp_path) -> None:
    """While there was no engine nobody could be heard: silence counts from its return, however long it was away."""
    async with environment(data=tmp_path, start=datetime(2026, 1, 1, tzinfo=UTC)) as env:
        env.register(asks_for_a_minute, ask_for_a_minute)
        handle = await env.client.start(asks_for_a_minute("away"), id="away")
        await env.advance(50)
        await env.client.heartbeat_activity(TOKENS["away"][0])
        await env.advance(50)
        assert (await handle.describe()).pending[0].state == "to be completed from outside"
    async with environment(data=tmp_path, start=datetime(2026, 1, 1, 1, tzinfo=UTC)) as env:
        env.register(asks_for_a_minute, ask_for_a_minute)
        handle = env.client.handle("away", workflow=asks_for_a_minute)
        await env.advance(59)
        assert (await handle.describe()).status == "running"
        await env.advance(2)
        assert await handle.result() == "heartbeat"
