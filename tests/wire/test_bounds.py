"""The node's end keeps its bounds: who breaks one hears which it was, and everybody else goes on."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from msgspec import json
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

import perdure
from perdure import workflow
from perdure.errors import PermissionDenied, ResourceExhausted
from perdure.runtime.wire_limits import WireLimits


@workflow
async def parked() -> int:
    return await workflow.receive("go", int)


@workflow
async def large(size: int) -> str:
    return "x" * size


async def say(wire: ClientConnection, number: int, *messages: dict[str, Any]) -> None:
    lines = [json.encode({"is": "frame", "n": number}), *(json.encode(message) for message in messages)]
    await wire.send(b"\n".join(lines))


async def hear(wire: ClientConnection) -> list[Any]:
    """The messages of the next frame."""
    async with asyncio.timeout(10):
        data = await wire.recv(decode=False)
    return [json.decode(line) for line in data.split(b"\n")[1:]]


async def ended(wire: ClientConnection) -> tuple[int, str]:
    """How a connection ends: close code and reason."""
    async with asyncio.timeout(15):
        with suppress(ConnectionClosed):
            while True:
                await wire.recv()
    assert wire.close_code is not None
    return wire.close_code, wire.close_reason or ""


def greeted(session: str, **more: Any) -> dict[str, Any]:
    return {"is": "hello", "version": 1, "session": session.ljust(16, "-"), **more}


def wire_of(node: Any, **options: Any) -> Any:
    return connect(node.url.replace("http", "ws") + "/api/v1/wire", compression=None, proxy=None, **options)


async def test_too_many_connections(serve: Any) -> None:
    """One more than may be open is refused, typed; when one has left, there is room."""
    async with serve(wire={"limits": WireLimits(connections_max=1)}) as node:
        first = await perdure.connect(node.url)
        with pytest.raises(ResourceExhausted, match="connections_max"):
            await perdure.connect(node.url, timeout=1)
        await first.close()
        async with asyncio.timeout(5):
            while True:
                try:
                    await (await perdure.connect(node.url, timeout=1)).close()
                    break
                except ResourceExhausted:
                    await asyncio.sleep(0.01)


async def test_too_many_asks(serve: Any) -> None:
    """More unanswered asks than may be get a typed error each; those that wait go on waiting."""
    async with serve(parked, wire={"limits": WireLimits(asks_max=3)}) as node, await perdure.connect(node.url) as client:
        handle = await client.start(parked(), id="p")
        waits = [asyncio.create_task(handle.result()) for _ in range(5)]
        async with asyncio.timeout(10):
            refused, waiting = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            while len(refused) < 2:
                more, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                refused |= more
        assert all(isinstance(task.exception(), ResourceExhausted) for task in refused)
        await handle.signal("go", 5)
        assert await asyncio.gather(*waiting) == [5] * 3


def is_connected(node: Any, session: str) -> bool:
    return any(known.connection is not None for known in node.wire.sessions if known.id.startswith(session))


async def test_many_large_answers_at_once(serve: Any) -> None:
    """More is asked at once than may wait to be sent: the answers come as fast as they are read, over the one connection."""
    limits = WireLimits(unsent_bytes_max=1_000_000)
    async with serve(large, wire={"limits": limits}) as node, await perdure.connect(node.url) as client:
        handle = await client.start(large(500_000), id="l")
        await handle.result()
        found = await asyncio.gather(*(handle.result() for _ in range(50)))
        assert [len(text) for text in found] == [500_000] * 50
        assert client.frontend.asker.connections == 1


async def test_a_history_larger_than_what_may_wait(serve: Any) -> None:
    """A history of many parts is read whole, though they are more than may wait to be sent."""
    limits = WireLimits(unsent_bytes_max=1_000_000)
    async with serve(parked, wire={"limits": limits}) as node, await perdure.connect(node.url) as client:
        handle = await client.start(parked(), id="p")
        for number in range(8):
            await handle.signal("noise", "x" * 500_000, signal_id=f"n{number}")
        events = await handle.history()
        assert sum(event.type == "signal_received" for event in events) == 8
        assert client.frontend.asker.connections == 1


async def test_a_refused_greeting_takes_no_names(serve: Any) -> None:
    """A greeting is refused for one of its workers' names: its other names are free, and nothing of it is kept."""
    async with serve() as node, wire_of(node) as first:
        await say(first, 1, greeted("first", workers=["taken"]))
        await hear(first)
        for _ in range(3):
            async with wire_of(node) as second:
                await say(second, 1, greeted("second", workers=["other", "taken"]))
                assert "another connection" in (await ended(second))[1]
        async with wire_of(node) as third:
            await say(third, 1, greeted("third", workers=["other"]))
            assert (await hear(third))[0]["is"] == "welcome"
            assert {session.id.rstrip("-") for session in node.wire.sessions} == {"first", "third"}


async def test_a_slow_reader_is_dropped(serve: Any) -> None:
    """Who asks for much and reads nothing is dropped with the reason, and the node's memory for it is bounded; others go on."""
    limits = WireLimits(unsent_bytes_max=1_000_000)
    async with serve(large, wire={"limits": limits}) as node, await perdure.connect(node.url) as client:
        assert len(await client.execute(large(500_000), id="l")) == 500_000
        async with wire_of(node, max_queue=1, ping_interval=None) as wire:
            await say(wire, 1, greeted("slow"))
            await hear(wire)
            asks = [{"is": "result", "id": n, "namespace": "default", "workflow_id": "l"} for n in range(1, 101)]
            await say(wire, 2, *asks)
            async with asyncio.timeout(20):
                while is_connected(node, "slow"):  # noqa: ASYNC110  nobody tells
                    await asyncio.sleep(0.01)
        assert len(await client.handle("l").result()) == 500_000


async def test_one_that_stops_reading_is_cut(serve: Any) -> None:
    """The other end stops reading in the midst of a frame: it is dropped all the same, and its socket does not stay."""
    limits = WireLimits(unsent_bytes_max=1_000_000)
    async with serve(large, wire={"limits": limits}) as node, await perdure.connect(node.url) as client:
        assert len(await client.execute(large(500_000), id="l")) == 500_000
        wire = await wire_of(node, ping_interval=None)
        await say(wire, 1, greeted("deaf"))
        await hear(wire)
        wire.transport.pause_reading()
        async with asyncio.timeout(20):
            number = 1
            while is_connected(node, "deaf"):
                number += 1
                await say(wire, number, {"is": "result", "id": number, "namespace": "default", "workflow_id": "l"})
                await asyncio.sleep(0.002)
            while len(node.server._state.connections) > 1:  # noqa: ASYNC110  nobody tells
                await asyncio.sleep(0.01)
        wire.transport.abort()
        assert len(await client.handle("l").result()) == 500_000


async def test_nothing_said(serve: Any) -> None:
    """A connection that does not greet is closed after a while, with the reason."""
    async with serve(wire={"limits": WireLimits(hello_s=0.1)}) as node, wire_of(node) as wire:
        code, reason = await ended(wire)
        assert code == 1008
        assert "nothing was said" in reason


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ({"is": "hello", "version": 99, "session": "s" * 16}, "version"),
        ({"is": "forget", "id": 1}, "hello"),
        ({"is": "hello", "version": 1, "session": "short"}, "characters"),
    ],
)
async def test_bad_greetings(serve: Any, message: dict[str, Any], why: str) -> None:
    """A greeting that is none, of another version or with a name that can be guessed ends the connection with the reason."""
    async with serve() as node, wire_of(node) as wire:
        await say(wire, 1, message)
        _, reason = await ended(wire)
        assert why in reason


async def test_a_worker_speaks_only_for_itself(serve: Any) -> None:
    """A request or subscription under the name of another session's worker is refused, and that worker keeps its name."""
    async with serve(queues=["others"]) as node, await perdure.connect(node.url) as client:
        worker = perdure.Worker(client, workflows=[parked])
        async with worker:
            handle = await client.start(parked(), id="p")
            name = next(name for session in node.wire.sessions for name in session.workers)
            async with wire_of(node) as wire:
                await say(wire, 1, greeted("mallory"))
                await hear(wire)
                claim = {
                    "type": "claim_workflow",
                    "workflow_id": "p",
                    "run_id": handle.run_id or "x",
                    "worker": name,
                    "token": "t",
                    "build_id": "b",
                }
                await say(wire, 2, {"is": "call", "id": 1, "request": claim})
                assert (await hear(wire))[0]["error"]["code"] == PermissionDenied.code
                other = {"worker": name, "build_id": "b"}
                await say(wire, 3, {"is": "subscribe", "line": 1, "queue": "default", "kind": "workflow", "worker": other})
                assert "another connection" in (await ended(wire))[1]
            await handle.signal("go", 3)
            assert await handle.result(timeout=10) == 3


@pytest.mark.parametrize(
    ("queue", "worker", "build"), [("", "w", "b"), ("a\nb", "w", "b"), ("q", "x" * 70_000, "b"), ("q", "w", "x" * 256)]
)
async def test_odd_names_are_not_subscribed(serve: Any, queue: str, worker: str, build: str) -> None:
    """A queue, worker or build whose name can be none would be in every listing and measurement: the connection ends with the reason."""
    async with serve() as node, wire_of(node) as wire:
        await say(wire, 1, greeted("odd"))
        await hear(wire)
        identity = {"worker": worker, "build_id": build}
        await say(wire, 2, {"is": "subscribe", "line": 1, "queue": queue, "kind": "workflow", "worker": identity, "credits": 1})
        code, reason = await ended(wire)
        assert code == 1008
        assert reason.startswith("the ")


async def test_a_report_no_worker_makes(serve: Any) -> None:
    """A timer that is due after all times is refused where it comes in; the run and its claim stay as they were."""
    async with serve(queues=["others"]) as node, await perdure.connect(node.url) as client, wire_of(node) as wire:
        handle = await client.start("anything", id="p")
        about = {"workflow_id": "p", "run_id": handle.run_id, "worker": "liar", "token": "t", "build_id": "b"}
        await say(wire, 1, greeted("liars", workers=["liar"]))
        await hear(wire)
        await say(wire, 2, {"is": "call", "id": 1, "request": {"type": "claim_workflow", **about}})
        assert (await hear(wire))[0]["reply"]["type"] == "workflow_claimed"
        timer = {"type": "start_timer", "at": 1, "delay": 2**63}
        steps = [{"type": "commands", "commands": [timer]}]
        report = {"type": "report", "based_on": 1, "decided": 0, "nonce": "n", "steps": steps, **about}
        await say(wire, 3, {"is": "call", "id": 2, "request": report})
        assert (await hear(wire))[0]["error"]["code"] == "INVALID_ARGUMENT"
        assert len(await handle.history()) == 1


async def test_a_newer_connection_takes_over(serve: Any) -> None:
    """Two connections of one session: the older one, half dead perhaps, is closed with the reason; its asks are answered on the newer."""
    async with serve() as node, wire_of(node) as old, wire_of(node) as new:
        await say(old, 1, greeted("twice"))
        await hear(old)
        await say(new, 2, greeted("twice", ack=1))
        assert (await hear(new))[0]["resumed"] is True
        assert "taken over" in (await ended(old))[1]
        await say(new, 3, {"is": "count", "id": 1, "filter": {}})
        assert (await hear(new))[0]["ok"] == 0


async def test_unknown_messages_with_a_number_are_answered(serve: Any) -> None:
    """A client of a later version asks what this node does not know: it hears so, and its connection stays."""
    async with serve() as node, wire_of(node) as wire:
        await say(wire, 1, greeted("later"))
        await hear(wire)
        await say(wire, 2, {"is": "teleport", "id": 4}, {"is": "count", "id": 5, "filter": {}})
        heard = [*await hear(wire)]
        while len(heard) < 2:
            heard += await hear(wire)
        assert {message["id"]: message["is"] for message in heard} == {4: "failed", 5: "found"}


async def test_a_stopping_node_says_so(serve: Any) -> None:
    """Graceful stop: notice, close code 1001."""
    async with serve() as node, wire_of(node) as wire:
        await say(wire, 1, greeted("stops"))
        await hear(wire)
        stopping = asyncio.create_task(node.wire.stop())
        assert (await hear(wire))[0] == {"is": "leaving"}
        assert (await ended(wire))[0] == 1001
        await stopping


async def test_many_workers_one_after_the_other(serve: Any) -> None:
    """A client may have had any number of workers: those that have left count neither here nor there."""
    limits = WireLimits(workers_max=3)
    async with serve(queues=["others"], wire={"limits": limits}) as node, await perdure.connect(node.url) as client:
        for number in range(30):
            async with perdure.Worker(client, workflows=[large]):
                assert await client.execute(large(1), id=f"n-{number}") == "x"
        assert client.frontend.asker.connections == 1
        assert len(next(node.wire.sessions).workers) <= 3
        assert len(client.frontend._lines.workers()) <= 22
