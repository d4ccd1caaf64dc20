"""The engine's door: routes every request to the owner of its shard, and answers what can be answered by reading.

Implements `ports.Frontend` for whoever lives in this process; wires end here too.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, get_args

from perdure.core.admission import OPEN_DOOR, AdmissionRules
from perdure.core.description import Description
from perdure.core.errors import NotFound, PerdureError, Unavailable
from perdure.core.limits import LIMITS, Limits
from perdure.core.machine.targets import not_found
from perdure.core.machine.wakes import matters
from perdure.core.overview import Disk
from perdure.core.queries import Query, QueryAnswer, QueryReply, TakeQuery
from perdure.core.replies import RunResult, UpdateResult
from perdure.core.requests import AnyRequest, ClientRequest, ReleaseActivity, Report, ReportPart, ResetWorkflow
from perdure.core.shards import SHARDS, shard_of
from perdure.core.state import WorkflowState
from perdure.core.tasks import Task
from perdure.engine import resetting
from perdure.engine.admission import Admission
from perdure.engine.aside import set_aside
from perdure.engine.committer import Committer
from perdure.engine.describing import describe_run
from perdure.engine.door import Door
from perdure.engine.exits import Exits
from perdure.engine.held import HeldStarts
from perdure.engine.live import LiveWorkflow
from perdure.engine.news import NewsRing
from perdure.engine.offers import Offers
from perdure.engine.overview import EngineOverview, nothing_known
from perdure.engine.owner import Key, ShardOwner, Surroundings
from perdure.engine.parking import Parking
from perdure.engine.parts import ReportParts
from perdure.engine.pending import Passage, PendingWrite, Unwritable
from perdure.engine.queries import Queries
from perdure.engine.relay import Relay, outcome_of_chain
from perdure.engine.roster import Roster
from perdure.engine.sweeper import Sweeper
from perdure.engine.tally import Tally
from perdure.engine.timers import TimerQueue
from perdure.engine.waiting import Ends
from perdure.ports import (
    Answer,
    Broker,
    Chance,
    Clock,
    Deliver,
    Record,
    RunFilter,
    RunPage,
    Store,
    Subscription,
    TaskKind,
    WorkerIdentity,
)

log = logging.getLogger(__name__)

RELOAD_US: Final = 200_000
"""So long after a write that failed (a full disk) the run is taken up again; if it fails again, then once more."""

_CLIENT: Final = frozenset(get_args(ClientRequest))
_shard_of = lru_cache(maxsize=10_000)(shard_of)


class EngineFrontend:
    """All shards of one store, in this process. `incarnation` names this life of the process: claims of another one are dead."""

    def __init__(
        self,
        store: Store,
        broker: Broker,
        clock: Clock,
        chance: Chance,
        *,
        node: str,
        incarnation: str,
        limits: Limits = LIMITS,
        admission: AdmissionRules = OPEN_DOOR,
        version: str = "",
        disk: Callable[[], Disk] = nothing_known,
    ) -> None:
        """`admission` says when new starts are refused. `version` and `disk` are what the overview tells of package and store."""
        self.store = store
        self._broker = broker
        self._clock = clock
        self._node = node
        self.limits = limits
        self._parts = ReportParts(limits)
        self._door = Door(limits)
        self._ends = Ends(self)
        self.incarnation = incarnation
        self.news = NewsRing(clock, limits.news_kept)
        self.tally = Tally(clock, self.news)
        self.roster = Roster(clock, broker, self.news, incarnation)
        self.overview = EngineOverview(self, broker, clock, node=node, version=version, disk=disk)
        self.exits = Exits(broker)
        self.offers = Offers(clock, self)
        self._owners: list[ShardOwner] = []
        self._loading: set[asyncio.Task[None]] = set()
        self._aside: set[Key] = set()
        """Workflow ids whose runs are being set aside."""
        self._stopped = False
        self._leaving = False
        self.committer: Committer
        self.timers: TimerQueue
        self.relay = Relay(clock, chance, self)
        self.sweeper = Sweeper(
            clock,
            broker,
            self.relay,
            self.live_workflows,
            self._bring,
            self._bring_overdue,
            self.offers.make,
            self.offers.handed.holds,
        )
        self.parking = Parking(
            store,
            clock,
            limits.idle_runs_kept,
            self.live_workflows,
            self.owner,
            self._load_and_recover,
            lambda key: key in self.queries.waiting,
        )
        self.queries: Queries
        self._rules = admission
        self.admission: Admission | None = None
        """None also while nothing is limited."""
        self.fault: BaseException | None = None
        self.fenced: asyncio.Event = asyncio.Event()
        """Set when nothing more can be written here."""

    # --------------------------------------------------------------------------------------------------------------- life

    async def start(self) -> None:
        """Acquire every shard and take up what was open."""
        lease = await self.store.acquire(self._node, range(SHARDS))
        self.news.begin()
        self.tally.begin(await self.store.census())
        self.overview.range_ids = lease.range_ids
        self.committer = Committer(self.store, lease, self._fence, self._clock, self.tally)
        self.timers = TimerQueue(self._clock, self._bring, self._matters, int(self.limits.claim_lives_s * 1_000_000))
        if self._rules.is_set:
            self.admission = Admission(self._rules, self._broker, self.tally.began, self.find, lambda: self.relay.depth)
        held = HeldStarts(self._clock)
        self.queries = Queries(
            self._clock,
            self.exits,
            self.committer,
            lambda key: self.owner(key).load(key),
            self._find,
            self.record,
            self.limits.queries_waiting_max,
            self.incarnation,
        )
        around = Surroundings(
            self.store,
            self._clock,
            self.committer,
            self.timers,
            self.exits,
            held,
            self.queries,
            self.incarnation,
            self.limits,
            self._reload,
            self._set_aside,
            self.relay,
            self.tally,
            self.offers.takers,
            self.admission,
        )
        self._owners = [ShardOwner(shard, around) for shard in range(SHARDS)]
        await self.committer.start()
        for key in await self.store.open_workflows(range(SHARDS)):
            await self.owner(key).take_up(key)
        await self.parking.start()
        self.relay.begin()
        await self.sweeper.start()

    async def stop(self) -> None:
        """Take nothing more, write what was taken, stop. Idempotent; a call that was cancelled is completed by the next."""
        self.leave()
        self._stopped = True
        if not self._owners:
            return
        self.timers.stop()
        await self.sweeper.stop()
        await self.parking.stop()
        await self.relay.stop()
        while self._loading:
            await asyncio.wait(self._loading)
        for live in self.live_workflows():
            self.owner((live.state.namespace, live.state.workflow_id)).write_down(live)
        await self.committer.stop()
        self._fail_waiters()
        self.news.close()
        if self.fault is None:
            self.parking.leave()

    def leave(self) -> None:
        """Tell those who watch that the node is about to stop. Idempotent."""
        if self._owners and not self._leaving:
            self._leaving = True
            self.news.say("node.stopping", node=self._node)

    def _fail_waiters(self) -> None:
        self.queries.fail(Unavailable("the engine has stopped; ask again when it is back"))
        for live in self.live_workflows():
            for waiters in live.waiters.values():
                for waiter in waiters:
                    if not waiter.done():
                        waiter.set_exception(Unavailable("the engine has stopped; the run goes on when it is back"))
            if live.updates is not None:
                updates, live.updates = live.updates, None
                updates.fail(
                    Unavailable("the engine has stopped; send the update again when it is back, under the same update id")
                )

    def _fence(self, error: BaseException) -> None:
        self.fault = error
        self.news.say("node.failed", node=self._node)
        self.fenced.set()
        self.timers.stop()
        self.relay.halt()
        self._fail_waiters()

    def _reload(self, key: Key) -> None:
        if self.is_over:
            return
        self._clock.call_at(self._clock.now() + RELOAD_US, lambda: self._recover_again(key))

    def _recover_again(self, key: Key) -> None:
        if self.is_over:
            return
        task = asyncio.get_running_loop().create_task(self._load_and_recover(key))
        self._loading.add(task)
        task.add_done_callback(self._loading.discard)

    async def _load_and_recover(self, key: Key) -> None:
        try:
            await self.owner(key).take_up(key)
        except Exception:
            log.exception("loading workflow %r failed", key[1], extra={"workflow_id": key[1]})

    def _set_aside(self, pending: PendingWrite, why: Unwritable) -> None:
        key = (pending.request.namespace, pending.request.workflow_id)
        if key in self._aside or self._stopped or self.fault is not None:
            for answer in (pending.first.answer if pending.first is not None else None, pending.answer):
                if answer is not None:
                    answer(None, why)
            return
        self._aside.add(key)
        task = asyncio.get_running_loop().create_task(set_aside(self.owner(key), pending, why), name="perdure set aside")
        self._loading.add(task)
        task.add_done_callback(self._loading.discard)
        task.add_done_callback(lambda _: self._aside.discard(key))

    def _bring_overdue(self, target: AnyRequest | Task) -> None:
        self.timers.bring_overdue(target)

    def _matters(self, target: AnyRequest | Task) -> bool:
        key = (target.namespace, target.workflow_id)
        live = self.owner(key).open.get(key)
        return live is not None and matters(live.state, target)

    @property
    def is_over(self) -> bool:
        """True when nothing more is going to be written here."""
        return self._stopped or self.fault is not None

    @property
    def busy(self) -> bool:
        """True while a request is being loaded or a write is on its way."""
        return bool(self._loading) or self.committer.busy or self.relay.busy

    @property
    def owners(self) -> Sequence[ShardOwner]:
        """One for each shard; none before the start."""
        return self._owners

    @property
    def loading(self) -> int:
        """Requests whose workflow id is being loaded."""
        return len(self._loading)

    def find(self, namespace: str, workflow_id: str) -> LiveWorkflow | None:
        """A workflow id as it is in memory now; None when it is not."""
        return self._find((namespace, workflow_id))

    def _find(self, key: Key) -> LiveWorkflow | None:
        return self.owner(key).find(key)

    def state_of(self, key: Key) -> WorkflowState | None:
        """See `relay.Ways`."""
        live = self.owner(key).find(key)
        return live.state if live is not None else None

    def is_at_hand(self, key: Key) -> bool:
        """See `relay.Ways`."""
        return self.owner(key).find(key) is not None or not self.store.may_hold(*key)

    def goes_on(self, key: Key) -> bool:
        """See `relay.Ways`."""
        live = self.owner(key).find(key)
        return live is not None and (bool(live.uncommitted) or (live.state.run is not None and live.state.run.is_open))

    async def load(self, key: Key) -> object:
        """See `relay.Ways`."""
        return await self.owner(key).load(key)

    def bring(self, request: AnyRequest, answer: Answer) -> None:
        """See `relay.Ways`."""
        if self.is_over:
            answer(None, Unavailable("the engine has stopped"))
        else:
            self.route(request, answer)

    async def outcome(self, key: Key, run_id: str) -> RunResult:
        """See `relay.Ways`."""
        return await outcome_of_chain(self.store, key, run_id)

    def live_workflows(self) -> Iterator[LiveWorkflow]:
        for owner in self._owners:
            yield from owner.live_workflows()

    # ------------------------------------------------------------------------------------------------------------ requests

    def owner(self, key: Key) -> ShardOwner:
        if not self._owners:
            self.check_running()
        return self._owners[_shard_of(*key)]

    def call(self, request: AnyRequest) -> "asyncio.Future[Any]":
        """Bring a request to its owner; see `ports.Frontend.call`."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def answer(reply: Any, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(reply)
            else:
                future.set_exception(error)

        self.send(request, answer)
        return future

    def send(self, request: AnyRequest, answer: Answer) -> None:
        """Bring a request to its owner; see `ports.Frontend.send`."""
        kind = type(request)
        try:
            if self.is_over or not self._owners:
                self.check_running()
            if kind in _CLIENT:
                self._door.check(request)
                if isinstance(request, ResetWorkflow):
                    self._spawn(self._reset(request, answer))
                    return
            elif isinstance(request, Report) and request.parts:
                request = self._parts.whole(request)
            elif isinstance(request, ReportPart):
                answer(self._parts.take(request), None)
                return
            elif isinstance(request, ReleaseActivity) and request.unknown:
                self.offers.takers.cannot(request.worker, request.unknown)
        except PerdureError as error:
            answer(None, error)
            return
        self.route(request, answer)

    def _check_open(self) -> None:
        """What is kept can be read, also when nothing more can be written, until the engine stops."""
        if not self._owners and not self._stopped:
            raise Unavailable("the engine has not started: enter the node first (async with perdure.embedded(...) as app)")
        if self._stopped:
            raise Unavailable(f"the engine has stopped{f': {self.fault}' if self.fault else ''}")

    def check_running(self) -> None:
        self._check_open()
        if self.fault is not None:
            raise Unavailable(f"the engine has stopped: {self.fault}")

    def route(self, request: AnyRequest, answer: Answer | None) -> None:
        """To the owner of its shard, past the door: for requests of the engine itself, and those that have passed it."""
        key = (request.namespace, request.workflow_id)
        owner = self._owners[_shard_of(*key)]
        live = owner.open.get(key) or owner.find(key)
        if live is None and not self.store.may_hold(*key):
            live = LiveWorkflow(WorkflowState(namespace=key[0], workflow_id=key[1], limits=self.limits), None)
        if live is not None:
            owner.submit(live, request, answer)
            return
        self._spawn(self._load_and_submit(owner, key, request, answer))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._loading.add(task)
        task.add_done_callback(self._loading.discard)

    async def _reset(self, request: ResetWorkflow, answer: Answer) -> None:
        owner = self.owner((request.namespace, request.workflow_id))
        try:
            await resetting.bring(owner, self.store, self.settled, request, answer)
        except Exception as error:
            if not isinstance(error, PerdureError):
                log.exception("resetting workflow %r failed", request.workflow_id, extra={"workflow_id": request.workflow_id})
            answer(None, error)

    async def _load_and_submit(self, owner: ShardOwner, key: Key, request: AnyRequest, answer: Answer | None) -> None:
        try:
            live = await owner.load(key)
        except Exception as error:
            log.exception("loading workflow %r failed", key[1], extra={"workflow_id": key[1]})
            if answer is not None:
                answer(None, error)
            return
        owner.submit(live, request, answer)

    def _bring(self, target: AnyRequest | Task) -> None:
        """A wake has come due."""
        if self.is_over:
            return
        if isinstance(target, Task):
            self.exits.publish(target)
        else:
            self.route(target, None)

    def why_nobody(self, state: WorkflowState) -> tuple[str, ...]:
        """See `waiting.House`."""
        return self.offers.why_nobody(state)

    def subscribe(self, queue: str, kind: TaskKind, worker: WorkerIdentity, deliver: Deliver, credits: int) -> Subscription:
        self.exits.attach(worker.worker, deliver)
        if worker.incarnation != self.incarnation:
            deliver = self.offers.handed.watched(worker.worker, deliver)
        subscription = self.offers.takers.join(
            worker, queue, kind, self._broker.subscribe(queue, kind, worker.worker, deliver, credits)
        )
        if kind == "workflow":
            self.offers.came(queue)
            self.queries.served(queue)
        return self.roster.join(worker, queue, kind, credits, subscription)

    # -------------------------------------------------------------------------------------------------------------- reading

    async def result(self, namespace: str, workflow_id: str, run_id: str = "", *, follow: bool = True) -> RunResult:
        return await self._ends.of_run(namespace, workflow_id, run_id, follow=follow)

    async def update_result(self, namespace: str, workflow_id: str, run_id: str, update_id: str) -> UpdateResult:
        return await self._ends.of_update(namespace, workflow_id, run_id, update_id)

    async def settled(self) -> None:
        """Everything queued so far is durable."""
        passed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        self.committer.append(Passage(passed))
        await passed

    async def query(self, query: Query) -> QueryReply:
        """See `ports.Frontend.query`."""
        self.check_running()
        self._door.check_query(query)
        return await self.queries.ask(query)

    def take_query(self, request: TakeQuery, answer: Answer) -> None:
        """See `ports.Frontend.take_query`."""
        self.queries.take(request, answer)

    def answer_query(self, answer: QueryAnswer) -> None:
        """See `ports.Frontend.answer_query`."""
        if not self._stopped and self.fault is None:
            self.queries.answer(answer)

    async def record(self, namespace: str, workflow_id: str, run_id: str = "") -> Record:
        self._check_open()
        record = await self.store.record(namespace, workflow_id, run_id)
        if record is None:
            raise NotFound(not_found(WorkflowState(namespace=namespace, workflow_id=workflow_id), run_id).message)
        return record

    async def describe(self, namespace: str, workflow_id: str, run_id: str = "") -> Description:
        return await describe_run(self, namespace, workflow_id, run_id, self._clock.now())

    def is_served(self, queue: str, kind: TaskKind) -> bool:
        """True when somebody takes tasks of a queue."""
        return self._broker.served(queue, kind)

    async def runs(self, filter: RunFilter, limit: int, cursor: str = "") -> RunPage:
        self._check_open()
        return await self.store.runs(filter, limit, cursor)

    async def count(self, filter: RunFilter) -> int:
        self._check_open()
        return await self.store.count(filter)

    def now(self) -> int:
        return self._clock.now()
