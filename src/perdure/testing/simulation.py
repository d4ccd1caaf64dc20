"""A whole node under one seed: real core, engine, worker, replay and journal; virtual time, a bad disk, an unkind broker, sudden death.

The seed decides everything: the workloads, the faults and their instants, the order in which callbacks run. So a failure is seen again
with `perdure sim --seed N`, in another process and under another PYTHONHASHSEED. The digest is over the bytes on the disk: every
transition that was committed, in order.
"""

import asyncio
import hashlib
import logging
import random
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TextIO, TypeVar

from msgspec import Struct

from perdure.core.description import describe
from perdure.core.errors import ResourceExhausted, Unavailable
from perdure.sdk import tracebacks
from perdure.sdk.client import Client
from perdure.testing.chance import SeededChance
from perdure.testing.seeded_loop import SeededLoop
from perdure.testing.simulated_machine import Door, Machine, Setup
from perdure.testing.simulation_checks import Acknowledged, BrokenWorldError, check_world, told, workflow_ids
from perdure.testing.unkind_broker import Unkindness
from perdure.testing.workloads import WORKLOADS
from perdure.testing.workloads.ledger import Ledger
from perdure.testing.workloads.services import Services
from perdure.testing.workloads.workload import Workload, all_things

T = TypeVar("T")

START_US: Final = 1_767_225_600_000_000
"""The first of January 2026: when every simulated world begins."""
END_S: Final = 1_200.0
"""Virtual seconds after the last fault in which everything must have finished."""


class Plan(Struct, frozen=True, kw_only=True):
    """What a seed stands for."""

    seed: int
    setup: Setup
    shuffle: bool
    plays: tuple[tuple[int, int], ...]
    """(workload, instance) in the order they begin."""
    faults: tuple[str, ...]
    fails: float
    forgets: float


class Verdict(Struct, frozen=True, kw_only=True):
    """How a seed went. `fault` empty: all was well."""

    seed: int
    digest: str
    runs: int = 0
    turns: int = 0
    seconds: float = 0.0
    absorbed: int = 0
    boots: int = 0
    repaired: int = 0
    fault: str = ""
    story: tuple[str, ...] = ()


def plan(seed: int, *, far: bool = True) -> Plan:
    """Draw a world. One in eight is kind: there the sweeper must find nothing to repair. Without `far` no worker outlives its node."""
    chance = random.Random(f"{seed} plan")
    kind = chance.random() < 0.125
    worst = chance.choice(("", "", "", "cold", "unfused"))
    unkindness = Unkindness(
        drop=chance.choice((0.0, 0.05, 0.3)), twice=chance.choice((0.0, 0.1)), late=chance.choice((0.0, 0.2))
    )
    setup = Setup(
        unkindness=Unkindness() if kind else unkindness,
        max_cached_runs=1 if worst == "cold" else chance.choice((1_000, 1_000, 2)),
        max_activities=chance.choice((20, 20, 2)),
        fuse=worst != "unfused",
        wires=0 if kind else chance.choice((0, 0, 1, 2)),
        skew_us=chance.choice((0, 1_000, 2_000_000)),
        lose_answers=0.0 if kind else chance.choice((0.0, 0.0, 0.05)),
        segment_bytes_max=chance.choice((1 << 20, 8_192)),
        far=0 if kind or not far else random.Random(f"{seed} far").choice((0, 0, 1, 2)),
        parks_at_once=random.Random(f"{seed} parking").random() < 0.5,
        sync_us=chance.choice(((0, 0), (50, 2_000), (500, 20_000))),
    )
    kinds = chance.sample(range(len(WORKLOADS)), chance.randint(2, 5))
    plays = tuple((chance.choice(kinds), number) for number in range(chance.randint(6, 16)))
    menu = ("kill", "kill", "kill", "stop", "sync", "write", "full", "freeze", "deploy")
    faults = () if kind else tuple(chance.choice(menu) for _ in range(chance.randint(0, 6)))
    if setup.far:
        more = random.Random(f"{seed} far faults")
        faults += tuple(more.choice(("vanish", "cut", "freeze", "kill")) for _ in range(more.randint(1, 4)))
    return Plan(
        seed=seed,
        setup=setup,
        shuffle=chance.random() < 0.7,
        plays=plays,
        faults=faults,
        fails=chance.choice((0.0, 0.2)),
        forgets=chance.choice((0.0, 0.2)),
    )


class World:
    """Implements `workloads.Stage` on a simulated machine, and does the faults of its plan."""

    def __init__(self, plan: Plan) -> None:
        name = str(plan.seed)
        self.plan = plan
        self.loop = SeededLoop.of(random.Random(f"{name} order"), START_US, shuffle=plan.shuffle)
        self.chance = random.Random(f"{name} world")
        self.ledger = Ledger(random.Random(f"{name} ledger"), fails=plan.fails, forgets=plan.forgets)
        self.workloads: Sequence[Workload] = [WORKLOADS[number] for number in sorted({kind for kind, _ in plan.plays})]
        services = Services(self.ledger, random.Random(f"{name} services"), asyncio.sleep)
        self.machine = Machine(self.loop, name, plan.setup, lambda build: all_things(self.workloads, services, build))
        door = Door(self.machine, random.Random(f"{name} door"))
        self.client = Client(door, SeededChance(random.Random(f"{name} ids").getrandbits(60), self.machine.clock))
        self.acknowledged: Acknowledged = []
        self.runs = 0

    # ---------------------------------------------------------------------------------------------------------------- stage

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def again(self, act: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await act()
            except (Unavailable, ResourceExhausted):
                await asyncio.sleep(0.01 + self.chance.random() * 0.3)

    def acknowledged_signal(self, workflow_id: str, signal_id: str) -> None:
        self.acknowledged.append((workflow_id, signal_id))

    # ------------------------------------------------------------------------------------------------------------------ run

    async def run(self) -> None:
        """Play, break, heal, wait for the end, check."""
        machine = self.machine
        await machine.boot()
        plays = [self.loop.create_task(self._play(*play)) for play in self.plan.plays]
        keeper = self.loop.create_task(self._keep())
        try:
            async with asyncio.timeout(END_S):
                await self._do_faults(plays)
            machine.tell("healed")
            machine.heal()
            self.ledger.fails = self.ledger.forgets = 0.0
            await self._end(plays)
            await self._rest()
        finally:
            keeper.cancel()
            for play in plays:
                play.cancel()
        node = machine.node
        assert node is not None
        self.runs = await check_world(node, self.acknowledged)
        repaired = machine.repaired + node.frontend.sweeper.repaired
        if not self.plan.faults and self.plan.setup.unkindness == Unkindness() and not self.plan.setup.wires and repaired:
            raise BrokenWorldError(f"law woken: in a kind world the sweeper had to repair {repaired} things")
        await machine.stop()
        if self.loop.errors:
            raise BrokenWorldError("errors nobody looked at: " + "; ".join(self.loop.errors[:3]))

    async def _play(self, kind: int, number: int) -> None:
        await asyncio.sleep(self.chance.random() * 2.0)
        try:
            await WORKLOADS[kind].play(self, number)
        except Exception as error:
            raise BrokenWorldError(
                f"{WORKLOADS[kind].name}: {type(error).__name__}: {error}", await self._told(number)
            ) from error

    async def _told(self, number: int) -> list[str]:
        """The histories of one play: its workflow ids end with its number."""
        node = self.machine.node
        if node is None:
            return ["(the machine is down)"]
        ids = [id for id in await workflow_ids(node) if id.endswith(f"-{number}")]
        return [line for id in ids for line in (id, *told(await node.store.load("default", id)))]

    async def _end(self, plays: "Sequence[asyncio.Task[None]]") -> None:
        """Wait for all plays; the first that fails, fails the world."""
        done, late = await asyncio.wait(plays, timeout=END_S, return_when=asyncio.FIRST_EXCEPTION)
        for play in plays:
            if play in done and not play.cancelled() and (error := play.exception()) is not None:
                raise error
        if late:
            raise BrokenWorldError(await self._stuck())

    async def _stuck(self) -> str:
        node = self.machine.node
        if node is None:
            return "law woken: the machine never came up again"
        lines = [f"law woken: {END_S:g} virtual seconds after the last fault these runs are open:"]
        for live in node.frontend.live_workflows():
            if live.state.run is not None:
                told_of = describe(live.state, live.state.run, self.loop.now)
                lines.append(f"  {live.state.workflow_id} ({told_of.status}): {told_of.pending} offered_at={live.offered_at}")
                lines += told(await node.store.load("default", live.state.workflow_id))
        return "\n".join(lines)

    async def _rest(self) -> None:
        """Until no run is open: some were left by clients that wait for nothing more."""
        async with asyncio.timeout(END_S):
            while True:
                node = self.machine.node
                if node is not None and not node.busy and not any(True for _ in node.frontend.live_workflows()):
                    return
                await asyncio.sleep(0.05)

    async def _keep(self) -> None:
        """Boots what is down; takes down what can write nothing more."""
        while True:
            node = self.machine.node
            if node is not None and node.frontend.fault is not None:
                self.machine.tell(f"the node refuses to write: {node.frontend.fault}")
                self.machine.kill()
            if self.machine.node is None:
                await self.machine.boot()
            await asyncio.sleep(0.05)

    # --------------------------------------------------------------------------------------------------------------- faults

    async def _do_faults(self, plays: "Sequence[asyncio.Task[None]]") -> None:
        for fault in self.plan.faults:
            await asyncio.sleep(self.chance.random() * 1.5)
            if all(play.done() for play in plays):
                return
            if self.machine.node is not None:
                await self._fault(fault)

    async def _fault(self, fault: str) -> None:
        machine, chance = self.machine, self.chance
        if fault == "kill":
            done = self.loop.create_future()
            self.loop.trip(chance.randint(1, 400), lambda: self._cut(done))
            await done
        elif fault in {"stop", "deploy"}:
            if fault == "deploy":
                machine.build = 2
            if chance.random() < 0.5:
                await machine.stop()
            else:
                machine.kill()
        elif fault == "full":
            machine.tell("the disk is full for a while")
            for n in range(chance.randint(1, 8)):
                machine.disk.arm("full", n)
        elif fault in {"sync", "write"}:
            machine.tell(f"a {fault} will fail")
            machine.disk.arm("sync" if fault == "sync" else "write", chance.randint(0, 5))
        elif fault == "vanish":
            machine.vanish()
        elif fault == "cut":
            machine.cut()
        elif fault == "freeze" and machine.wired:
            process = chance.choice(machine.wired)
            machine.freeze(process)
            await asyncio.sleep(chance.random() * 12.0)
            machine.thaw(process)

    def _cut(self, done: "asyncio.Future[None]") -> None:
        self.machine.kill()  # also in the middle of a boot
        done.set_result(None)

    def digest(self) -> str:
        """Of everything that is on the disk."""
        disk = self.machine.disk
        total = hashlib.blake2b(digest_size=8)
        for name in disk.names("journal"):
            total.update(name.encode())
            total.update(disk.read(name, 0, disk.size(name)))
        return total.hexdigest()


def simulate(seed: int, *, far: bool = True) -> Verdict:
    """Run one seed. Never raises for what it finds: the verdict says it."""
    world = World(plan(seed, far=far))
    fault = ""
    history: tuple[str, ...] = ()
    try:
        with tracebacks.left_out():
            world.loop.run_until_complete(world.run())
    except BrokenWorldError as broken:
        fault, history = f"{broken}", broken.history
    except Exception as error:  # noqa: BLE001 – whatever went wrong is the finding
        fault = f"{type(error).__name__}: {error}"
    finally:
        digest = world.digest()
        if world.machine.node is not None:
            world.machine.kill()
        world.machine.end()
        world.loop.close()
    return Verdict(
        seed=seed,
        digest=digest,
        runs=world.runs,
        turns=world.loop.turns,
        seconds=world.loop.time(),
        absorbed=world.ledger.absorbed,
        boots=world.machine.generation,
        repaired=world.machine.repaired,
        fault=fault,
        story=() if not fault else (*world.machine.story, *history),
    )


def main(seed: int, seeds: int = 1, *, out: TextIO = sys.stdout, err: TextIO = sys.stderr) -> int:
    """Run `seeds` seeds from `seed` on; 0 when all went well. One line a seed to `out`, findings to `err`."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    broken = absorbed = 0
    try:
        for number in range(seed, seed + seeds):
            verdict = simulate(number)
            absorbed += verdict.absorbed
            print(_line(verdict), file=out, flush=True)
            if verdict.fault:
                broken += 1
                print(explain(verdict), file=err, flush=True)
    finally:
        logging.disable(level)
    print(f"{seeds} seeds, {broken} broken, {absorbed} duplicates absorbed by the outside world", file=err)
    return 1 if broken else 0


def _line(verdict: Verdict) -> str:
    end = "broken" if verdict.fault else "ok"
    return (
        f"seed {verdict.seed} {end} digest {verdict.digest} runs {verdict.runs} boots {verdict.boots} "
        f"turns {verdict.turns} virtual {verdict.seconds:.1f} s"
    )


def explain(verdict: Verdict) -> str:
    """A finding: how to see it again, what it is, what led to it."""
    return "\n".join((f"perdure sim --seed {verdict.seed}", verdict.fault, *(f"  {line}" for line in verdict.story)))
