"""`perdure server`: one node for workers and clients in other processes: an engine, its journal and its API. It runs no user code."""

import asyncio
import logging
import os
import signal
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from perdure.cli.config import Config
from perdure.cli.exits import FAILED, INTERRUPTED, OK
from perdure.cli.options import Output
from perdure.cli.stopping import stop_node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from perdure.node import Node
    from perdure.runtime.settings.tree import Settings
    from perdure.server.front_door import FrontDoor

TEXT: Final = Output()

log: Final = logging.getLogger(__name__)


def server(
    *,
    config: Config = None,
    data: Path | None = None,
    host: str | None = None,
    port: int | None = None,
    tls_certificate: Path | None = None,
    tls_key: Path | None = None,
    insecure: bool = False,
    log_level: Annotated[str | None, Parameter(name="--log-level")] = None,
    log_format: Annotated[str | None, Parameter(name="--log-format")] = None,
    output: Output = TEXT,
) -> int:
    """Run a node that workers and clients in other processes reach over HTTP, until SIGINT or SIGTERM.

    When it is ready a line with its URL is printed. Every setting but these few is in the file or the environment: `perdure config`.

    Args:
        config: A TOML file; otherwise what PERDURE_CONFIG names, or ./perdure.toml if there is one.
        data: The data directory. (node.data)
        host: The address to listen on; beyond loopback it takes an API key in the configuration, or --insecure. (server.host)
        port: The TCP port; 0: any that is free. (server.port)
        tls_certificate: A PEM file with the certificate. (server.tls_certificate)
        tls_key: The PEM file of its private key. (server.tls_key)
        insecure: Listen beyond loopback though no key is known: everyone who reaches the port is an admin. (server.insecure)
        log_level: debug, info, warning or error. (log.level)
        log_format: text, or json: a document a line. (log.format)
    """
    from perdure.runtime.logs import log_to_stderr
    from perdure.runtime.settings.loading import load

    flags = {
        "node.data": None if data is None else str(data),
        "server.host": host,
        "server.port": port,
        "server.tls_certificate": None if tls_certificate is None else str(tls_certificate),
        "server.tls_key": None if tls_key is None else str(tls_key),
        "server.insecure": insecure or None,
        "log.level": log_level,
        "log.format": log_format,
    }
    loaded = load(config, os.environ, flags)
    settings = loaded.settings
    log_to_stderr(settings.log.level, settings.log.format)
    log.info(
        "settings: %s (`perdure config` prints each with its source)", loaded.file or "no file; variables, flags and defaults"
    )
    return asyncio.run(_serve(settings, output))


async def _serve(settings: "Settings", output: Output) -> int:
    """Serve until a signal or a failure."""
    from perdure.runtime.collector import collector
    from perdure.runtime.supervisor_notice import notify

    stop = asyncio.Event()
    _heed_signals(stop)
    async with _node_and_door(settings) as (node, door):
        with collector("tuned"):
            _tell(settings, door, output)
            log.info("serving %s at %s", settings.node.data, door.url)
            notify("READY=1")
            end = await _until(node, stop)
            notify("STOPPING=1")
    return end


@asynccontextmanager
async def _node_and_door(settings: "Settings") -> "AsyncIterator[tuple[Node, FrontDoor]]":
    """Both, running. The door first shows whether it can be built, opens when the node runs, and is closed before it stops."""
    from perdure.node import embedded
    from perdure.runtime.chance import RealChance
    from perdure.server.front_door import FrontDoor

    data = Path(settings.node.data)
    node = embedded(data, limits=settings.limits, retention=settings.retention.closed, admission=settings.admission)

    door = FrontDoor.of_engine(node.frontend, settings, node.clock, RealChance(), data=data)
    await node.start()
    try:
        async with door:
            yield node, door
    finally:
        await stop_node(node)


def _heed_signals(stop: asyncio.Event) -> None:
    from perdure.runtime.signals import heed

    def told() -> None:
        if stop.is_set():
            log.warning("stopped at once; what was acknowledged is on disk")
            os._exit(INTERRUPTED)
        log.info("stopping; requests under way are answered first (the same signal again: at once)")
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        heed(number, told)


async def _until(node: "Node", stop: asyncio.Event) -> int:
    """Until somebody stops it, or it can write nothing more; the exit code."""
    async with asyncio.TaskGroup() as group:
        stopped: asyncio.Task[Any] = group.create_task(stop.wait())
        failed = group.create_task(node.failed())
        await asyncio.wait((stopped, failed), return_when=asyncio.FIRST_COMPLETED)
        for wait in (stopped, failed):
            wait.cancel()
    if failed.done() and not failed.cancelled():
        log.error("the node can write nothing more and stops: %s; what was acknowledged is on disk", failed.result())
        return FAILED
    return OK


def _tell(settings: "Settings", door: "FrontDoor", output: Output) -> None:
    from perdure import __version__
    from perdure.cli.show import emit, text

    if output.is_json:
        facts = {"version": __version__, "pid": os.getpid(), "url": door.url, "port": door.port, "data": settings.node.data}
        emit(facts, "jsonl")
    else:
        text(f"perdure {__version__} serves {settings.node.data} at {door.url} (pid {os.getpid()})")
