"""Over the wire, both ends: what a client does in the node's process it can do from outside, and gets the same answers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import activity, workflow
from perdure.core.requests import StartWorkflow
from perdure.errors import InvalidArgument, NotFound, Unavailable, WorkflowAlreadyStarted
from perdure.node import Node
from perdure.runtime.chance import RealChance
from perdure.runtime.settings.tree import ServerSettings, Settings
from perdure.sdk.client import Client
from perdure.server.front_door import FrontDoor


@activity
async def double(number: int) -> int:
    return 2 * number


@workflow
async def doubled(number: int) -> int:
    return await double(number)


@workflow
async def parked(name: str) -> str:
    return await workflow.receive(name, str)


@workflow
class Tray:
    def __init__(self) -> None:
        self.things: list[str] = []

    @workflow.run
    async def run(self) -> list[str]:
        await workflow.wait_until(lambda: len(self.things) == 2)
        return self.things

    @workflow.query
    def holds(self, first: int = 0) -> list[str]:
        if first > len(self.things):
            raise IndexError(first)
        return self.things[first:]

    @workflow.update
    async def put(self, thing: str) -> int:
        await double(1)
        self.things.append(thing)
        return len(self.things)

    @put.validator
    def _may(self, thing: str) -> None:
        if not thing:
            raise KeyError("nothing")


@asynccontextmanager
async def reached(data: Path) -> AsyncIterator[tuple[Node, Client]]:
    """A real node, its port, and a client at the other end of it."""
    settings = Settings(server=ServerSettings(port=0))
    async with perdure.embedded(data) as node:
        node.register(doubled, parked, double, Tray)
        async with (
            FrontDoor(node.frontend, settings, node.clock, RealChance()) as door,
            await perdure.connect(door.url) as client,
        ):
            yield node, client


def with_client(data: Path, test: Callable[[Node, Client], Awaitable[None]]) -> None:
    async def main() -> None:
        async with reached(data) as (node, client), asyncio.timeout(30):
            await test(node, client)

    asyncio.run(main())


def test_updates_go_over_the_wire(tmp_path: Path) -> None:
    """Accepted, answered, refused with the validator's own error; the wait for an answer is the node's."""

    async def test(node: Node, client: Client) -> None:
        tray = await client.start(Tray.run(), id="t")
        put = await tray.start_update(Tray.put("a"), update_id="u")
        assert (await put.result(), await node.client.handle("t").update("put", "a", update_id="u")) == (1, 1)
        with pytest.raises(KeyError, match="nothing"):
            await tray.update(Tray.put, "")
        assert await tray.update("put", "b") == 2
        assert await tray.result() == ["a", "b"]

    with_client(tmp_path, test)


def test_a_client_does_over_the_wire_what_it_does_inside(tmp_path: Path) -> None:
    """Start, signal, result, describe, history, list, count: the same answers on both ways."""

    async def test(node: Node, client: Client) -> None:
        assert await client.execute(doubled(21), id="d") == 42
        handle = await client.start(parked("x"), id="p")
        waiting = asyncio.gather(handle.result(), client.handle("p").result())
        await handle.signal("x", "now\n")
        assert await waiting == ["now\n", "now\n"]
        inside, outside = node.client.handle("p"), client.handle("p")
        assert await outside.describe() == await inside.describe()
        assert [repr(e) for e in await outside.history(notes=True)] == [repr(e) for e in await inside.history(notes=True)]
        assert [row.workflow_id async for row in client.list(limit=1)] == ["p", "d"]
        assert await client.count() == await node.client.count() == 2
        assert abs(client.frontend.now() - node.frontend.now()) < 60_000_000

    with_client(tmp_path / "data", test)


def test_a_query_goes_over_the_wire(tmp_path: Path) -> None:
    """The answer by its hint, what the handler raised as its own class, refusals as themselves; giving up leaves nothing behind."""

    async def test(node: Node, client: Client) -> None:
        handle = await client.start(Tray.run(), id="t")
        await handle.update(Tray.put("cup"))
        assert await handle.query(Tray.holds()) == ["cup"]
        assert await handle.query("holds", 1) == []
        with pytest.raises(IndexError):
            await handle.query(Tray.holds(7))
        with pytest.raises(NotFound, match="it has: holds"):
            await handle.query("hold")
        elsewhere = await client.start(Tray.run(), id="e", queue="nobody")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(elsewhere.query(Tray.holds()), 0.05)
        with pytest.raises(Unavailable, match="queue 'nobody'"):
            await elsewhere.query(Tray.holds(), timeout=0.01)
        assert not node.frontend.queries.waiting

    with_client(tmp_path / "data", test)


def test_errors_arrive_as_themselves(tmp_path: Path) -> None:
    """Class, message and fields survive the way; so do answers to `send`."""

    async def test(node: Node, client: Client) -> None:
        started = await client.start(parked("x"), id="p")
        with pytest.raises(WorkflowAlreadyStarted) as taken:
            await client.start(parked("x"), id="p")
        assert taken.value.run_id == (await started.describe()).run_id
        with pytest.raises(NotFound):
            await client.handle("nobody").describe()
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        request = StartWorkflow(workflow_id="", workflow_type="t", run_id="r", seed=1, request_id="q")
        client.frontend.send(request, lambda reply, error: answered.set_result((reply, error)))
        reply, error = await answered
        assert reply is None
        assert isinstance(error, InvalidArgument)

    with_client(tmp_path / "data", test)


def test_a_history_of_any_size_arrives(tmp_path: Path) -> None:
    """In parts: one line would be longer than the bound, the whole is as it was."""

    async def test(node: Node, client: Client) -> None:
        await client.start(parked("x"), id="p")
        for _ in range(3):
            await client.handle("p").signal("other", "y" * 400_000)
        record = await client.frontend.record("default", "p")
        assert record == await node.frontend.record("default", "p")

    with_client(tmp_path / "data", test)
