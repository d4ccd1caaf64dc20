"""The composition root: the only file that names adapters. Puts store, broker, clock, engine and worker together into a node."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from perdure.broker.inprocess import InProcessBroker
from perdure.core.admission import OPEN_DOOR, AdmissionRules
from perdure.core.errors import InvalidArgument
from perdure.core.limits import LIMITS, Limits
from perdure.engine.frontend import EngineFrontend
from perdure.engine.overview import nothing_known
from perdure.ports import Broker, Chance, Clock, Store
from perdure.replay.watchdog import LIMIT_S
from perdure.runtime.chance import RealChance
from perdure.runtime.clock import RealClock
from perdure.runtime.files import LocalFiles
from perdure.sdk.client import Client
from perdure.sdk.codecs import Codec
from perdure.sdk.coded import coded
from perdure.sdk.context import refuse_in_workflow
from perdure.sdk.duration import Duration, bound, length
from perdure.sdk.intercepted import intercepted
from perdure.sdk.interceptors import Interceptor, interceptors_of
from perdure.sdk.options import identifier, positive
from perdure.sdk.registry import Registry
from perdure.store.index.index import Index
from perdure.store.index.schema import INDEX_FILE
from perdure.store.journal.store import JournalStore
from perdure.worker.sessions import CACHED_BYTES_MAX
from perdure.worker.worker import GRACE_S, TaskWorker

RETENTION: Final = timedelta(days=30)
"""So long are closed runs kept."""


class Node:
    """An engine and a worker in one process, over any store, broker, clock and chance. Started and stopped once."""

    def __init__(
        self,
        store: Store,
        broker: Broker,
        clock: Clock,
        chance: Chance,
        *,
        queues: Sequence[str] = ("default",),
        namespace: str = "default",
        build_id: str | None = None,
        max_activities: int = 200,
        max_processes: int | None = None,
        codec: Codec = None,
        interceptors: Sequence[Interceptor] = (),
        max_cached_runs: int = 10_000,
        max_cached_bytes: int = CACHED_BYTES_MAX,
        grace: float = GRACE_S,
        blocked_after: float = LIMIT_S,
        limits: Limits = LIMITS,
        admission: AdmissionRules = OPEN_DOOR,
    ) -> None:
        """`limits` are the bounds of the engine, each with a name (`perdure.core.limits`), `admission` says when new starts are refused.

        `blocked_after`: seconds of CPU after which an activation of workflow code is reported; 0 = nobody watches, no thread runs."""
        self.store = store
        self.broker = broker
        self.clock = clock
        interceptors = interceptors_of(interceptors)
        self.registry = Registry(build_id, interceptors)
        incarnation = chance.token()
        self.frontend = EngineFrontend(
            store,
            broker,
            clock,
            chance,
            node=f"node-{incarnation[:8]}",
            incarnation=incarnation,
            limits=limits,
            admission=admission,
            version=_version(),
            disk=store.disk if isinstance(store, JournalStore) else nothing_known,
        )
        seen = coded(self.frontend, codec)
        self.client = Client(intercepted(seen, interceptors), chance, identifier(namespace, "namespace"))
        self.worker = TaskWorker(
            seen,
            chance,
            self.registry,
            tuple(identifier(queue, "queue") for queue in queues),
            incarnation=incarnation,
            max_activities=positive("max_activities", max_activities),
            max_processes=0 if max_processes is None else positive("max_processes", max_processes),
            max_cached_runs=positive("max_cached_runs", max_cached_runs),
            max_cached_bytes=positive("max_cached_bytes", max_cached_bytes),
            blocked_after=blocked_after,
        )
        self._grace = length(grace, "grace") / 1_000_000
        self._working = False
        self._running = False
        self._turn = asyncio.Lock()
        """Starting and stopping, one at a time."""
        self._stop: asyncio.Task[None] | None = None

    def register(self, *things: object) -> None:
        """Make workflows, activities, modules or objects with activity methods known to this node's worker; any time.

        The worker begins to take tasks with the first registration, so that nothing is offered to it before it knows anything. Raises
        `InvalidArgument` for a name that stands for something else.
        """
        self.registry.register(*things)
        if self._running and not self._working:
            self._work()

    def _work(self) -> None:
        self._working = True
        self.worker.begin()

    async def start(self) -> None:
        async with self._turn:
            await self.store.open()
            try:
                await self.frontend.start()
            except BaseException:
                await self._close()
                raise
            self._running = True
            if self.registry.activities or self.registry.workflows:
                self._work()

    async def stop(self) -> None:
        """Let activities end within the grace period, write what was taken, close the store. Idempotent.

        A start that is under way is awaited. Once begun it goes on to its end, also when whoever awaits this is cancelled; a second
        call waits for that end.
        """
        refuse_in_workflow("node.stop()")
        if self._stop is None or self._stop.done():
            self._stop = asyncio.get_running_loop().create_task(self._stop_in_order(), name="perdure stop")
        await asyncio.shield(self._stop)

    async def _stop_in_order(self) -> None:
        async with self._turn:
            if not self._running:
                return
            try:
                if self._working:
                    await self.worker.stop(self._grace)
            finally:
                await self._close()
                self._running = False

    async def _close(self) -> None:
        try:
            await self.frontend.stop()
        finally:
            await self.store.close()

    async def failed(self) -> BaseException:
        """Wait until this node can write nothing more (a failed fsync, say) and return why. It must then be stopped."""
        refuse_in_workflow("node.failed()")
        await self.frontend.fenced.wait()
        assert self.frontend.fault is not None
        return self.frontend.fault

    @property
    def busy(self) -> bool:
        """True while anything is under way that time alone would not bring forward."""
        return self.worker.busy or self.frontend.busy

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


def embedded(
    data: str | Path,
    *,
    queues: Sequence[str] = ("default",),
    namespace: str = "default",
    build_id: str | None = None,
    max_activities: int = 200,
    max_processes: int | None = None,
    codec: Codec = None,
    interceptors: Sequence[Interceptor] = (),
    max_cached_runs: int = 10_000,
    max_cached_bytes: int = CACHED_BYTES_MAX,
    grace: float = GRACE_S,
    limits: Limits = LIMITS,
    retention: Duration | None = RETENTION,
    admission: AdmissionRules = OPEN_DOOR,
) -> Node:
    """An engine and a worker in this process, its journal in the directory `data`.

    Use it with `async with`; the node has `.client` and `.register(...)`. `queues` are the task queues its worker serves,
    `max_activities` bounds the activities running at once, `max_processes` the child processes of process activities (None: as many as
    there are processors), `max_cached_runs` the runs held warm, `max_cached_bytes` what they may weigh together (estimated). `codec`
    encodes and decodes every payload of its client and its worker (several: in that order), `interceptors` stand around the client's calls and what the worker runs (the first outermost). `grace`
    (seconds) is how long activities may go on when it stops, `limits` the bounds on what one workflow id, run or message may hold.
    `retention` (seconds or timedelta; None: for ever) is how long closed runs are kept. `admission` says when new
    starts are refused with `ResourceExhausted`; none are until it is given.

    Raises `InvalidArgument` when `data` is empty; entering raises `Unavailable` when another process holds the directory, and typed
    errors for a damaged journal.
    """
    if not str(data):
        raise InvalidArgument("the data directory must be named; the current folder is '.'")
    clock, chance = RealClock(), RealChance()
    keep = bound(retention, "retention")
    store = JournalStore(LocalFiles(Path(data)), clock, chance, index=Index(Path(data) / INDEX_FILE), retention=keep)
    return Node(
        store,
        InProcessBroker(),
        clock,
        chance,
        queues=queues,
        namespace=namespace,
        build_id=build_id,
        max_activities=max_activities,
        max_processes=max_processes,
        codec=codec,
        interceptors=interceptors,
        max_cached_runs=max_cached_runs,
        max_cached_bytes=max_cached_bytes,
        grace=grace,
        limits=limits,
        admission=admission,
    )


@cache
def _version() -> str:
    return metadata.version("perdure")
