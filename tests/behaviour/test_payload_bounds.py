"""How large a payload may be, at the limit and a byte beyond, for everything that is one; as a node was set, in its client and its worker."""

import asyncio
from typing import Any

import pytest

from perdure import Limits, Retry, activity, workflow
from perdure.errors import ActivityError, PayloadTooLarge, WorkflowFailed

MAX = 1_000
FITS = "x" * (MAX - 2)
"""Two quotes more, and it is as large as a payload may be."""
SIZES = [pytest.param(MAX - 2, id="at the limit"), pytest.param(MAX - 1, id="a byte more")]
TOKENS: list[str] = []


@activity(retry=Retry(max_attempts=3, initial=0.001))
async def gives(size: int) -> str:
    return "x" * size


@activity(retry=Retry(max_attempts=3, initial=0.001))
def gives_on_a_thread(size: int) -> str:
    return "x" * size


@activity(retry=Retry(max_attempts=1))
async def takes(text: str) -> int:
    return len(text)


@activity(retry=Retry(max_attempts=1))
async def beats(size: int) -> None:
    activity.heartbeat("x" * (size - 2))  # details are a list


@activity
async def left() -> str:
    TOKENS.append(activity.info().task_token)
    activity.complete_later()


@workflow
async def nothing(text: str = "") -> int:
    return len(text)


@workflow
async def uses(what: str, size: int) -> str:
    """Do one thing with a text of that size; what it raised, or nothing."""
    text = "x" * size
    try:
        match what:
            case "activity argument":
                await takes(text)
            case "activity result":
                await gives(size)
            case "activity result on a thread":
                await gives_on_a_thread(size)
            case "heartbeat":
                await beats(size)
            case "side effect":
                workflow.side_effect(lambda: text)
            case "child argument":
                await nothing(text)
            case "named child argument":
                await (await workflow.start_child("nothing", text))
            case "external signal":
                await workflow.external("listener").signal("word", text)
            case "continue as new":
                workflow.continue_as_new("o" + text[1:], 0)
    except PayloadTooLarge as error:
        return str(error)
    except ActivityError as error:
        return f"{error.__cause__}"
    return ""


@workflow
class Keeps:
    def __init__(self) -> None:
        self.got = 0

    @workflow.run
    async def run(self) -> int:
        await workflow.receive("end")
        return self.got

    @workflow.signal
    def word(self, text: str) -> None:
        self.got += len(text)

    @workflow.query
    def echo(self, size: int, text: str = "") -> str:
        return "x" * size

    @workflow.update
    async def add(self, size: int, text: str = "") -> str:
        return "x" * size


@workflow
async def ends_with(size: int) -> str:
    return "x" * size


LIMITS = Limits(payload_bytes_max=MAX)
ASKED = [
    "activity argument", "activity result", "activity result on a thread", "heartbeat", "side effect", "child argument",
    "named child argument", "external signal", "continue as new",
]  # fmt: skip


def says(message: str) -> bool:
    """The size, the limit and the setting are named."""
    return all(part in message for part in ("1,001", "1,000", "limits.payload_bytes_max"))


@pytest.mark.scenario(72)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("what", ASKED)
async def test_what_workflow_code_asks_for(house, what, size) -> None:
    """At the limit it is taken; beyond it the code hears `PayloadTooLarge` at once, and goes on. No attempt is tried again for it."""
    async with house(uses, takes, gives, gives_on_a_thread, beats, nothing, Keeps, memory=True, limits=LIMITS) as app:
        if what == "external signal":
            await app.client.start(Keeps.run(), id="listener")
        handle = await app.client.start(uses(what, size))
        message = await handle.result()
        assert bool(message) == (size == MAX - 1)
        assert not message or says(message)
        assert len([e for e in await handle.history(notes=True) if e.type == "attempt_failed"]) <= 1


@pytest.mark.parametrize("size", SIZES)
async def test_what_a_client_sends(house, t, size) -> None:
    """Arguments, memo, signals, updates, queries, results from outside: refused before anything is written."""
    text = "x" * size
    async with house(nothing, Keeps, left, waits, memory=True, limits=LIMITS) as app:
        client = app.client
        kept = await client.start(Keeps.run())
        TOKENS.clear()
        waiting = await client.start(waits())
        await t.until(app, _given)
        calls: list[Any] = [
            lambda: client.start(nothing(text)),
            lambda: client.start("nothing", text),
            lambda: client.start(nothing(), memo={"m": text}),
            lambda: client.signal_with_start(nothing(), "word", text, id="with"),
            lambda: kept.signal(Keeps.word(text)),
            lambda: kept.signal("word", text),
            lambda: kept.update(Keeps.add(1, text)),
            lambda: kept.query(Keeps.echo(1, text)),
            lambda: client.heartbeat_activity(TOKENS[0], "x" * (size - 2)),
            lambda: client.complete_activity(TOKENS[0], text),
        ]
        written = app.frontend.committer.transitions
        for call in calls:
            if size < MAX - 1:
                await call()
                continue
            with pytest.raises(PayloadTooLarge) as caught:
                await call()
            assert says(str(caught.value))
        if size >= MAX - 1:
            assert app.frontend.committer.transitions == written
            await client.complete_activity(TOKENS[0], "")
        await waiting.result()
        await kept.signal("end")


async def _given() -> bool:
    return bool(TOKENS)


@workflow
async def waits() -> str:
    return await left()


@pytest.mark.parametrize("size", SIZES)
async def test_what_workflow_code_answers(house, size) -> None:
    """Results of runs, updates and queries: too large, the run fails, the update and the query say so."""
    async with house(ends_with, Keeps, memory=True, limits=LIMITS) as app:
        kept = await app.client.start(Keeps.run())
        calls: list[Any] = [
            lambda: app.client.execute(ends_with(size)),
            lambda: kept.update(Keeps.add(size)),
            lambda: kept.query(Keeps.echo(size)),
        ]
        for call in calls:
            if size < MAX - 1:
                assert await call() == "x" * size
                continue
            with pytest.raises((PayloadTooLarge, WorkflowFailed)) as caught:
                await call()
            assert says(f"{caught.value} {caught.value.__cause__}")
        await kept.signal("end")


async def test_nodes_of_one_process_keep_their_own_bounds(house) -> None:
    """A lower bound here, a higher one there; a run keeps that of its start."""
    async with (
        house(nothing, memory=True, limits=LIMITS) as small,
        house(nothing, memory=True, limits=Limits(payload_bytes_max=4 << 20)) as large,
    ):
        size = 3 << 20
        assert await asyncio.wait_for(large.client.execute(nothing("x" * size)), 30) == size
        with pytest.raises(PayloadTooLarge, match="1,000 one payload may have"):
            await small.client.execute(nothing("x" * 1_000))
