"""A connection through which nothing comes any more, without being closed, is noticed at both ends, and what was asked goes on over another."""

import asyncio
from contextlib import suppress
from typing import Any, Self

import pytest

import perdure
from perdure import workflow
from perdure.server import http_server
from perdure.wire import socket


@workflow
async def parked() -> int:
    return await workflow.receive("go", int)


class Tunnel:
    """Passes bytes on to a port, until it is frozen: from then on it takes them and passes nothing, on the connections it has."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._frozen: set[asyncio.Event] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def freeze(self) -> None:
        for event in self._frozen:
            event.set()

    def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._both(reader, writer))
        self._tasks.add(task)

    async def _both(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self._port)
        frozen = asyncio.Event()
        self._frozen.add(frozen)
        try:
            with suppress(ConnectionError):
                await asyncio.gather(_pass(reader, other_writer, frozen), _pass(other_reader, writer, frozen))
        finally:
            for end in (writer, other_writer):
                end.transport.abort()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frozen: asyncio.Event) -> None:
    while data := await reader.read(65_536):
        if not frozen.is_set():
            writer.write(data)
    if not frozen.is_set():
        writer.close()


def test_ten_seconds_are_enough() -> None:
    """As they are set, either end gives up a silent one within ten seconds."""
    assert socket.PING_S + socket.PONG_S < 10
    assert 2 * http_server.PING_S < 10


@pytest.mark.scenario(62)
async def test_a_frozen_connection_is_replaced(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ends notice by their pings (made quick here); the client has another connection by itself, and the wait on it ends."""
    monkeypatch.setattr(socket, "PING_S", 0.2)
    monkeypatch.setattr(socket, "PONG_S", 0.2)
    monkeypatch.setattr(http_server, "PING_S", 0.2)
    async with serve(parked) as node, Tunnel(node.server.port) as tunnel, await perdure.connect(tunnel.url) as client:
        handle = await client.start(parked(), id="p")
        waiting = asyncio.create_task(handle.result())
        first = next(node.wire.sessions).connection
        tunnel.freeze()
        async with asyncio.timeout(10):
            await handle.signal("go", 4)
            assert await waiting == 4
        assert client.frontend.asker.connections == 2
        assert next(node.wire.sessions).connection is not first
