"""The whole node through its public door: real engine, worker, journal and clock; tests are coroutines, run each on a loop of its own.

When a house is left, every history made in it is replayed strictly: at once, one input at a time, and as a warm runner sees it; when a
test file is done, once more by another process with another hash seed. A test waits on results, on what was committed, or on asyncio
primitives it shares with its activities, never on time alone.
"""

import asyncio
import inspect
import json
import os
import subprocess
import sys
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import pytest

import perdure
from perdure.broker.inprocess import InProcessBroker
from perdure.core import events as ev
from perdure.core.notes import DecidedBy, Seen
from perdure.core.state import is_closing
from perdure.node import Node
from perdure.replay.history import replay_history
from perdure.replay.runner import Runner, check_closed
from perdure.runtime.chance import RealChance
from perdure.runtime.clock import RealClock
from perdure.sdk.client import Client
from perdure.sdk.coded import coded
from perdure.sdk.intercepted import intercepted
from perdure.server.access import Gate
from perdure.server.app import build_app
from perdure.server.http_server import HttpServer
from perdure.server.wire.wire_end import WireEnd
from perdure.store.memory import MemoryStore
from perdure.wire.address import address_of
from perdure.wire.remote_frontend import RemoteFrontend
from perdure.worker.sessions import Session, Sessions
from perdure.worker.worker import TaskWorker

PATIENCE_S = 30.0
"""So long may anything take that a test waits for."""

TEST_S = 45.0
"""So long may a test take; then its stack is shown where it waits."""

ELSEWHERE = Path(__file__).with_name("replay_elsewhere.py")


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


# ------------------------------------------------------------------------------------------------------------------------ modes


class AlwaysCold(Sessions):
    """No run is ever found warm: whatever it is wanted for, it is replayed from its first event."""

    def get(self, run_id: str) -> Session | None:
        session = super().get(run_id)
        if session is None or session.waiting or session.facts:
            return session
        self.drop(session)
        return None


MODES = ("warm", "cold", "unfused", "piecemeal", "tiny", "remote")


TINY: dict[str, Any] = {
    "max_cached_runs": 1,
    "limits": perdure.Limits(idle_runs_kept=0, message_commands_max=2),
}
"""Every bound that may be tiny without another outcome."""


def force(node: Node, mode: str) -> None:
    """Make the node's worker do everything the hard way."""
    if mode == "cold":
        cold = AlwaysCold(1_000)
        node.worker._sessions = node.worker.decider._sessions = cold
    elif mode == "unfused":
        node.worker.decider.fuse = False
    elif mode == "piecemeal":
        node.worker.decider.commands_max = 1


async def move_out(node: Node, options: dict[str, Any]) -> None:
    """Put a real port and a connection between the node's engine and its client and worker, as if those lived in another process."""
    wire = WireEnd(node.frontend, Gate.open(), node.frontend.incarnation)
    server = HttpServer(build_app(node.frontend, Gate.open(), routes=wire.routes()), port=0)
    await server.start()
    remote = RemoteFrontend(address_of(server.url), None, RealClock(), RealChance())
    await remote.open(PATIENCE_S)
    seen = coded(remote, options.get("codec"))
    node.client = Client(intercepted(seen, node.registry.interceptors), RealChance(), node.client.namespace)
    node.worker = TaskWorker(
        seen,
        RealChance(),
        node.registry,
        tuple(options.get("queues", ("default",))),
        max_activities=options.get("max_activities", 200),
        max_processes=options.get("max_processes") or 0,
        max_cached_runs=options.get("max_cached_runs", 10_000),
    )
    close = node._close

    async def closed() -> None:
        await remote.close()
        await wire.stop()
        await server.stop()
        await close()

    node._close = closed  # type: ignore[method-assign]


# ------------------------------------------------------------------------------------------------------------------------ house


class House:
    """Makes nodes. `data` is the directory of those that keep a journal."""

    def __init__(self, data: Path, exported: list[dict[str, Any]], mode: str = "warm") -> None:
        self.data = data
        self.mode = mode
        self.exported = exported

    @asynccontextmanager
    async def __call__(
        self, *things: object, memory: Any = None, replays: bool = True, data: Path | None = None, **options: Any
    ) -> AsyncIterator[Node]:
        """A running node with `things` registered. `memory`: a `MemoryStore` to run on (or True) instead of a journal in `data`.

        `replays`: hold every history against its code when the node is left.
        """
        if self.mode == "tiny":
            options = TINY | options
        if memory is None:
            node = perdure.embedded(data or self.data, **options)
        else:
            store = MemoryStore() if memory is True else memory
            node = Node(store, InProcessBroker(), RealClock(), RealChance(), **options)
        force(node, self.mode)
        watch(node)
        async with node as app:
            if self.mode == "remote":
                await move_out(app, options)
            if things:
                app.register(*things)
            yield app
            await check_counts(app)
            if replays:
                for row in [row async for row in app.client.list()]:
                    if row.status != "quarantined":
                        await self.verify(app, row)

    async def verify(self, app: Node, row: Any) -> None:
        """Hold one history against its code, in every manner."""
        definition = app.registry.workflow(row.type)
        waits_for = {item.kind for item in (await app.client.handle(row.workflow_id, row.run_id).describe()).pending}
        if definition is None or waits_for & {"build", "resume"}:
            return
        record = await app.frontend.record(app.client.namespace, row.workflow_id, row.run_id)
        covered = max((note.based_on for note in record.notes if isinstance(note, Seen)), default=0)
        covered = max((event.based_on for event in record.events if isinstance(event, ev.CommandEvent)), default=covered)
        replay_all_ways(definition, record.events, covered, row.workflow_id)
        builds = {note.build_id for note in record.notes if isinstance(note, DecidedBy)}
        drawn = any(isinstance(event, ev.SideEffectRecorded) for event in record.events)
        if (
            builds <= {app.registry.build_id()} and not drawn and not overtaken(record.events)
        ):  # else it would decide anew what other code decided, or draw anew
            replay_warm(definition, record.events, row.workflow_id)
        source = definition.cls or definition.fn
        if source.__qualname__.isidentifier():
            self.exported.append(
                {
                    "file": inspect.getfile(inspect.unwrap(definition.fn)),
                    "module": definition.fn.__module__,
                    "name": source.__name__,
                    "workflow_id": row.workflow_id,
                    "covered": covered,
                    "events": msgspec.json.encode(record.events).decode(),
                }
            )


async def check_counts(app: Node) -> None:
    """What the node says is open is what its store says: the one counts as it goes, the other folds all there is."""
    tally = app.frontend.tally
    if app.frontend.is_over or app.store.damaged():
        return
    while True:
        await app.frontend.settled()
        before = tally.commits
        census = await app.store.census()
        if tally.commits == before:
            break
    only_paused = set(census.paused) - set(census.quarantined)
    counted = (tally.open, tally.paused, tally.quarantined)
    assert counted == (census.open, len(only_paused), len(census.quarantined)), f"{counted} is not {census}"


def replay_all_ways(definition: Any, events: Any, covered: int, workflow_id: str = "") -> None:
    """Raise unless the code reproduces the history: at once, and one input at a time."""
    closed = is_closing(events[-1])
    for one_at_a_time in (False, True):
        replay_history(
            definition,
            events,
            workflow_id=workflow_id,
            strict=True,
            covered=None if closed else covered,
            one_at_a_time=one_at_a_time,
        ).close()


def replay_warm(definition: Any, events: Any, workflow_id: str) -> None:
    """Every event on its own, commands only after the code has asked for them."""
    closing = events[-1] if is_closing(events[-1]) else None
    seen = closing.based_on if isinstance(closing, ev.ClosingEvent) and closing.at else len(events)
    runner = Runner(definition, "default", workflow_id, events[0], strict=True)
    decided = 0
    try:
        for batch in by_decisions(events[:-1] if closing is not None else events):
            if ev.is_input(batch[0]) and batch[0].id > seen:
                continue
            decided = max(decided, getattr(batch[-1], "based_on", 0))
            runner.advance(batch, decided)
        if closing is not None:
            check_closed(runner, closing)
    finally:
        runner.close()


def overtaken(events: Any) -> bool:
    """True when an update was accepted on less than was recorded by then: whoever held the later input warm has thrown the run away."""
    return any(
        isinstance(event, ev.UpdateAccepted) and any(ev.is_input(events[at]) for at in range(event.at, event.id - 1))
        for event in events
    )


def by_decisions(events: Any) -> Iterator[list[Any]]:
    """Each event on its own, but for decisions that took an update: what its handler asked for comes with it, as it always does."""
    for based_on, group in groupby(events, lambda event: getattr(event, "based_on", -event.id)):
        decision = list(group)
        if based_on > 0 and any(isinstance(event, ev.UpdateAccepted) for event in decision):
            yield decision
        else:
            yield from ([event] for event in decision)


@pytest.fixture(scope="module")
def exported() -> Iterator[list[dict[str, Any]]]:
    """Histories of a test file; afterwards another process with another hash seed replays them."""
    histories: list[dict[str, Any]] = []
    yield histories
    if histories:
        done = subprocess.run(
            [sys.executable, str(ELSEWHERE)],
            input=json.dumps(histories),
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
            env={**os.environ, "PYTHONHASHSEED": "4711"},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.split() == ["replayed", str(len(histories))]


@pytest.fixture
def house(tmp_path: Path, exported: list[dict[str, Any]]) -> House:
    return House(tmp_path / "data", exported)


@pytest.fixture(params=MODES)
def any_house(request: pytest.FixtureRequest, tmp_path: Path, exported: list[dict[str, Any]]) -> House:
    """The same test in every mode: runs held warm, always replayed, nothing fused, one command a message, room for one run only."""
    return House(tmp_path / "data", exported, request.param)


# ------------------------------------------------------------------------------------------------------------------------ waiting


def watch(node: Node) -> None:
    """Let tests wait for the node's next commit."""
    store: Any = node.store
    commit = store.commit
    CHANGES[node] = asyncio.Event()

    async def watched(lease: Any, batch: Any) -> Any:
        results = await commit(lease, batch)
        changed, CHANGES[node] = CHANGES[node], asyncio.Event()
        changed.set()
        return results

    store.commit = watched


CHANGES: weakref.WeakKeyDictionary[Node, asyncio.Event] = weakref.WeakKeyDictionary()
"""Set at the node's next commit."""


async def until(app: Node, holds: Callable[[], Any], patience: float = PATIENCE_S) -> Any:
    """Wait until the coroutine `holds()` gives something true, asked after each commit; returns that."""
    async with asyncio.timeout(patience):
        while True:
            changed = CHANGES[app]
            found = await holds()
            if found:
                return found
            with suppress(
                TimeoutError
            ):  # what is not committed (a claim, a decision without commands) is looked for now and then
                await asyncio.wait_for(changed.wait(), 0.02)


async def recorded(app: Node, handle: Any, kind: str, count: int = 1) -> Any:
    """Wait until the history (notes included) holds `count` entries of that type; returns the last of these."""

    async def holds() -> Any:
        found = [entry for entry in await handle.history(notes=True) if entry.type == kind]
        return found[count - 1] if len(found) >= count else None

    return await until(app, holds)


async def status(app: Node, handle: Any, wanted: str) -> Any:
    """Wait until the run stands that way; returns its description."""

    async def holds() -> Any:
        description = await handle.describe()
        return description if description.status == wanted else None

    return await until(app, holds)


async def decided(app: Node, handle: Any) -> Any:
    """Wait until workers have seen all there is to see of the run."""

    async def holds() -> bool:
        return all(item.kind != "decision" for item in (await handle.describe()).pending)

    return await until(app, holds)


async def types(handle: Any, *, notes: bool = False) -> list[str]:
    return [entry.type for entry in await handle.history(notes=notes)]


class Tools:
    """The helpers above as one fixture: test files are no modules to import from."""

    until = staticmethod(until)
    recorded = staticmethod(recorded)
    status = staticmethod(status)
    types = staticmethod(types)
    decided = staticmethod(decided)
    force = staticmethod(force)
    watch = staticmethod(watch)
    House = House
    PATIENCE_S = PATIENCE_S


@pytest.fixture
def t() -> type[Tools]:
    return Tools
