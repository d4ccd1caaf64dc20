"""`perdure dev`: an engine, its worker and its port, in one process, for one person at one machine."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Final, TextIO

from cyclopts import Parameter

from perdure.cli.exits import FAILED, INTERRUPTED, OK, complain, say
from perdure.cli.options import KEPT_FOR, Data, Module, Output, Retention
from perdure.cli.stopping import stop_node

if TYPE_CHECKING:
    from perdure.node import Node

RELOAD_GRACE_S: Final = 2.0
"""With --reload activities get this long at most: what is cut short is tried again a moment later."""
PORT_MAX: Final = 65_535
PORT_KEPT: Final = "_PERDURE_DEV_PORT"
"""In the environment: the port a node had before it started itself again, so that whoever is connected finds it."""
TEXT: Final = Output()


def dev(
    *modules: Module,
    data: Data = Path("perdure-data"),
    host: str = "127.0.0.1",
    port: int = 7373,
    insecure: bool = False,
    queue: Annotated[list[str] | None, Parameter(name="--queue")] = None,
    grace: float = 30.0,
    retention: Retention = KEPT_FOR,
    reload: bool = False,
    output: Output = TEXT,
) -> int:
    """Run an engine and a worker in one process, with its journal on disk, and its API on a port, until SIGINT or SIGTERM.

    Args:
        modules: What the worker can run: dotted names or paths to .py files.
        data: The data directory: journal, lock, and where this node is reached, for other commands.
        host: The address to listen on.
        port: The port to listen on; 0: any that is free.
        insecure: Listen beyond this machine though everybody who reaches the port may do everything.
        queue: A task queue to serve, beside "default" and those the code names. Repeat it for more.
        grace: Seconds running activities may take to end when the node stops.
        retention: How long closed runs are kept: 30d, 12h, or seconds.
        reload: Start again whenever a source file changes.
    """
    from perdure.sdk.options import whole

    whole(port, "--port", 0, PORT_MAX)
    from perdure.cli.served import loaded, queues_of, registry_of
    from perdure.sdk.registry import Registry

    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    for name in ("uvicorn", "perdure.access"):  # a line a request is for servers; here it would bury what the code says
        logging.getLogger(name).setLevel(logging.WARNING)
    if reload:
        sys.dont_write_bytecode = True  # compiled files are told apart by whole seconds, and authors are faster
        grace = min(grace, RELOAD_GRACE_S)
    own = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):  # what modules, workflows and activities print is none of this command's data
        try:
            found = loaded(modules)
        except Exception as error:
            if not reload:
                raise
            return _wait_for_better(error, modules, output)
        registry = registry_of(found) if found else Registry()
        queues = tuple(dict.fromkeys([*queues_of(registry), *(queue or ())]))
        end = asyncio.run(_serve(_Plan(found, data, host, port, insecure, queues, grace, retention, reload, output, own)))
    if end is not None:
        return end
    _start_again()
    return OK


@dataclass(frozen=True)
class _Plan:
    modules: list[ModuleType]
    data: Path
    host: str
    port: int
    insecure: bool
    queues: tuple[str, ...]
    grace: float
    retention: timedelta
    reload: bool
    output: Output
    own: TextIO
    """Where the command's own data goes."""


# -------------------------------------------------------------------------------------------------------------------- serving


async def _serve(plan: _Plan) -> int | None:
    """Serve until a signal, a failure or a changed file; the exit code, or None to start again."""
    from perdure.node import embedded
    from perdure.runtime.chance import RealChance
    from perdure.runtime.collector import collector
    from perdure.runtime.settings.tree import ServerSettings, Settings
    from perdure.server.front_door import FrontDoor

    stop = asyncio.Event()
    _heed_signals(stop, plan.grace)
    node = embedded(plan.data, queues=plan.queues, grace=plan.grace, retention=plan.retention)
    node.register(*plan.modules)
    port = plan.port or int(os.environ.pop(PORT_KEPT, "0"))
    server = ServerSettings(host=plan.host, port=port, insecure=plan.insecure)
    door = FrontDoor.of_engine(node.frontend, Settings(server=server), node.clock, RealChance(), data=plan.data)
    await node.start()
    try:
        async with AsyncExitStack() as stack:
            stack.enter_context(collector("tuned"))
            await stack.enter_async_context(door)
            with contextlib.redirect_stdout(plan.own):
                _announce(node, plan, door.url)
            end = await _until(node, stop, reload=plan.reload)
            if end is None:
                os.environ[PORT_KEPT] = str(door.port)
    finally:
        await stop_node(node)
    return end


def _heed_signals(stop: asyncio.Event, grace: float) -> None:
    from perdure.runtime.signals import heed

    def told() -> None:
        if stop.is_set():
            say("perdure: stopped at once; what was acknowledged is on disk")
            os._exit(INTERRUPTED)
        say(f"perdure: stopping; activities have {grace:g} s to end (the same signal again: at once)")
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        heed(number, told)


async def _until(node: "Node", stop: asyncio.Event, *, reload: bool) -> int | None:
    from perdure.cli.sources import Sources

    async with asyncio.TaskGroup() as group:
        stopped = group.create_task(stop.wait())
        failed = group.create_task(node.failed())
        waits: list[asyncio.Task[Any]] = [stopped, failed]
        changed = group.create_task(Sources().changed()) if reload else None
        if changed is not None:
            waits.append(changed)
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
    if failed.done() and not failed.cancelled():
        say(f"perdure: the node can write nothing more and stops: {failed.result()}; what was acknowledged is on disk")
        return FAILED
    if changed is not None and changed.done() and not changed.cancelled():
        say(f"perdure: {changed.result()} has changed; starting again")
        return None
    return OK


def _announce(node: "Node", plan: _Plan, url: str) -> None:
    from perdure import __version__
    from perdure.cli.show import emit, text

    registry = node.registry
    facts: dict[str, Any] = {
        "version": __version__,
        "url": url,
        "pid": os.getpid(),
        "data": str(plan.data),
        "queues": plan.queues,
        "workflows": sorted(registry.workflows),
        "activities": sorted(registry.activities),
    }
    if plan.output.is_json:
        emit(facts, "jsonl")
        return
    text(f"perdure {facts['version']} serves {url} (data in {plan.data}, pid {facts['pid']})")
    for name in ("workflows", "activities", "queues"):
        text(f"  {name:<11}{', '.join(facts[name]) or '–'}")
    text(f"  try        perdure workflow list --address {url}")
    if not registry.workflows and not registry.activities:
        say("perdure: no MODULE was given: requests are taken, and nothing runs them")


# ------------------------------------------------------------------------------------------------------------------ reloading


def _wait_for_better(error: Exception, modules: tuple[str, ...], output: Output) -> int:
    """With --reload a module that cannot be loaded is no end: wait until it has been changed, then start again."""
    from perdure.cli.served import files_of
    from perdure.cli.sources import Sources

    code = complain(error, as_json=output.is_json)
    sources = Sources([*files_of(error), *(Path(module) for module in modules if Path(module).is_file())])
    if not sources:
        return code
    say("perdure: waiting for a change")
    asyncio.run(sources.changed())
    _start_again()
    return code


def _start_again() -> None:
    """The same command in the same process, with none of the old code left in it."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  the very command that runs
