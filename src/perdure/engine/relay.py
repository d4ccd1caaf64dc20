"""The relay: carries messages from run to run, each until it is answered, those to one workflow id in the order they were sent.

It promises nothing by itself. What must be on its way is read off state (`core.machine.messages`): sent after the commit that calls for
it, again at start-up, and by the sweeper when it is with nobody. So what is held here is never more than what runs and outboxes hold.
"""

import asyncio
import logging
from collections import Counter, deque
from functools import partial
from typing import Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from perdure.core.deliveries import Delivery
from perdure.core.errors import NotFound, PerdureError, ResourceExhausted, Unavailable
from perdure.core.events import Started
from perdure.core.failure import Failure
from perdure.core.machine.messages import deliveries_of, ended, heard, is_wanted
from perdure.core.payload import ABSENT
from perdure.core.replies import RunResult, RunStarted
from perdure.core.requests import AnyRequest, MessagesDelivered, StartWorkflow
from perdure.core.state import WorkflowState, is_closing
from perdure.ports import Answer, Chance, Clock, Store, Wake

log = logging.getLogger(__name__)

AGAIN_US: Final = 200_000
"""Pause after a target could not take a message; doubled each time until it can, up to `AGAIN_MAX_US`."""
AGAIN_MAX_US: Final = 10_000_000

Key = tuple[str, str]


class Ways(Protocol):
    """What the relay needs of the engine."""

    def state_of(self, key: Key) -> WorkflowState | None:
        """The workflow id as it is in memory; None when it is not."""
        ...

    def is_at_hand(self, key: Key) -> bool:
        """A request to it is decided at once: it is in memory, or certain not to be anywhere."""
        ...

    def goes_on(self, key: Key) -> bool:
        """It has an open run, or what ended it is being written."""
        ...

    async def load(self, key: Key) -> object: ...

    def bring(self, request: AnyRequest, answer: Answer) -> None: ...

    async def outcome(self, key: Key, run_id: str) -> RunResult:
        """How the chain of a run ended that is not its workflow id's last one."""
        ...


class _Lane:
    """Messages to one workflow id. `flying` are brought and not answered; `halted` says that no more may be brought now."""

    __slots__ = ("failed", "flying", "halted", "key", "pause", "pumping", "serial", "waiting", "wake")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.waiting: deque[tuple[int, Delivery]] = deque()
        self.failed: list[tuple[int, Delivery]] = []
        self.flying = 0
        self.halted = False
        self.pumping = False
        self.pause = AGAIN_US
        self.serial = 0
        self.wake: Wake | None = None


class Relay:
    """One for all shards of a process. Nothing is brought before `begin`."""

    def __init__(self, clock: Clock, chance: Chance, ways: Ways) -> None:
        self._clock = clock
        self._chance = chance
        self._ways = ways
        self._lanes: dict[Key, _Lane] = {}
        self._under_way: Counter[str] = Counter()
        """By name of the message: also while its answer is on its way back."""
        self._delivered: dict[Key, list[Delivery]] = {}
        """By source: answered, and to be noted in a moment."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._running = False
        self._stopped = False

    def begin(self) -> None:
        """Bring what was sent so far; called when every open run has been taken up."""
        self._running = True
        for lane in list(self._lanes.values()):
            self._pump(lane)

    def halt(self) -> None:
        """Bring nothing more; what was under way is under way again after the next start."""
        self._stopped = True
        for lane in self._lanes.values():
            if lane.wake is not None:
                lane.wake.cancel()

    async def stop(self) -> None:
        """`halt`, and wait for what is being loaded. Idempotent."""
        self.halt()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def depth(self) -> int:
        """Messages that are on their way."""
        return len(self._under_way)

    @property
    def busy(self) -> bool:
        """True while anything is under way that time alone would not bring forward."""
        if self._tasks or self._delivered:
            return True
        return any(lane.flying or (lane.waiting and not lane.halted) for lane in self._lanes.values())

    def send(self, delivery: Delivery) -> None:
        """Put a message on its way, unless it is already."""
        if self._stopped:
            return
        if delivery.hears and self._under_way[delivery.name]:
            return
        self._under_way[delivery.name] += 1
        key = (delivery.request.namespace, delivery.request.workflow_id)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane(key)
        lane.serial += 1
        lane.waiting.append((lane.serial, delivery))
        self._pump(lane)

    def missing(self, state: WorkflowState) -> list[Delivery]:
        """What this workflow id owes that is with nobody; and children whose end it should have heard of."""
        owed = {delivery.name: delivery for delivery in deliveries_of(state)}
        for delivery in deliveries_of(state, asking=True):
            if delivery.is_start and not self._ways.goes_on((state.namespace, delivery.request.workflow_id)):
                owed.setdefault(delivery.name, delivery)
        return [delivery for delivery in owed.values() if not self._under_way[delivery.name]]

    # ------------------------------------------------------------------------------------------------------------- bringing

    def _pump(self, lane: _Lane) -> None:
        if lane.pumping or not self._running:
            return
        lane.pumping = True
        try:
            while lane.waiting and not lane.halted and not self._stopped:
                if not self._ways.is_at_hand(lane.key):
                    lane.halted = True
                    self._spawn(self._fetch(lane))
                    return
                serial, delivery = lane.waiting.popleft()
                if self._is_wanted(delivery):
                    lane.flying += 1
                    self._ways.bring(self._filled(delivery.request), partial(self._answered, lane, serial, delivery))
                else:
                    self._over(delivery)
        finally:
            lane.pumping = False
        self._settle(lane)

    async def _fetch(self, lane: _Lane) -> None:
        """Load the target first: messages that each load it themselves could overtake one another."""
        try:
            await self._ways.load(lane.key)
        except Exception:
            log.exception(
                "a message to workflow %r waits: it could not be loaded", lane.key[1], extra={"workflow_id": lane.key[1]}
            )
            self._pause(lane)
            return
        lane.halted = False
        self._pump(lane)

    def _is_wanted(self, delivery: Delivery) -> bool:
        if not delivery.is_start:
            return True
        state = self._ways.state_of((delivery.request.namespace, delivery.source))
        return state is None or is_wanted(state, delivery)

    def _filled(self, request: AnyRequest) -> AnyRequest:
        if isinstance(request, StartWorkflow):
            return replace(request, run_id=self._chance.run_id(), seed=self._chance.seed())
        return request

    def _answered(self, lane: _Lane, serial: int, delivery: Delivery, reply: Any, error: BaseException | None) -> None:
        lane.flying -= 1
        if self._stopped:
            return
        if error is None or (isinstance(error, PerdureError) and not isinstance(error, (Unavailable, ResourceExhausted))):
            lane.pause = AGAIN_US
            self._tell(delivery, reply, error)
        else:
            lane.failed.append((serial, delivery))
            lane.halted = True
        if lane.halted:
            if not lane.flying and lane.failed and lane.wake is None:
                self._pause(lane)
        else:
            self._pump(lane)

    def _pause(self, lane: _Lane) -> None:
        """The target could take nothing: bring it all again a little later, in order."""
        lane.waiting.extendleft(sorted(lane.failed, key=lambda entry: -entry[0]))
        lane.failed = []
        lane.wake = self._clock.call_at(self._clock.now() + lane.pause, partial(self._resume, lane))
        lane.pause = min(2 * lane.pause, AGAIN_MAX_US)

    def _resume(self, lane: _Lane) -> None:
        lane.wake = None
        lane.halted = False
        self._pump(lane)

    def _settle(self, lane: _Lane) -> None:
        if not lane.flying and not lane.waiting and not lane.halted:
            self._lanes.pop(lane.key, None)

    # -------------------------------------------------------------------------------------------------------------- answers

    def _tell(self, delivery: Delivery, reply: Any, error: PerdureError | None) -> None:
        """Let the source hear of an answer."""
        if isinstance(reply, RunStarted) and reply.superseded:
            self._spawn(self._look_up(delivery, reply))
            return
        if delivery.hears == "message":
            self._note_delivered(delivery)
            return
        told = heard(delivery, reply, None if error is None else failure_of(error))
        if told is None and error is not None:
            target = delivery.request.workflow_id
            log.error("workflow %r could not be told of %s: %s", target, delivery.key, error, extra={"workflow_id": target})
        if told is not None:
            self.send(Delivery(key=delivery.key, request=told, asker=delivery.asker))
        self._over(delivery)

    def _note_delivered(self, delivery: Delivery) -> None:
        """Those answered in one group of commits are noted together."""
        if not self._delivered:
            asyncio.get_running_loop().call_soon(self._tell_delivered)
        self._delivered.setdefault((delivery.request.namespace, delivery.source), []).append(delivery)

    def _tell_delivered(self) -> None:
        delivered, self._delivered = self._delivered, {}
        for (namespace, source), deliveries in delivered.items():
            keys = tuple(delivery.key for delivery in deliveries)
            told = MessagesDelivered(namespace=namespace, workflow_id=source, request_ids=keys)
            self.send(Delivery(key=keys[0], request=told))
            for delivery in deliveries:
                self._over(delivery)

    async def _look_up(self, delivery: Delivery, reply: RunStarted) -> None:
        """The child's workflow id is in use for something else: how the child ended is in the store."""
        namespace, source = delivery.request.namespace, delivery.source
        try:
            reply.outcome = await self._ways.outcome((namespace, delivery.request.workflow_id), reply.run_id)
        except Exception:
            child = delivery.request.workflow_id
            log.exception("how child %r of workflow %r ended cannot be read", child, source, extra={"workflow_id": source})
            self._over(delivery)
            return
        told = heard(delivery, reply, None)
        assert told is not None
        self.send(Delivery(key=delivery.key, request=told, asker=delivery.asker))
        self._over(delivery)

    def _over(self, delivery: Delivery) -> None:
        left = self._under_way[delivery.name] - 1
        if left:
            self._under_way[delivery.name] = left
        else:
            del self._under_way[delivery.name]

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work, name="perdure relay")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def failure_of(error: PerdureError) -> Failure:
    """A refusal as data: what the code that asked will see raised."""
    kind = type(error)
    fields = {name: value for name, value in vars(error).items() if isinstance(value, (str, int, float))}
    return Failure(
        type=kind.__name__,
        message=str(error),
        module=kind.__module__,
        qualname=kind.__qualname__,
        args=msgspec.Raw(msgspec.json.encode([str(error)])),
        fields=msgspec.Raw(msgspec.json.encode(fields)) if fields else ABSENT,
    )


async def outcome_of_chain(store: Store, key: Key, run_id: str) -> RunResult:
    """How the chain ended that begins with this run. A run of another start may have followed its last one, when an older run was reset.

    Raises `NotFound` when it is not kept any more, or has not ended.
    """
    found: RunResult | None = None
    started: Started | None = None
    while run_id:
        record = await store.record(*key, run_id)
        if record is None or not record.events or not is_closing(record.events[-1]):
            raise NotFound(f"how run {run_id} of workflow {key[1]!r} ended is not kept")
        first = record.events[0]
        assert isinstance(first, Started)
        if started is not None and first.request_id != started.request_id:
            break
        started = first
        found = ended(first, record.events[-1])
        run_id = found.next_run_id
    assert found is not None
    return found
