"""Ids and names at every edge, for every parameter of the public API that takes one: taken as they are, byte by byte, or refused at once."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

import perdure
from perdure import activity, workflow
from perdure.errors import InvalidArgument, NotFound, WorkflowFailed

GOOD = {
    "one byte": "x",
    "255 bytes": "x" * 255,
    "255 bytes, few characters": "€" * 85,
    "composed": "\u00e9",
    "decomposed": "e\u0301",
    "slash": "a/b/../c",
    "percent": "100%2F",
    "spaces": " a  b ",
    "a space": " ",
    "quotes": "\"'`",
    "beyond the plane": "\U0001f98a",
    "no character": "\uffff",
}
BAD = {
    "empty": "",
    "256 bytes": "x" * 256,
    "256 bytes, few characters": "€" * 85 + "x",
    "newline": "a\nb",
    "nul": "a\0b",
    "delete": "\x7f",
    "next line": "\x85",
    "lone surrogate": "\ud800",
    "two halves": "\ud83e\udd8a",
}


@activity
async def step() -> int:
    return 1


@workflow
async def waits() -> None:
    await workflow.receive("go")


@workflow
class Box:
    @workflow.run
    async def run(self) -> None:
        await workflow.receive("go")

    @workflow.update
    async def put(self) -> str:
        return "put"


@workflow
async def does(what: str, text: str) -> str:
    """Use that text for an id of that kind in workflow code."""
    match what:
        case "child id":
            child = await workflow.start_child(nothing(), id=text)
            await child
            return child.id
        case "child type":
            await (await workflow.start_child(text))
        case "change id":
            return str(workflow.version(text, 1, 2))
        case "attribute name":
            workflow.set_attributes({text: 1})
            return next(iter(workflow.info().attributes))
        case "activity queue":
            step.options(queue=text)
        case "external id":
            workflow.external(text)
        case "signal name to receive":
            with suppress(TimeoutError):
                async with asyncio.timeout(0.001):
                    await workflow.receive(text)
    return ""


@workflow
async def nothing() -> None:
    pass


async def is_known(client: Any, id: str) -> None:
    assert (await client.handle(id).describe()).workflow_id == id


async def started(client: Any, id: str) -> None:
    assert (await client.start(waits(), id=id)).id == id
    await is_known(client, id)


async def with_start(client: Any, id: str) -> None:
    await client.signal_with_start(waits(), "s", id=id)
    await is_known(client, id)


async def cancelled(client: Any, id: str) -> None:
    await (await client.start(waits())).cancel(request_id=id)


async def refused(act: Callable[[], Any], why: str) -> None:
    """Doing it raises `InvalidArgument`, when it is said or when it is awaited."""
    try:
        answer = act()
        if inspect.isawaitable(answer):
            await answer
    except InvalidArgument:
        return
    pytest.fail(f"{why} was taken")


CLIENT: dict[str, Callable[[Any, Any, str], Awaitable[Any] | Any]] = {
    "workflow id": lambda c, h, x: started(c, x),
    "workflow id with a signal": lambda c, h, x: with_start(c, x),
    "workflow type": lambda c, h, x: c.start(x),
    "request id": lambda c, h, x: c.start(waits(), request_id=x),
    "queue": lambda c, h, x: c.start(waits(), queue=x),
    "origin": lambda c, h, x: c.start(waits(), origin=x),
    "memo key": lambda c, h, x: c.start(waits(), memo={x: 1}),
    "attribute name": lambda c, h, x: c.start(waits(), attributes={x: 1}),
    "signal name": lambda c, h, x: h.signal(x),
    "signal id": lambda c, h, x: h.signal("s", signal_id=x),
    "signal id with start": lambda c, h, x: c.signal_with_start(waits(), "s", id="with", signal_id=x),
    "update id": lambda c, h, x: h.update(Box.put(), update_id=x),
    "cancel's request id": lambda c, h, x: cancelled(c, x),
    "namespace": lambda c, h, x: perdure.Client(c.frontend, c._chance, x).list(),
}
"""What makes or names something, so that any allowed text is taken."""

NAMED: dict[str, Callable[[Any, Any, str], Awaitable[Any]]] = {
    "handle": lambda c, h, x: c.handle(x).describe(),
    "update name": lambda c, h, x: h.update(x),
    "query name": lambda c, h, x: h.query(x),
}
"""What must be there already: allowed text names nothing here."""

INSIDE = (
    "child id",
    "change id",
    "attribute name",
    "activity queue",
    "external id",
    "signal name to receive",
)


@pytest.mark.scenario(35)
@pytest.mark.parametrize("what", CLIENT)
async def test_what_a_client_names(house, what) -> None:
    """Every allowed text is taken, every other one refused with `InvalidArgument` before anything is written."""
    async with house(Box, waits, memory=True, replays=False) as app:
        handle = await app.client.start(Box.run(), id="the box")
        for text in GOOD.values():
            await CLIENT[what](app.client, handle, text)
        for why, text in BAD.items():
            await refused(partial(CLIENT[what], app.client, handle, text), why)
        assert await app.client.count("workflow_id = 'the box'") == 1


@pytest.mark.parametrize("what", NAMED)
async def test_what_a_client_asks_for_by_name(house, what) -> None:
    """Allowed text that names nothing is not found; other text is refused as such."""
    async with house(Box, memory=True, replays=False) as app:
        handle = await app.client.start(Box.run(), id="the box")
        for text in GOOD.values():
            with pytest.raises((NotFound, InvalidArgument), match=r"no (workflow|update|query)|does not exist"):
                await NAMED[what](app.client, handle, text)
        for why, text in BAD.items():
            await refused(partial(NAMED[what], app.client, handle, text), why)


@pytest.mark.parametrize("what", INSIDE)
async def test_what_workflow_code_names(house, what) -> None:
    """The same in workflow code: what is refused there is an exception of the run's own."""
    async with house(does, nothing, step, memory=True) as app:
        for why, text in GOOD.items():
            answer = await app.client.execute(does(what, text))
            assert answer in {text, "2", ""}, why
        for why in ("empty", "256 bytes", "newline", "nul"):  # no argument can hold half a character
            if (what, why) == ("activity queue", "empty"):
                continue
            with pytest.raises(WorkflowFailed) as caught:
                await app.client.execute(does(what, BAD[why]))
            assert isinstance(caught.value.__cause__, InvalidArgument), why


async def test_ids_are_compared_by_their_bytes(house) -> None:
    """Composed and decomposed letters, cases and spaces make other ids; the list finds each by its own."""
    alike = ["\u00e9", "e\u0301", "E\u0301", "\u00c9", " \u00e9", "\u00e9 "]
    async with house(waits, memory=None, replays=False) as app:
        for text in alike:
            await app.client.start(waits(), id=text)
        for text in alike:
            assert [run.workflow_id async for run in app.client.list(f"workflow_id = '{text}'")] == [text]
        handle = app.client.handle(alike[0])
        await handle.signal("s", signal_id=alike[0])
        await handle.signal("s", signal_id=alike[1])
        await handle.signal("s", signal_id=alike[0])
        assert len([e for e in await handle.history() if e.type == "signal_received"]) == 2


@pytest.mark.parametrize("what", ["queues", "namespace", "build_id"])
async def test_what_a_node_is_named(what) -> None:
    """Queues, namespace and build id of a node: taken or refused when it is made."""

    def make(text: str) -> object:
        value: Any = (text,) if what == "queues" else text
        return perdure.embedded("unused", **{what: value})

    for text in GOOD.values():
        make(text)
    for why, text in BAD.items():
        await refused(partial(make, text), why)


def test_a_data_directory_must_be_named() -> None:
    """Nothing would say where the journal went; the current folder is asked for as `.`."""
    with pytest.raises(InvalidArgument, match="data directory must be named"):
        perdure.embedded("")
    perdure.embedded(".")
