"""A node's ways in, put together: the HTTP server with everything that hangs on its port, and the note in the data directory that says where.

`served` begins after the node and ends before it: first readiness goes, then what is under way is answered and streams end, then the node
may stop.
"""

import errno
import json
import os
import urllib.request
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perdure.core.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from ssl import SSLContext

    from perdure.node import Node
    from perdure.server.access import Gate
    from perdure.server.http_server import HttpServer

ASK_S: Final = 1.0
"""So long may whoever holds the port take to say what it is."""


@asynccontextmanager
async def served(
    node: "Node",
    data: Path,
    gate: "Gate",
    host: str,
    port: int,
    *,
    ssl: "SSLContext | None" = None,
    key: str = "",
    ca: str = "",
) -> "AsyncIterator[HttpServer]":
    """Serve a started node at an address until the context ends. Raises `Unavailable` when the address cannot be taken.

    `key` is what the command line beside the node may use, `ca` what it has to trust; both end up in `DATA/server.json`.
    """
    from perdure.server.app import build_app
    from perdure.server.http_server import HttpServer
    from perdure.server.place import announce, withdraw, within_reach

    def ready() -> str:
        return "" if node.frontend.fault is None else "the node can write nothing more"

    server = HttpServer(build_app(node.frontend, gate, ready=ready), host, port, ssl=ssl)
    try:
        await server.start()
    except Unavailable as error:
        raise await _taken(error, host, port) from error
    try:
        near = within_reach(host)
        scheme = "https" if ssl else "http"
        announce(data, f"{scheme}://{f'[{near}]' if ':' in near else near}:{server.port}", os.getpid(), key, ca)
        yield server
    finally:
        withdraw(data)
        await server.stop()


async def _taken(error: Unavailable, host: str, port: int) -> Unavailable:
    """The error for a port that another process listens on says so, and what that process is."""
    import asyncio

    cause = error.__cause__
    if not isinstance(cause, OSError) or cause.errno != errno.EADDRINUSE:
        return error
    holder = await asyncio.to_thread(_holder, host, port)
    return Unavailable(f"port {port} of {host} is taken{holder}; choose another with --port N (0: any that is free)")


def _holder(host: str, port: int) -> str:
    """What listens there, in words, if it is a node of perdure."""
    from perdure.server.place import within_reach

    near = within_reach(host)
    try:
        with urllib.request.urlopen(f"http://{f'[{near}]' if ':' in near else near}:{port}/health", timeout=ASK_S) as answer:
            version = json.loads(answer.read(10_000))["version"]
    except (OSError, ValueError, KeyError, TypeError):
        return " by another program"
    return f" by a perdure node, version {str(version)[:40]}"
