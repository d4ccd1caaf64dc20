"""`perdure.Worker`: a worker by itself, on any client. A process that has nothing else loads neither engine nor store.

It owns what it makes: the connection when it was given an address instead of a client, the loop and the signals in `run_forever`.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import Final, Self

from perdure.core.errors import InvalidArgument, PermissionDenied, ResourceExhausted, Unavailable
from perdure.runtime.chance import RealChance
from perdure.runtime.signals import heed, heed_no_more
from perdure.sdk.client import Client
from perdure.sdk.codecs import Codec
from perdure.sdk.coded import coded
from perdure.sdk.duration import length
from perdure.sdk.interceptors import Interceptor, interceptors_of
from perdure.sdk.options import identifier, positive
from perdure.sdk.registry import Registry
from perdure.wire.address import DEFAULT
from perdure.wire.remote_frontend import RemoteFrontend
from perdure.worker.sessions import CACHED_BYTES_MAX
from perdure.worker.worker import GRACE_S, TaskWorker

STOPPING: Final = (signal.SIGTERM, signal.SIGINT)
"""What ends `run_forever`."""

PAUSE_S: Final = 0.2
"""After the first vain attempt to connect; twice as long after each further one."""
PAUSE_S_MAX: Final = 3.0

log = logging.getLogger(__name__)


class Worker:
    """A worker of its own, on any client: an embedded node's or a connected one.

    Use it with `async with`, with `await worker.run()`, or, in a script without a loop, with `worker.run_forever()`. However it ends, it
    drains: takes nothing more, lets running activities end for up to `grace` seconds (they see `activity.is_stopping()`, and their
    heartbeats go on), cuts the rest short and has them run elsewhere.

    `client` is an embedded node's or a connected one; or a node's address, for a connection of the worker's own (None: PERDURE_ADDRESS,
    else http://127.0.0.1:7373), made with `api_key` (None: PERDURE_API_KEY), `namespace` and `ca` as `perdure.connect` takes them.
    `queue` names the task queue it serves, or several. `workflows` and `activities` hold functions, classes, objects with activity methods
    or whole modules. `max_activities` bounds the activities running at once, `max_processes` the child processes of process activities
    (None: as many as there are processors), `max_cached_runs` the runs held warm, `max_cached_bytes` what they may weigh
    together (estimated; those not used for longest are replayed when needed). `build_id` replaces the hash of the code. `codec` takes
    the place of the client's, `interceptors` stand around what it runs (the first outermost).
    """

    def __init__(
        self,
        client: Client | str | None = None,
        *,
        queue: str | Sequence[str] = "default",
        workflows: Sequence[object] = (),
        activities: Sequence[object] = (),
        build_id: str | None = None,
        max_activities: int = 100,
        max_processes: int | None = None,
        codec: Codec = None,
        interceptors: Sequence[Interceptor] = (),
        max_cached_runs: int = 10_000,
        max_cached_bytes: int = CACHED_BYTES_MAX,
        grace: float = GRACE_S,
        api_key: str | None = None,
        namespace: str = "default",
        ca: str | None = None,
    ) -> None:
        """Raises `InvalidArgument` for what can be none of these, and for two things of one name."""
        self._registry = Registry(build_id, interceptors_of(interceptors))
        self._registry.register(*workflows, *activities)
        self._queues = _queues(queue)
        self._grace = length(grace, "grace") / 1_000_000
        self._max_activities = positive("max_activities", max_activities)
        self._max_processes = 0 if max_processes is None else positive("max_processes", max_processes)
        self._max_cached_runs = positive("max_cached_runs", max_cached_runs)
        self._max_cached_bytes = positive("max_cached_bytes", max_cached_bytes)
        self._codec = codec
        self._given = None if client is None or isinstance(client, str) else client
        self.address = client if isinstance(client, str) else os.environ.get("PERDURE_ADDRESS") or DEFAULT
        """Where the node is asked for; of no meaning with a client."""
        self._connect = partial(_connect, self.address, api_key, namespace, ca)
        self._own: Client | None = None
        """The connection made here, while there is one."""
        self._entered = False
        self._worker: TaskWorker | None = None
        """One is made each time this is entered: it works once."""
        self._ending: asyncio.Event | None = None
        self._last_grace = self._grace
        self._is_waiting = False
        self._is_refused = False

    @property
    def build_id(self) -> str:
        """The build its decisions are recorded under: the one given, else the hash of the code."""
        return self._registry.build_id()

    @property
    def queues(self) -> tuple[str, ...]:
        """The task queues it serves."""
        return self._queues

    async def __aenter__(self) -> Self:
        """Raises `Unavailable` when it has an address and no node answers there."""
        self._enter()
        try:
            await self._begin(self._given or await self._connected())
        except BaseException:
            await self._leave(0)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._leave(self._grace)

    def _enter(self) -> None:
        if self._entered:
            raise InvalidArgument("this worker runs already")
        self._entered = True

    async def _connected(self) -> Client:
        client = self._own = await self._connect()
        frontend = client.frontend
        if isinstance(frontend, RemoteFrontend):
            frontend.asker.stands = self._stands
            if not frontend.asker.may_work:
                raise PermissionDenied("this API key may not work: a worker's has the role worker or admin")
        return client

    async def _begin(self, client: Client) -> None:
        self._worker = self._made(client)
        await self._worker.start()

    async def _leave(self, grace: float) -> None:
        try:
            if self._worker is not None:
                await self._worker.stop(grace)
        finally:
            own, self._own = self._own, None
            if own is not None:
                await own.close()
            self._entered = False

    def _made(self, client: Client) -> TaskWorker:
        frontend = coded(client.frontend, self._codec)
        return TaskWorker(
            frontend,
            RealChance(),
            self._registry,
            self._queues,
            incarnation=getattr(frontend, "incarnation", ""),
            max_activities=self._max_activities,
            max_processes=self._max_processes,
            max_cached_runs=self._max_cached_runs,
            max_cached_bytes=self._max_cached_bytes,
        )

    # -------------------------------------------------------------------------------------------------------------- running

    async def run(self) -> None:
        """Work until cancelled, or until `stop` is called, then drain. Takes no signals: they are the program's own.

        With an address it waits for a node that does not answer. Raises what else keeps it from connecting, such as `PermissionDenied`.
        """
        self._enter()
        ending = self._ending = asyncio.Event()
        self._last_grace = self._grace
        try:
            client = self._given or await self._reached(ending)
            if client is not None:
                await self._begin(client)
                await ending.wait()
        finally:
            await self._leave(self._last_grace)
            self._ending = None

    def stop(self, grace: float | None = None) -> None:
        """Have `run` or `run_forever` drain and return; activities get `grace` seconds in place of its own. Called again while it drains,
        it ends the grace period."""
        if self._ending is None:
            return
        if self._ending.is_set() and self._worker is not None:
            self._worker.hurry()
        elif grace is not None:
            self._last_grace = length(grace, "grace") / 1_000_000
        self._ending.set()

    async def _reached(self, ending: asyncio.Event) -> Client | None:
        """A connection, however long the node is away; None when it is to end first."""
        loop = asyncio.get_running_loop()
        reaching = loop.create_task(self._patiently(), name="perdure worker connects")
        ended = loop.create_task(ending.wait())
        try:
            await asyncio.wait((reaching, ended), return_when=asyncio.FIRST_COMPLETED)
            return None if ending.is_set() else reaching.result()
        finally:
            for task in (reaching, ended):
                task.cancel()
            await asyncio.gather(reaching, ended, return_exceptions=True)

    async def _patiently(self) -> Client:
        pause = PAUSE_S
        while True:
            try:
                client = await self._connected()
            except (Unavailable, ResourceExhausted) as error:
                self._waits(str(error))
                await asyncio.sleep(pause)
                pause = min(2 * pause, PAUSE_S_MAX)
            else:
                self._serves()
                return client

    def _stands(self, why: str, refused: bool) -> None:
        self._waits(why, refused) if why else self._serves()

    def _waits(self, why: str, refused: bool = False) -> None:
        """The node is away, or there and lets nobody in with this key any more."""
        if not self._is_waiting or (refused and not self._is_refused):
            log.warning("%s; waiting for it", why)
        self._is_waiting, self._is_refused = True, self._is_refused or refused

    def _serves(self) -> None:
        """The node is there, for the first time or again."""
        if self._is_waiting:
            log.warning("the node is back")
        self._is_waiting = self._is_refused = False

    def run_forever(self) -> None:
        """Work in a loop of its own until SIGTERM or SIGINT, then drain and return: for scripts without asyncio. The same signal again ends
        the grace period. Needs the main thread, and a client made from an address, since any other belongs to another loop."""
        if self._given is not None:
            raise InvalidArgument("run_forever has a loop of its own: give the worker an address in place of a client")
        asyncio.run(self._run_heeding())

    async def _run_heeding(self) -> None:
        for number in STOPPING:
            heed(number, self._told, number)
        try:
            await self.run()
        finally:
            for number in STOPPING:
                heed_no_more(number)

    def _told(self, number: signal.Signals) -> None:
        if self._ending is not None and not self._ending.is_set():
            log.warning("%s: stopping; activities have %g s to end (the same signal again: at once)", number.name, self._grace)
        self.stop()


async def _connect(address: str, api_key: str | None, namespace: str, ca: str | None) -> Client:
    from perdure.remote import connect

    return await connect(address, api_key, namespace, ca=ca)


def _queues(queue: str | Sequence[str]) -> tuple[str, ...]:
    named = (queue,) if isinstance(queue, str) else tuple(queue)
    if not named:
        raise InvalidArgument("a worker serves one queue at least")
    return tuple(dict.fromkeys(identifier(each, "queue") for each in named))
