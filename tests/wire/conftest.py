"""A node behind a real port of this machine, and tests as coroutines, run each on a loop of its own."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from ssl import SSLContext
from typing import Any

import pytest

import perdure
from perdure.node import Node
from perdure.runtime.http_limits import HTTP_LIMITS, HttpLimits
from perdure.server.access import Gate
from perdure.server.app import build_app
from perdure.server.http_server import HttpServer
from perdure.server.wire.wire_end import WireEnd

TEST_S = 45.0


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


class Served:
    """A node that others reach at `url`."""

    def __init__(self, node: Node, wire: WireEnd, server: HttpServer) -> None:
        self.node = node
        self.wire = wire
        self.server = server

    @property
    def url(self) -> str:
        return self.server.url


@asynccontextmanager
async def serving(
    data: Path,
    *things: object,
    gate: Gate | None = None,
    port: int = 0,
    wire: dict[str, Any] | None = None,
    http: HttpLimits = HTTP_LIMITS,
    ssl: SSLContext | None = None,
    **options: Any,
) -> AsyncIterator[Served]:
    """A running node with a journal in `data`, behind a port. `wire` are further arguments of its `WireEnd`."""
    async with perdure.embedded(data, **options) as node:
        if things:
            node.register(*things)
        gate = gate or Gate.open()
        end = WireEnd(node.frontend, gate, node.frontend.incarnation, **(wire or {}))
        server = HttpServer(build_app(node.frontend, gate, limits=http, routes=end.routes()), port=port, ssl=ssl)
        await server.start()
        try:
            yield Served(node, end, server)
        finally:
            await end.stop()
            await server.stop()


@pytest.fixture
def serve(tmp_path: Path) -> Callable[..., AbstractAsyncContextManager[Served]]:
    def begin(*things: object, **options: Any) -> AbstractAsyncContextManager[Served]:
        return serving(tmp_path / "data", *things, **options)

    return begin
