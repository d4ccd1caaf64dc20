"""A real node behind its HTTP port, over real sockets; tests are coroutines, run each on a loop of its own.

Ports are the kernel's choice. A test waits on answers and on what it shares with its workflows, never on time alone.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

import perdure
from perdure.node import Node
from perdure.runtime.http_limits import HttpLimits
from perdure.server.access import Gate
from perdure.server.app import App, build_app
from perdure.server.http_server import HttpServer

TEST_S = 45.0
"""So long may a test take; then its stack is shown where it waits."""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test on a fresh loop."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames

    async def bounded() -> None:
        async with asyncio.timeout(TEST_S):
            await pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})

    asyncio.run(bounded())
    return True


@dataclass
class Site:
    """A node that is served, and a client of it."""

    node: Node
    app: App
    server: HttpServer
    http: httpx2.AsyncClient

    async def get(self, path: str, **query: Any) -> httpx2.Response:
        return await self.http.get(path, params=query or None)

    async def post(self, path: str, body: object = None, **headers: str) -> httpx2.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return (
            await self.http.post(path, json=body, headers=named)
            if body is not None
            else await self.http.post(path, headers=named)
        )

    async def raw(self, data: bytes, *, until_closed: bool = True) -> bytes:
        """What comes back for these bytes on a connection of their own, until the node closes it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        try:
            writer.write(data)
            return await (reader.read() if until_closed else reader.read(65_536))
        except ConnectionResetError:
            return b""
        finally:
            writer.close()

    async def works(self) -> None:
        """The node still answers, and still takes work."""
        assert (await self.get("/readyz")).json() == {"status": "ready"}
        found = await self.post("/api/v1/workflows", {"type": "nobody knows it"})
        assert found.status_code == 201, found.text

    async def until_waiting(self, count: int = 1) -> None:
        """So many long polls are under way."""
        while self.app.polls.waiting < count:  # noqa: ASYNC110  it turns the loop, it does not measure time
            await asyncio.sleep(0)

    def refused(self, response: httpx2.Response, status: int, code: str) -> dict[str, Any]:
        """The envelope's error, when it is one of that status and code, with a request id that the header repeats."""
        assert response.status_code == status, response.text
        assert response.headers["content-type"] == "application/json"
        found = msgspec.json.decode(response.content)
        assert set(found) == {"error"}
        error: dict[str, Any] = found["error"]
        assert error["code"] == code, error
        assert error["message"]
        assert error["request_id"] == response.headers["x-request-id"]
        return error


Open = Callable[..., AbstractAsyncContextManager[Site]]


@pytest.fixture
def open_site(tmp_path: Path) -> Open:
    """Opens a node in a directory of its own and serves it."""

    @asynccontextmanager
    async def opened(
        *things: object, limits: HttpLimits | None = None, gate: Gate | None = None, **more: Any
    ) -> AsyncIterator[Site]:
        async with perdure.embedded(tmp_path / "data", **more) as node:
            node.register(*things)
            app = build_app(node.frontend, gate or Gate.open(), limits=limits or HttpLimits())
            server = HttpServer(app, port=0)
            await server.start()
            try:
                async with httpx2.AsyncClient(base_url=server.url, timeout=30) as http:
                    yield Site(node, app, server, http)
            finally:
                await server.stop(5)

    return opened
