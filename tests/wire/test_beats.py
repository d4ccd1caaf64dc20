"""Claims live as long as their worker's process does, whatever its loop is busy with; what is not wanted any more is told to it."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import activity, workflow
from perdure.core.limits import Limits
from perdure.server.wire.beats import BeatsHeard
from perdure.wire.lines import Lines
from perdure.wire.messages import Beat, HeldClaim, Notice

SHORT = Limits(claim_lives_s=0.6)
"""So that a claim without beats would be lost within a test."""
LONG_S = 2.5
"""So much longer than that an activity takes."""

BLOCKING = Path(__file__).with_name("blocking_worker.py")


@activity
async def block(seconds: float) -> str:
    raise AssertionError("it runs in another process")


@workflow
async def blocked() -> str:
    return await block(LONG_S)


@activity
async def slow(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "done"


@workflow
async def slowly(seconds: float) -> str:
    return await slow(seconds)


GIVEN: list[asyncio.Queue[str]] = []


@activity
async def later() -> str:
    GIVEN[-1].put_nowait(activity.info().task_token)
    activity.complete_later()


@workflow
async def lately() -> str:
    return await later()


CANCELLED: list[asyncio.Event] = []


@activity
async def endless() -> str:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        CANCELLED[-1].set()
        raise
    return ""


@workflow
async def endlessly() -> str:
    return await endless()


async def held(client: Any, count: int = 1) -> None:
    """Wait until so many activity claims are in the client's workers' hands."""
    async with asyncio.timeout(5):
        while sum(claim.command > 0 for claim in client.frontend.claims.all()) != count:  # noqa: ASYNC110  a book tells nobody
            await asyncio.sleep(0.01)


async def lost(node: Any, workflow_id: str) -> list[str]:
    """Kinds of failed attempts in a run's record."""
    record = await node.node.frontend.record("default", workflow_id)
    return [note.kind for note in record.notes if note.type == "attempt_failed"]


async def test_a_blocked_loop_costs_no_claim(serve: Any) -> None:
    """An async activity blocks the loop of its process for several lives of a claim: it is not lost, and its result counts at the first attempt."""
    async with serve(blocked, queues=["others"], limits=SHORT) as node:
        process = await asyncio.create_subprocess_exec(sys.executable, str(BLOCKING), node.url, stdout=asyncio.subprocess.PIPE)
        try:
            assert process.stdout is not None
            assert await process.stdout.readline() == b"ready\n"
            async with await perdure.connect(node.url) as client, perdure.Worker(client, workflows=[blocked]):
                assert await client.execute(blocked(), id="blocked") == "done"
            assert await lost(node, "blocked") == []
        finally:
            process.kill()
            await process.wait()


async def test_beats_go_on_while_a_worker_drains(serve: Any) -> None:
    """A worker that is asked to stop lets its activity end within the grace period; until then its claim lives."""
    async with serve(queues=["others"], limits=SHORT) as node, await perdure.connect(node.url) as client:
        worker = perdure.Worker(client, workflows=[slowly], activities=[slow])
        await worker.__aenter__()
        handle = await client.start(slowly(LONG_S), id="slow")
        await held(client)
        await worker.__aexit__(None, None, None)
        async with perdure.Worker(client, workflows=[slowly], activities=[slow]):
            assert await handle.result(timeout=10) == "done"
        assert await lost(node, "slow") == []


async def test_a_claim_that_is_completed_from_outside_needs_no_beats(serve: Any) -> None:
    """Once its function has said that the result comes later, nobody beats for the attempt; it stands for longer than a claim lives."""
    GIVEN.append(asyncio.Queue())
    async with serve(queues=["others"], limits=SHORT) as node, await perdure.connect(node.url) as client:
        async with perdure.Worker(client, workflows=[lately], activities=[later]):
            handle = await client.start(lately(), id="later")
            token = await GIVEN[-1].get()
            await held(client, 0)
            await asyncio.sleep(2 * SHORT.claim_lives_s)
            await client.complete_activity(token, "given")
            assert await handle.result(timeout=10) == "given"
        assert await lost(node, "later") == []


async def test_a_beat_tells_what_is_not_wanted(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run of an activity ends and the notice of it never arrives: the answer to the next beat tells, and the activity is cancelled."""
    CANCELLED.append(asyncio.Event())
    heard = Lines.heard
    monkeypatch.setattr(Lines, "heard", lambda lines, message: None if isinstance(message, Notice) else heard(lines, message))
    async with serve(queues=["others"], limits=SHORT) as node, await perdure.connect(node.url) as client:
        worker = perdure.Worker(client, workflows=[endlessly], activities=[endless])
        async with worker:
            handle = await client.start(endlessly(), id="endless")
            await held(client)
            await handle.terminate("enough")
            async with asyncio.timeout(5):
                await CANCELLED[-1].wait()
            assert client.frontend.claims.all() == ()


async def test_a_beat_of_very_many_claims(serve: Any) -> None:
    """Somebody says to hold more than anybody can: all of it is answered as gone, and others get their turns meanwhile."""
    async with serve() as node:
        claims = tuple(HeldClaim(namespace="default", workflow_id=f"w{n}", run_id="r", token=f"t{n}") for n in range(3_000))
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        meanwhile = asyncio.create_task(others())
        answer = await BeatsHeard(node.node.frontend, 1_000_000).take(Beat(claims=claims))
        meanwhile.cancel()
        assert len(answer.gone) == 3_000
        assert turns >= 2
