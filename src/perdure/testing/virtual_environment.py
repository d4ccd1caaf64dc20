"""A place to test workflows in: the real engine and worker, on virtual time, in the test's own event loop. Days pass in milliseconds.

**When the clock moves.** Only while somebody waits for it: inside `env.advance(...)`, up to exactly the instant asked for; and while a
result is awaited through `env.client` (`handle.result()`, `client.execute(...)`), from one instant at which something is due to the
next, as far as it takes. At all other times it stands still, however long the test takes: a test that starts a run, advances a day and
then sends a signal does so exactly one day after the start. (A result awaited in a task of its own lets time run while the test awaits
something real. Use `env.advance` first, or await the result last.)

**It never moves past work.** Before every move the event loop has come to rest and nothing is queued, being written or running. An
activity that runs holds the clock, so one that awaits real things (a thread, a socket, `asyncio.sleep`) takes no virtual time; one that is
to take virtual time awaits `env.sleep(...)`. An activity that awaits the result of another workflow does not hold it.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from perdure.broker.inprocess import InProcessBroker
from perdure.core.admission import OPEN_DOOR, AdmissionRules
from perdure.core.description import Description
from perdure.core.errors import InvalidArgument
from perdure.core.queries import Query, QueryAnswer, QueryReply, TakeQuery
from perdure.core.replies import RunResult, UpdateResult
from perdure.core.requests import AnyRequest, UpdateWorkflow
from perdure.node import Node
from perdure.ports import (
    Answer,
    Chance,
    Deliver,
    Frontend,
    Record,
    RunFilter,
    RunPage,
    Store,
    Subscription,
    TaskKind,
    WorkerIdentity,
)
from perdure.runtime.chance import RealChance
from perdure.runtime.files import LocalFiles
from perdure.sdk.client import Client
from perdure.sdk.codecs import Codec
from perdure.sdk.context import activity_context
from perdure.sdk.duration import Duration, aware, microseconds
from perdure.sdk.interceptors import Interceptor
from perdure.store.index.index import Index
from perdure.store.index.schema import INDEX_FILE
from perdure.store.journal.store import JournalStore
from perdure.store.memory import MemoryStore
from perdure.testing.chance import SeededChance
from perdure.testing.stuck import Explainer, FailingActivities, StuckError
from perdure.testing.virtual_clock import VirtualClock

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""What `env.now()` says at first, unless told otherwise."""
T = TypeVar("T")

PATIENCE_S: Final = 10.0
"""So many real seconds may pass without the environment coming to rest."""
QUIET_TURNS: Final = 3
"""Turns of the event loop in a row in which nothing at all happened."""
BLIND_TURNS: Final = 25
"""The same on a loop that does not show whether anything is ready to run."""
VAIN_JUMPS: Final = 100
"""Jumps that may come to nothing, besides those to instants that were waited for when something last happened."""
ATTEMPTS_MAX: Final = 100
"""So many attempts of one activity may fail during one wait."""
SPIN_TURNS: Final = 200
"""Turns without rest before the environment begins to wait for real things."""
NAP_S: Final = 0.0005


@asynccontextmanager
async def environment(
    *,
    data: str | Path | None = None,
    queues: Sequence[str] = ("default",),
    namespace: str = "default",
    start: datetime | None = None,
    seed: int = 0,
    build_id: str | None = None,
    max_activities: int = 200,
    max_processes: int | None = None,
    codec: Codec = None,
    interceptors: Sequence[Interceptor] = (),
    max_cached_runs: int = 10_000,
    patience: float = PATIENCE_S,
    attempts_max: int = ATTEMPTS_MAX,
    admission: AdmissionRules = OPEN_DOOR,
) -> "AsyncGenerator[Environment]":
    """The real engine and worker on virtual time; see the top of this file for when it moves.

    Everything is in memory, ids and chance come from `seed`, and time begins at `start` (aware; the first of January 2026), so that a
    test does the same every time. With `data` a journal in that directory is used instead, ids are fresh, and `start` is the real time
    unless given. `queues`, `namespace`, `build_id`, `max_activities`, `max_processes`, `codec`, `interceptors`, `max_cached_runs` and `admission` are those of `perdure.embedded`; with
    `max_cached_runs=1` nearly every step is replayed from its history. `patience` bounds in real seconds how long activities may hold
    the clock before `StuckError` says so. `attempts_max` bounds how many attempts of one activity may fail while a result is awaited:
    then `StuckError` names the activity and its last failure, instead of retrying through virtual time for ever. (They are counted now
    and then: it may be a tenth more.) Raises `InvalidArgument` for a naive `start` and for an `attempts_max` below 1.
    """
    if attempts_max < 1:
        raise InvalidArgument(f"attempts_max must be 1 or more, not {attempts_max!r}")
    if start is not None and start.tzinfo is None:
        raise InvalidArgument("start must be an aware datetime")
    begin = start or (START if data is None else datetime.now(UTC))
    clock = VirtualClock(microseconds(begin - _EPOCH, "start"))
    chance = SeededChance(seed, clock) if data is None else RealChance()
    store: Store = MemoryStore() if data is None else _journal(Path(data), clock, chance)
    node = Node(
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
        grace=0.0,
        admission=admission,
    )
    async with node:
        client = Client(node.client.frontend, chance, namespace)
        env = Environment(node, clock, client, Explainer(node.registry, queues), FailingActivities(attempts_max), patience)
        pump = asyncio.get_running_loop().create_task(env.pump(), name="perdure virtual time")
        try:
            yield env
        finally:
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)


def _journal(data: Path, clock: VirtualClock, chance: Chance) -> JournalStore:
    return JournalStore(LocalFiles(data), clock, chance, index=Index(data / INDEX_FILE))


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Environment:
    """What `environment()` gives. `client` is a full client; `register` takes what `perdure.embedded(...)` takes."""

    client: Client

    def __init__(
        self,
        node: Node,
        clock: VirtualClock,
        client: Client,
        explainer: Explainer,
        failing: FailingActivities,
        patience: float,
    ) -> None:
        self._node = node
        self._clock = clock
        self._explainer = explainer
        self._failing = failing
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._waits: set[asyncio.Future[None]] = set()
        self._wanted = asyncio.Event()
        self._pushing = 0
        self._released = asyncio.Event()
        self._turn = asyncio.Lock()
        self._not_holding = 0
        client.frontend = _WaitingFrontend(client.frontend, self.wait)
        self.client = client

    def register(self, *things: object) -> None:
        """Make workflows, activities, modules or objects with activity methods known; any time. Raises `InvalidArgument`."""
        self._node.register(*things)

    def now(self) -> datetime:
        """The virtual time, aware UTC."""
        return aware(self._clock.now())

    # ---------------------------------------------------------------------------------------------------------- moving time

    async def advance(self, duration: Duration) -> None:
        """Move the clock by `duration` (seconds or timedelta), doing everything that falls due on the way, in order, each at its time.

        Returns at exactly that instant, when all that could be done by then is done. Raises `InvalidArgument` for a negative one,
        `StuckError` when activities hold the clock for longer than `patience`.
        """
        span = microseconds(duration, "advance")
        if span < 0:
            raise InvalidArgument("time cannot be moved backwards")
        target = self._clock.now() + span
        async with _Push(self), self._turn:
            await self._rest()
            while (due := self._clock.next_due()) is not None and due <= target:
                self._clock.jump(due)
                await self._rest()
            self._clock.jump(target)
            await self._rest()

    async def idle(self) -> None:
        """Let everything happen that can happen now. The clock does not move."""
        async with _Push(self), self._turn:
            await self._rest()

    async def sleep(self, duration: Duration) -> None:
        """For activities under test: take that much virtual time, without holding the clock."""
        done: asyncio.Future[None] = self._loop.create_future()
        wake = self._clock.call_at(self._clock.now() + microseconds(duration, "sleep"), lambda: _finish(done))
        try:
            with _NotHolding(self):
                await done
        finally:
            wake.cancel()

    async def wait(self, waiting: Coroutine[Any, Any, T]) -> T:
        """Wait for something while time moves."""
        stuck: asyncio.Future[None] = self._loop.create_future()
        task = self._loop.create_task(waiting)
        if not self._waits:
            self._failing.begin()
        self._waits.add(stuck)
        self._wanted.set()
        try:
            with _NotHolding(self):
                await asyncio.wait((task, stuck), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                stuck.result()
            return await task
        finally:
            self._waits.discard(stuck)
            if stuck.done() and not stuck.cancelled():
                stuck.exception()  # seen, also when the result came after all
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def pump(self) -> None:
        """Moves time from one instant to the next while results are awaited and nobody pushes it."""
        vain, written = 0, -1
        while True:
            await self._wanted.wait()
            try:
                await self._rest()
                if written != self._node.frontend.committer.transitions:
                    vain, written = VAIN_JUMPS + len(self._clock), self._node.frontend.committer.transitions
                if not self._waits:
                    self._wanted.clear()
                elif self._pushing:
                    self._released.clear()
                    await self._released.wait()
                elif (due := self._clock.next_due()) is not None and vain:
                    vain -= 1
                    self._failing.check(self._node.frontend.live_workflows())
                    self._clock.jump(due)
                else:
                    written = -1
                    raise StuckError("nothing more will happen by itself, however much time passes")  # noqa: TRY301
            except Exception as error:  # noqa: BLE001 – whoever waits shall hear of it
                self._fail(self._explained(error) if isinstance(error, StuckError) else error)

    def _fail(self, error: Exception) -> None:
        waits, self._waits = self._waits, set()
        for wait in waits:
            if not wait.done():
                wait.set_exception(error)

    # ----------------------------------------------------------------------------------------------------------------- rest

    async def _rest(self) -> None:
        """Return when nothing is left that does not need time to move."""
        spinners = _SPINNERS.setdefault(self._loop, [0])
        spinners[0] += 1
        try:
            await self._spin(spinners)
        finally:
            spinners[0] -= 1

    async def _spin(self, spinners: list[int]) -> None:
        ready: Any = getattr(self._loop, "_ready", None)
        enough = BLIND_TURNS if ready is None else QUIET_TURNS
        quiet = turns = 0
        deadline = self._loop.time() + self._patience
        while quiet < enough:
            await asyncio.sleep(0 if turns < SPIN_TURNS else NAP_S)
            # Other environments that wait for rest in this loop are no unrest.
            if self._is_held() or (ready is not None and len(ready) >= spinners[0]):
                quiet, turns = 0, turns + 1
                if turns > SPIN_TURNS and self._loop.time() > deadline:
                    raise StuckError(self._unrest())
            else:
                quiet += 1

    def _is_held(self) -> bool:
        return self._node.frontend.busy or self._node.worker.running_activities > self._not_holding

    def _unrest(self) -> str:
        if self._node.worker.running_activities > self._not_holding:
            return (
                f"activities have held the clock for {self._patience:g} real seconds; "
                "one that is to take virtual time awaits env.sleep(...)"
            )
        return f"the event loop has not come to rest for {self._patience:g} real seconds"

    # ----------------------------------------------------------------------------------------------------------- explaining

    def _explained(self, error: StuckError) -> StuckError:
        return self._explainer.explained(error, self.now(), self._clock.now(), self._node.frontend.live_workflows())

    def push_began(self) -> None:
        self._pushing += 1

    def push_ended(self) -> None:
        self._pushing -= 1
        if not self._pushing:
            self._released.set()

    def holding(self, change: int) -> None:
        self._not_holding -= change


_SPINNERS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, list[int]]] = WeakKeyDictionary()
"""How many environments wait for rest in each loop."""


def _finish(done: "asyncio.Future[None]") -> None:
    if not done.done():
        done.set_result(None)


class _Push:
    """While it is entered, only its holder moves the clock."""

    def __init__(self, env: Environment) -> None:
        self._env = env

    async def __aenter__(self) -> None:
        self._env.push_began()

    async def __aexit__(self, *_: object) -> None:
        self._env.push_ended()


class _NotHolding:
    """While it is entered in an activity, that activity does not hold the clock."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._is_activity = activity_context.get() is not None

    def __enter__(self) -> None:
        self._env.holding(-self._is_activity)

    def __exit__(self, *_: object) -> None:
        self._env.holding(self._is_activity)


async def _awaited(future: "asyncio.Future[T]") -> T:
    return await future


class _WaitingFrontend:
    """`ports.Frontend` whose waits let time move; all else goes straight through."""

    def __init__(self, frontend: Frontend, wait: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._frontend = frontend
        self._wait = wait
        self.incarnation: str = getattr(frontend, "incarnation", "")
        self.codec: object = getattr(frontend, "codec", None)

    def send(self, request: AnyRequest, answer: Answer) -> None:
        self._frontend.send(request, answer)

    def call(self, request: AnyRequest) -> "asyncio.Future[Any]":
        answered = self._frontend.call(request)
        if not isinstance(request, UpdateWorkflow):
            return answered
        # It waits for the run's code, and that may begin, or go on, only later. Whoever called owns the task, and ends it with its wait.
        return asyncio.get_running_loop().create_task(self._wait(_awaited(answered)))

    def subscribe(self, queue: str, kind: TaskKind, worker: WorkerIdentity, deliver: Deliver, credits: int) -> Subscription:
        return self._frontend.subscribe(queue, kind, worker, deliver, credits)

    async def result(self, namespace: str, workflow_id: str, run_id: str = "", *, follow: bool = True) -> RunResult:
        found: RunResult = await self._wait(self._frontend.result(namespace, workflow_id, run_id, follow=follow))
        return found

    async def update_result(self, namespace: str, workflow_id: str, run_id: str, update_id: str) -> UpdateResult:
        found: UpdateResult = await self._wait(self._frontend.update_result(namespace, workflow_id, run_id, update_id))
        return found

    async def query(self, query: Query) -> QueryReply:
        found: QueryReply = await self._wait(self._frontend.query(query))
        return found

    def take_query(self, request: TakeQuery, answer: Answer) -> None:
        self._frontend.take_query(request, answer)

    def answer_query(self, answer: QueryAnswer) -> None:
        self._frontend.answer_query(answer)

    async def record(self, namespace: str, workflow_id: str, run_id: str = "") -> Record:
        return await self._frontend.record(namespace, workflow_id, run_id)

    async def describe(self, namespace: str, workflow_id: str, run_id: str = "") -> Description:
        return await self._frontend.describe(namespace, workflow_id, run_id)

    async def runs(self, filter: RunFilter, limit: int, cursor: str = "") -> RunPage:
        return await self._frontend.runs(filter, limit, cursor)

    async def count(self, filter: RunFilter) -> int:
        return await self._frontend.count(filter)

    def now(self) -> int:
        return self._frontend.now()
