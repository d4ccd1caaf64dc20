"""`perdure dev`: an embedded node, its worker and its ways in, in one process.

What serves the node from outside is the list in `_ways_in`: services that start after the node and stop before it. Today that is the
local socket of the command line; an HTTP server takes its place beside it without anything else here changing.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import traceback
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Final, TextIO

from cyclopts import Parameter

from perdure.cli.exits import FAILED, INTERRUPTED, OK, complain, say
from perdure.cli.options import KEPT_FOR, Data, Output, Retention

if TYPE_CHECKING:
    from perdure.node import Node
    from perdure.server.local import LocalServer

RELOAD_GRACE_S: Final = 2.0
"""With --reload activities get this long at most: what is cut short is tried again a moment later."""
FAILED_GRACE_S: Final = 2.0
"""A node that cannot write keeps nothing an activity still brings."""
TEXT = Output()


def dev(
    *modules: str,
    data: Data = Path("perdure-data"),
    queue: Annotated[list[str] | None, Parameter(name="--queue")] = None,
    grace: float = 30.0,
    retention: Retention = KEPT_FOR,
    reload: bool = False,
    output: Output = TEXT,
) -> int:
    """Run an engine and a worker in one process, with its journal on disk, until SIGINT or SIGTERM.

    Args:
        modules: What the worker can run: dotted names or paths to .py files.
        data: The data directory: journal, lock and the socket through which other commands reach this node.
        queue: A task queue to serve, beside "default" and those the code names. Repeat it for more.
        grace: Seconds running activities may take to end when the node stops.
        retention: How long closed runs are kept: 30d, 12h, or seconds.
        reload: Start again whenever a source file changes.
    """
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    if reload:
        sys.dont_write_bytecode = True  # compiled files are told apart by whole seconds, and authors are faster
        grace = min(grace, RELOAD_GRACE_S)
    own = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):  # what modules, workflows and activities print is none of this command's data
        try:
            loaded = _loaded(modules)
        except Exception as error:
            if not reload:
                raise
            return _wait_for_better(error, modules, output)
        end = asyncio.run(_serve(_Plan(loaded, data, tuple(queue or ()), grace, retention, reload, output, own)))
    if end is not None:
        return end
    _start_again()
    return OK


@dataclass(frozen=True)
class _Plan:
    modules: list[ModuleType]
    data: Path
    queues: tuple[str, ...]
    grace: float
    retention: timedelta
    reload: bool
    output: Output
    own: TextIO
    """Where the command's own data goes."""


def _loaded(modules: tuple[str, ...]) -> list[ModuleType]:
    """The modules, tried out: what cannot be registered must be known before anything starts."""
    from perdure.cli.modules import load
    from perdure.sdk.registry import Registry

    found = [load(module) for module in modules]
    Registry().register(*found)
    return found


# -------------------------------------------------------------------------------------------------------------------- serving


async def _serve(plan: _Plan) -> int | None:
    """Serve until a signal, a failure or a changed file; the exit code, or None to start again."""
    from perdure.node import embedded
    from perdure.runtime.collector import collector

    stop = asyncio.Event()
    _heed_signals(stop, plan.grace)
    node = embedded(plan.data, queues=_queues(plan), grace=plan.grace, retention=plan.retention)
    node.register(*plan.modules)
    await node.start()
    try:
        async with AsyncExitStack() as stack:
            stack.enter_context(collector("tuned"))
            for service in _ways_in(node, plan.data):
                await stack.enter_async_context(service)
            with contextlib.redirect_stdout(plan.own):
                _announce(node, plan)
            end = await _until(node, stop, reload=plan.reload)
    finally:
        await _stop(node)
    return end


def _ways_in(node: "Node", data: Path) -> "list[LocalServer]":
    from perdure.server.local import LocalServer

    return [LocalServer(node.frontend, data)]


def _queues(plan: _Plan) -> list[str]:
    """The default one, those the code names, those asked for."""
    from perdure.sdk.registry import Registry

    registry = Registry()
    registry.register(*plan.modules)
    named = [workflow.queue for workflow in registry.workflows.values() if workflow.queue]
    for activity in registry.activities.values():
        named += filter(None, [activity.queue])
    return list(dict.fromkeys(["default", *named, *plan.queues]))


def _heed_signals(stop: asyncio.Event, grace: float) -> None:
    def heed() -> None:
        if stop.is_set():
            say("perdure: stopped at once; what was acknowledged is on disk")
            os._exit(INTERRUPTED)
        say(f"perdure: stopping; activities have {grace:g} s to end (the same signal again: at once)")
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, heed)


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


async def _stop(node: "Node") -> None:
    is_broken = node.frontend.fault is not None
    try:
        async with asyncio.timeout(FAILED_GRACE_S if is_broken else None):
            await node.stop()
    except (TimeoutError, Exception) as error:
        if not is_broken:
            raise
        logging.getLogger(__name__).debug("stopping a failed node failed too: %r", error)


def _announce(node: "Node", plan: _Plan) -> None:
    from perdure import __version__
    from perdure.cli.show import emit, text

    registry = node.registry
    facts: dict[str, Any] = {
        "version": __version__,
        "pid": os.getpid(),
        "data": str(plan.data),
        "queues": _queues(plan),
        "workflows": sorted(registry.workflows),
        "activities": sorted(registry.activities),
    }
    if plan.output.is_json:
        emit(facts, "jsonl")
        return
    text(f"perdure {facts['version']} serves {plan.data} (pid {facts['pid']})")
    for name in ("workflows", "activities", "queues"):
        text(f"  {name:<11}{', '.join(facts[name]) or '–'}")
    text(f"  try        perdure workflow list --data {plan.data}")
    if not registry.workflows and not registry.activities:
        say("perdure: no MODULE was given: requests are taken, and nothing runs them")


# ------------------------------------------------------------------------------------------------------------------ reloading


def _wait_for_better(error: Exception, modules: tuple[str, ...], output: Output) -> int:
    """With --reload a module that cannot be loaded is no end: wait until it has been changed, then start again."""
    from perdure.cli.sources import Sources

    code = complain(error, as_json=output.is_json)
    sources = Sources([*_files_of(error), *(Path(module) for module in modules if Path(module).is_file())])
    if not sources:
        return code
    say("perdure: waiting for a change")
    asyncio.run(sources.changed())
    _start_again()
    return code


def _files_of(error: BaseException) -> list[Path]:
    """Source files that had a part in an import's failure."""
    cause = error.__cause__ or error
    files = [Path(frame.filename) for frame in traceback.extract_tb(cause.__traceback__)]
    if isinstance(cause, SyntaxError) and cause.filename:
        files.append(Path(cause.filename))
    own = Path(__file__).parents[1]
    return [file for file in files if file.is_file() and not file.resolve().is_relative_to(own)]


def _start_again() -> None:
    """The same command in the same process, with none of the old code left in it."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  the very command that runs
