"""An engine driven by hand, on virtual time: workers in other processes are calls, the clock moves when it is told to.

For stories about one run of one workflow id, told to the whole engine; `machine.story` tells them to the machine alone.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from msgspec import Raw

from perdure.broker.inprocess import InProcessBroker
from perdure.core import commands as cm
from perdure.core.limits import LIMITS, Limits
from perdure.core.replies import Beaten, WorkflowClaimed
from perdure.core.requests import (
    ActivitySucceeded,
    ClaimActivity,
    ClaimWorkflow,
    Commands,
    HeartbeatActivity,
    ReleaseWorkflow,
    Report,
    SignalBody,
    SignalWorkflow,
    StartWorkflow,
)
from perdure.core.state import RunState
from perdure.core.tasks import CancelNotice, Task
from perdure.engine.frontend import EngineFrontend
from perdure.engine.held import HOLD_US
from perdure.ports import Subscription, WorkerIdentity
from perdure.runtime.chance import RealChance
from perdure.store.memory import MemoryStore
from perdure.testing.virtual_clock import VirtualClock

RUN: Final[dict[str, Any]] = {"workflow_id": "w", "run_id": "r"}
ACTIVITY: Final[dict[str, Any]] = {**RUN, "command": 2, "attempt": 1}
SECOND: Final = 1_000_000
LIFE: Final = 10 * SECOND
LIVES: Final[dict[str, Any]] = {"lives_for": LIFE}


class BareEngine:
    """One store and one clock, and engines that come and go on them."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.store = MemoryStore()
        self.clock = VirtualClock(1_700_000_000 * SECOND)
        self.limits = limits
        self.lives = 0
        self.engine: EngineFrontend

    async def begin(self) -> None:
        self.lives += 1
        self.engine = EngineFrontend(
            self.store, InProcessBroker(), self.clock, RealChance(), node="n", incarnation=f"i{self.lives}", limits=self.limits
        )
        await self.engine.start()

    async def crash(self) -> None:
        """Another owner begins; what the one before still wants to write is fenced off."""
        killed = self.engine
        await self.begin()
        await killed.stop()

    async def ask(self, request: Any) -> Any:
        return await self.engine.call(request)

    async def sleep(self, microseconds: int) -> None:
        """Let time pass, from one instant at which something is due to the next."""
        until = self.clock.now() + microseconds
        while (due := self.clock.next_due()) is not None and due <= until:
            self.clock.jump(due)
            await self.engine.settled()
        self.clock.jump(until)
        await self.engine.settled()

    @property
    def run(self) -> RunState:
        live = self.engine.find("default", "w")
        assert live is not None
        assert live.state.run is not None
        return live.state.run

    async def history(self) -> list[str]:
        return [event.type for event in (await self.engine.record("default", "w")).events]

    # ------------------------------------------------------------------------------------------------------------- workers

    def worker(self, name: str, build_id: str = "b1", queue: str = "default", *, credits: int = 100) -> "Hand":
        """A worker of another process subscribes."""
        return Hand(self.engine, WorkerIdentity(worker=name, build_id=build_id), queue, credits)

    async def start(self, workflow_id: str = "w", run_id: str = "r") -> Any:
        start = StartWorkflow(workflow_id=workflow_id, run_id=run_id, workflow_type="toy", seed=1, request_id=f"s {run_id}")
        started = self.engine.call(start)
        await self.sleep(HOLD_US)  # it may be kept back for whoever takes it at once
        return await started

    async def signal(self, name: str) -> Any:
        return await self.ask(SignalWorkflow(workflow_id="w", signal=SignalBody(name=name, signal_id=name)))

    async def claim(self, token: str, worker: str = "ann", build_id: str = "b1") -> Any:
        return await self.ask(ClaimWorkflow(**RUN, worker=worker, token=token, build_id=build_id, **LIVES))

    async def release(self, token: str, why: Any, worker: str = "ann", build_id: str = "b1", **fields: Any) -> Any:
        return await self.ask(ReleaseWorkflow(**RUN, token=token, build_id=build_id, why=why, worker=worker, **fields))

    async def report(self, claimed: WorkflowClaimed, *steps: Any, **fields: Any) -> Any:
        seen: dict[str, Any] = {"token": claimed.token, "based_on": claimed.length, "decided": claimed.decided}
        fields = {"worker": "ann", "build_id": "b1", "nonce": f"n{claimed.token}", **seen, **LIVES, **fields}
        return await self.ask(Report(**RUN, steps=steps, **fields))

    async def take(self, by: str = "a", worker: str = "ann", **fields: Any) -> Any:
        return await self.ask(ClaimActivity(**{**ACTIVITY, **LIVES, **fields}, worker=worker, token=by))

    async def beat(self, by: str = "a", **fields: Any) -> Beaten:
        beaten: Beaten = await self.ask(HeartbeatActivity(**{**ACTIVITY, **LIVES, **fields}, worker="ann", token=by))
        return beaten

    async def succeed(self, by: str = "a") -> Any:
        fact = ActivitySucceeded(command=2, attempt=1, token=by, result=Raw(b"1"))
        return await self.ask(Report(**RUN, worker="ann", build_id="b1", based_on=0, decided=0, nonce="f", steps=(fact,)))


class Hand:
    """What a worker of another process is handed: `tasks` it has not put away, `notices` of cancels."""

    def __init__(self, engine: EngineFrontend, identity: WorkerIdentity, queue: str, credits: int) -> None:
        self.tasks: list[Task] = []
        self.notices: list[CancelNotice] = []
        self.lines: list[Subscription] = [
            engine.subscribe(queue, "workflow", identity, self._deliver, 1 << 60),
            engine.subscribe(queue, "activity", identity, self._deliver, credits),
        ]

    def _deliver(self, item: Task | CancelNotice) -> None:
        if isinstance(item, Task):
            self.tasks.append(item)
        else:
            self.notices.append(item)

    def put_away(self) -> list[Task]:
        """What it was handed since the last time."""
        tasks, self.tasks = self.tasks, []
        return tasks

    def lose(self) -> None:
        """Its connection is cut."""
        for line in self.lines:
            line.lose()

    def leave(self) -> None:
        """It takes no more tasks."""
        for line in self.lines:
            line.cancel()


@asynccontextmanager
async def bare_engine(limits: Limits = LIMITS, **options: Any) -> AsyncIterator[BareEngine]:
    """A run `r` of workflow id `w` that has asked for activity 2."""
    built = BareEngine(limits)
    await built.begin()
    try:
        async with asyncio.timeout(20):
            await built.start()
            claimed = await built.claim("first")
            await built.report(claimed, Commands(commands=(cm.ScheduleActivity(at=1, name="charge", **options),)))
            yield built
    finally:
        await built.engine.stop()
