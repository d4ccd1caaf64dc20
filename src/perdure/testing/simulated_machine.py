"""One simulated machine: a disk, and on it a node with its workers, which can be killed between any two callbacks and booted again.

Everything the node is made of is the real thing; stand-ins are its clock, disk, broker and chance. `Door` is how clients reach it whatever
becomes of it, `Wire` how a worker in another process does: late, out of order, sometimes not at all.
"""

import random
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from perdure.core.description import Description
from perdure.core.errors import Unavailable
from perdure.core.queries import Query, QueryAnswer, QueryReply, TakeQuery
from perdure.core.replies import RunResult, UpdateResult
from perdure.core.requests import AnyRequest, ClaimActivity, ClaimWorkflow, Report
from perdure.core.tasks import CancelNotice, Task
from perdure.node import Node
from perdure.ports import (
    Answer,
    Deliver,
    Record,
    RunFilter,
    RunPage,
    Subscription,
    TaskKind,
    WorkerIdentity,
)
from perdure.sdk.registry import Registry
from perdure.store.journal.store import JournalStore
from perdure.testing.chance import SeededChance
from perdure.testing.disk import SimulatedFiles
from perdure.testing.seeded_loop import WORLD, LoopClock, SeededLoop
from perdure.testing.unkind_broker import UnkindBroker, Unkindness
from perdure.testing.unkind_frontend import UnkindFrontend
from perdure.testing.workers_frontend import WorkersFrontend
from perdure.worker.worker import TaskWorker

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

QUEUE: Final = "default"
Things = Callable[[int], Sequence[object]]
"""What a build registers, by its number."""


class Setup(Struct, frozen=True, kw_only=True):
    """How the machine is made. `wires`: workers in processes of their own; `lives_for`: microseconds their claims live."""

    unkindness: Unkindness = Unkindness()
    max_cached_runs: int = 1000
    max_activities: int = 20
    fuse: bool = True
    wires: int = 0
    far: int = 0
    """Workers in processes of their own that outlive the node."""
    lives_for: int = 5_000_000
    skew_us: int = 0
    wire_us: int = 3_000
    lose_answers: float = 0.0
    segment_bytes_max: int = 1 << 20
    parks_at_once: bool = False
    """Runs that only wait are let go of from memory all the time."""
    room_bytes: int = 4_096
    sync_us: tuple[int, int] = (0, 0)


class Machine:
    """Boot, kill, deploy. `generation` counts boots; `story` says what was done to it."""

    def __init__(self, loop: SeededLoop, seed: str, setup: Setup, things: Things) -> None:
        self.loop = loop
        self.clock = LoopClock(loop)
        self.chance = random.Random(f"{seed} machine")
        self.setup = setup
        self.disk = SimulatedFiles(random.Random(f"{seed} disk"), self.clock, sync_us=setup.sync_us)
        self.node: Node | None = None
        self.generation = 0
        self.build = 1
        self.is_kind = False
        self.story: list[str] = []
        self.repaired = 0
        """Tasks and wakes the sweepers of all nodes had to bring again."""
        self._seed = seed
        self._things = things
        self._broker: UnkindBroker | None = None
        self._processes: list[str] = []
        self._workers: list[TaskWorker] = []
        self._wires: list[Wire] = []
        self._far: list[tuple[UnkindFrontend, TaskWorker]] = []
        self._far_made = 0
        self._outside: dict[asyncio.Future[Any], None] = {}
        """Futures the world awaits from what runs here."""

    @property
    def process(self) -> str:
        return f"node {self.generation}"

    @property
    def wired(self) -> list[str]:
        """Names of the worker processes that live now."""
        return [wire.process for wire in self._wires] + [frontend.process for frontend, _ in self._far]

    def tell(self, what: str) -> None:
        self.story.append(f"{self.loop.time():12.6f} turn {self.loop.turns}: {what}")

    # ------------------------------------------------------------------------------------------------------------ life, death

    async def boot(self) -> bool:
        """Start a node of the current build on the disk; false when that failed (it is then down)."""
        self.generation += 1
        self._processes = [self.process]
        chance = SeededChance(self.chance.getrandbits(60), self.clock)
        self._broker = UnkindBroker(random.Random(self.chance.getrandbits(60)), self.clock, self.setup.unkindness)
        self._broker.is_kind = self.is_kind
        node = Node(
            JournalStore(
                self.disk, self.clock, chance, segment_bytes_max=self.setup.segment_bytes_max, room_bytes=self.setup.room_bytes
            ),
            self._broker,
            self.clock,
            chance,
            queues=(QUEUE,),
            build_id=f"build-{self.build}",
            max_cached_runs=self.setup.max_cached_runs,
            max_activities=self.setup.max_activities,
            grace=0.0,
            blocked_after=0.0,
        )
        if self.setup.parks_at_once:
            node.frontend.parking.hurry(20_000)
        node.worker.decider.fuse = self.setup.fuse
        node.register(*self._things(self.build))
        self.tell(f"boot of {self.process}, build {self.build}")
        try:
            await self.run_inside(self.process, node.start())
        except Exception as error:  # noqa: BLE001 – a node that cannot start is a machine that is down
            self.tell(f"boot failed: {error!r}")
            self.kill()
            return False
        if not self.loop.lives(self.process):  # the power was cut when it had just come up
            return False
        self.node = node
        self._workers = [node.worker]
        for number in range(self.setup.wires):
            self._plug(node, number)
        while len(self._far) < self.setup.far:
            self._send_far()
        return True

    def _send_far(self) -> None:
        """Start a worker that the node's end is not the end of."""
        self._far_made += 1
        process = f"far worker {self._far_made}"
        frontend = UnkindFrontend(self, process, random.Random(self.chance.getrandbits(60)))
        worker = self._made(frontend, self.build)
        self._far.append((frontend, worker))
        self.tell(f"{process} begins, build {self.build}")
        with self.loop.inside(process):
            frontend.begin()
            worker.begin()

    def vanish(self) -> None:
        """A far worker dies, and another takes its place, of the newest build."""
        if self._far:
            frontend, worker = self._far.pop(self.chance.randrange(len(self._far)))
            self.tell(f"{frontend.process} is killed")
            self.loop.kill(frontend.process)
            worker.let_go()
            frontend.vanish()
            self._send_far()

    def cut(self) -> None:
        """The connections of all far workers break."""
        for frontend, _ in self._far:
            self.tell(f"{frontend.process} is cut off")
            frontend.cut()

    def end(self) -> None:
        """The far workers too are no more."""
        far, self._far = self._far, []
        for frontend, worker in far:
            self.loop.kill(frontend.process)
            worker.let_go()

    def _plug(self, node: Node, number: int) -> None:
        process = f"worker {self.generation}.{number}"
        self._processes.append(process)
        wire = Wire(self, node, process, random.Random(self.chance.getrandbits(60)))
        worker = self._made(wire, self.build if number % 2 else max(1, self.build - 1))
        self._wires.append(wire)
        self._workers.append(worker)
        with self.loop.inside(process):
            worker.begin()

    def _made(self, frontend: "Wire | UnkindFrontend", build: int) -> TaskWorker:
        registry = Registry(f"build-{build}")
        registry.register(*self._things(build))
        worker = TaskWorker(
            frontend,
            SeededChance(self.chance.getrandbits(60), self.clock),
            registry,
            (QUEUE,),
            max_activities=self.setup.max_activities,
            max_cached_runs=self.setup.max_cached_runs,
            blocked_after=0.0,
        )
        worker.decider.fuse = self.setup.fuse
        return worker

    def kill(self) -> None:
        """Cut the power: nothing of the node or its workers runs again, the disk keeps what was synced."""
        self.tell(f"power cut for {self.process}")
        node, self.node = self.node, None
        for process in self._processes:
            self.loop.kill(process)
        self._processes = []
        for worker in self._workers:
            worker.let_go()
        if node is not None:
            self.repaired += node.frontend.sweeper.repaired
        self._workers, self._wires = [], []
        for frontend, _ in self._far:
            frontend.lost()
        self.disk.crash()
        outside, self._outside = self._outside, {}
        for future in outside:
            if not future.done():
                future.set_exception(Unavailable("the machine went down"))

    async def stop(self) -> None:
        """Stop the node in good order, then take what is left of its processes away."""
        node = self.node
        if node is None:
            return
        self.tell(f"orderly stop of {self.process}")
        try:
            await self.run_inside(self.process, node.stop())
        except Exception as error:  # noqa: BLE001 – then it is down all the same
            self.tell(f"stopping failed: {error!r}")
        if self.node is node:
            self.kill()

    def heal(self) -> None:
        """No faults any more, in what runs now and in what is booted later."""
        self.is_kind = True
        self.disk.disarm()
        self.setup = replace(self.setup, unkindness=Unkindness(), lose_answers=0.0)
        if self._broker is not None:
            self._broker.is_kind = True
        for process in self.wired:
            self.loop.thaw(process)

    def freeze(self, process: str) -> None:
        self.tell(f"{process} is frozen")
        self.loop.freeze(process)

    def thaw(self, process: str) -> None:
        self.tell(f"{process} is thawed")
        self.loop.thaw(process)

    # ------------------------------------------------------------------------------------------------------------- crossing

    async def run_inside(self, process: str, work: Coroutine[Any, Any, T]) -> T:
        """Do something in a process of this machine; `Unavailable` when that dies first."""
        outer: asyncio.Future[T] = self.loop.create_future()
        self._outside[outer] = None
        with self.loop.inside(process):
            task = self.loop.create_task(_carry(work, self.outward(outer)))
        try:
            return await outer
        finally:
            self._outside.pop(outer, None)
            if not task.done() and self.loop.lives(process):
                with self.loop.inside(process):
                    task.cancel()

    def outward(self, outer: "asyncio.Future[Any]") -> Answer:
        """An answer that a process of this machine gives to the world."""

        def answer(reply: Any, error: BaseException | None) -> None:
            self._outside.pop(outer, None)
            if outer.done():
                return
            with self.loop.inside(WORLD):
                if error is None:
                    outer.set_result(reply)
                else:
                    outer.set_exception(error)

        return answer

    def expect(self) -> "asyncio.Future[Any]":
        """A future of the world that fails when the machine goes down."""
        outer: asyncio.Future[Any] = self.loop.create_future()
        self._outside[outer] = None
        return outer


async def _carry(work: Coroutine[Any, Any, Any], answer: Answer) -> None:
    try:
        reply = await work
    except Exception as error:  # noqa: BLE001 – it is carried to whoever waits
        answer(None, error)
    else:
        answer(reply, None)


class Door:
    """`ports.Frontend` for clients in the world: always there, `Unavailable` while the machine is down. It may lose a request on the way
    in, or its answer on the way out, as any network may."""

    def __init__(self, machine: Machine, chance: random.Random) -> None:
        self._machine = machine
        self._chance = chance

    def _node(self) -> Node:
        node = self._machine.node
        if node is None:
            raise Unavailable("the machine is down")
        return node

    def send(self, request: AnyRequest, answer: Answer) -> None:
        machine = self._machine
        node = self._node()
        lose = machine.setup.lose_answers
        if lose and self._chance.random() < lose:
            raise Unavailable("the request was lost")
        if lose and self._chance.random() < lose:
            with machine.loop.inside(machine.process):
                node.frontend.send(request, _nobody)
            raise Unavailable("the answer was lost")
        with machine.loop.inside(machine.process):
            node.frontend.send(request, answer)

    def call(self, request: AnyRequest) -> "asyncio.Future[Any]":
        outer = self._machine.expect()
        answer = self._machine.outward(outer)
        try:
            self.send(request, answer)
        except Unavailable as error:
            answer(None, error)
        return outer

    def subscribe(self, queue: str, kind: TaskKind, worker: WorkerIdentity, deliver: Deliver, credits: int) -> Subscription:
        raise NotImplementedError("workers come by a Wire")

    async def result(self, namespace: str, workflow_id: str, run_id: str = "", *, follow: bool = True) -> RunResult:
        return await self._read(self._node().frontend.result(namespace, workflow_id, run_id, follow=follow))

    async def update_result(self, namespace: str, workflow_id: str, run_id: str, update_id: str) -> UpdateResult:
        return await self._read(self._node().frontend.update_result(namespace, workflow_id, run_id, update_id))

    async def query(self, query: Query) -> QueryReply:
        return await self._read(self._node().frontend.query(query))

    def take_query(self, request: TakeQuery, answer: Answer) -> None:
        raise NotImplementedError("workers come by a Wire")

    def answer_query(self, answer: QueryAnswer) -> None:
        raise NotImplementedError("workers come by a Wire")

    async def record(self, namespace: str, workflow_id: str, run_id: str = "") -> Record:
        return await self._read(self._node().frontend.record(namespace, workflow_id, run_id))

    async def describe(self, namespace: str, workflow_id: str, run_id: str = "") -> Description:
        return await self._read(self._node().frontend.describe(namespace, workflow_id, run_id))

    async def runs(self, filter: RunFilter, limit: int, cursor: str = "") -> RunPage:
        return await self._read(self._node().frontend.runs(filter, limit, cursor))

    async def count(self, filter: RunFilter) -> int:
        return await self._read(self._node().frontend.count(filter))

    async def _read(self, work: Coroutine[Any, Any, T]) -> T:
        return await self._machine.run_inside(self._machine.process, work)

    def now(self) -> int:
        return self._machine.clock.now()


def _nobody(_reply: Any, _error: BaseException | None) -> None:
    """Whoever asked has stopped listening."""


class Wire(WorkersFrontend):
    """`ports.Frontend` for a worker in a process of its own: every crossing takes time, and the engine's time is only known roughly."""

    def __init__(self, machine: Machine, node: Node, process: str, chance: random.Random) -> None:
        self.process = process
        self._machine = machine
        self._loop = machine.loop
        self._node = node
        self._home = machine.process
        self._chance = chance
        self._skew = chance.randint(-machine.setup.skew_us, machine.setup.skew_us)

    def _cross(self, to: str, what: Callable[..., None], *args: Any) -> None:
        with self._loop.inside(to):
            self._loop.at(self._loop.now + self._chance.randint(1, self._machine.setup.wire_us), what, *args)

    def send(self, request: AnyRequest, answer: Answer) -> None:
        if isinstance(request, (ClaimWorkflow, ClaimActivity, Report)):
            request = replace(request, lives_for=self._machine.setup.lives_for)
        lose = self._machine.setup.lose_answers

        def back(reply: Any, error: BaseException | None) -> None:
            if lose and self._chance.random() < lose:
                reply, error = None, Unavailable("the answer was lost")
            self._cross(self.process, answer, reply, error)

        self._cross(self._home, self._node.frontend.send, request, back)

    def subscribe(self, queue: str, kind: TaskKind, worker: WorkerIdentity, deliver: Deliver, credits: int) -> Subscription:
        def across(item: Task | CancelNotice) -> None:
            self._cross(self.process, deliver, item)

        with self._loop.inside(self._home):
            return _Plugged(self, self._node.frontend.subscribe(queue, kind, worker, across, credits))

    def inward(self, what: Callable[..., None], *args: Any) -> None:
        self._cross(self._home, what, *args)

    def take_query(self, request: TakeQuery, answer: Answer) -> None:
        def back(reply: Any, error: BaseException | None) -> None:
            self._cross(self.process, answer, reply, error)

        self._cross(self._home, self._node.frontend.take_query, request, back)

    def answer_query(self, answer: QueryAnswer) -> None:
        self._cross(self._home, self._node.frontend.answer_query, answer)

    def now(self) -> int:
        return self._loop.now + self._skew


class _Plugged:
    """A subscription at the far end of a wire."""

    def __init__(self, wire: Wire, subscription: Subscription) -> None:
        self._wire = wire
        self._subscription = subscription

    def grant(self, credits: int) -> None:
        self._wire.inward(self._subscription.grant, credits)

    def cancel(self) -> None:
        self._wire.inward(self._subscription.cancel)

    def give_back(self, task: Task) -> None:
        self._wire.inward(self._subscription.give_back, task)

    def lose(self) -> None:
        self._wire.inward(self._subscription.lose)
