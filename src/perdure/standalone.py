"""`perdure.Worker`: a worker by itself, on any client. A process that has nothing else loads neither engine nor store.

It owns what it makes: the connection when it was given an address instead of a client, the loop and the signals in `run_forever`.
"""

import asyncio
import logging
import signal
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from perdure.core.errors import InvalidArgument
from perdure.runtime.chance import RealChance
from perdure.sdk.client import Client
from perdure.sdk.codecs import Codec
from perdure.sdk.coded import coded
from perdure.sdk.duration import length
from perdure.sdk.interceptors import Interceptor, interceptors_of
from perdure.sdk.options import identifier, positive
from perdure.sdk.registry import Registry
from perdure.worker.worker import GRACE_S, TaskWorker

STOPPING: Final = (signal.SIGTERM, signal.SIGINT)
"""What ends `run_forever`."""

log = logging.getLogger(__name__)


class Worker:
    """A worker of its own, on any client: an embedded node's or a connected one.

    Use it with `async with`, with `await worker.run()`, or, in a script without a loop, with `worker.run_forever()`. However it ends, it
    drains: takes nothing more, lets running activities end for up to `grace` seconds (they see `activity.is_stopping()`, and their
    heartbeats go on), cuts the rest short and has them run elsewhere.

    `queue` names the task queue it serves, or several. `workflows` and `activities` hold functions, classes, objects with activity methods
    or whole modules. `max_activities` bounds the activities running at once, `max_processes` the child processes of process activities
    (None: as many as there are processors), `max_cached_runs` the runs held warm. `build_id` replaces the hash of the code. `codec` takes
    the place of the client's, `interceptors` stand around what it runs (the first outermost).
    """

    def __init__(
        self,
        client: Client,
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
        grace: float = GRACE_S,
    ) -> None:
        """Raises `InvalidArgument` for what can be none of these, and for two things of one name."""
        self._registry = Registry(build_id, interceptors_of(interceptors))
        self._registry.register(*workflows, *activities)
        self._queues = _queues(queue)
        self._grace = length(grace, "grace") / 1_000_000
        self._max_activities = positive("max_activities", max_activities)
        self._max_processes = 0 if max_processes is None else positive("max_processes", max_processes)
        self._max_cached_runs = positive("max_cached_runs", max_cached_runs)
        self._codec = codec
        self._client = client
        self._entered = False
        self._worker: TaskWorker | None = None
        """One is made each time this is entered: it works once."""
        self._ending: asyncio.Event | None = None

    @property
    def build_id(self) -> str:
        """The build its decisions are recorded under: the one given, else the hash of the code."""
        return self._registry.build_id()

    @property
    def queues(self) -> tuple[str, ...]:
        """The task queues it serves."""
        return self._queues

    async def __aenter__(self) -> Self:
        if self._entered:
            raise InvalidArgument("this worker runs already")
        self._entered = True
        self._worker = self._made(self._client)
        await self._worker.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._worker is not None:
            await self._worker.stop(self._grace)
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
        )

    # -------------------------------------------------------------------------------------------------------------- running

    async def run(self) -> None:
        """Work until cancelled, or until `stop` is called, then drain. Takes no signals: they are the program's own."""
        self._ending = asyncio.Event()
        try:
            async with self:
                await self._ending.wait()
        finally:
            self._ending = None

    def stop(self) -> None:
        """Have `run` or `run_forever` drain and return. Called again while it drains, it ends the grace period."""
        if self._ending is None:
            return
        if self._ending.is_set() and self._worker is not None:
            self._worker.hurry()
        self._ending.set()

    def run_forever(self) -> None:
        """Work in a loop of its own until SIGTERM or SIGINT, then drain and return: for scripts without asyncio. The same signal again ends
        the grace period. Needs the main thread, and a client made from an address, since any other belongs to another loop."""
        asyncio.run(self._run_heeding())

    async def _run_heeding(self) -> None:
        loop = asyncio.get_running_loop()
        for number in STOPPING:
            loop.add_signal_handler(number, self._told, number)
        try:
            await self.run()
        finally:
            for number in STOPPING:
                loop.remove_signal_handler(number)

    def _told(self, number: signal.Signals) -> None:
        if self._ending is not None and not self._ending.is_set():
            log.warning("%s: stopping; activities have %g s to end (the same signal again: at once)", number.name, self._grace)
        self.stop()


def _queues(queue: str | Sequence[str]) -> tuple[str, ...]:
    named = (queue,) if isinstance(queue, str) else tuple(queue)
    if not named:
        raise InvalidArgument("a worker serves one queue at least")
    return tuple(dict.fromkeys(identifier(each, "queue") for each in named))
