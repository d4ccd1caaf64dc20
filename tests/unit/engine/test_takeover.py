"""A node that starts again while workers in other processes live: what they hold stays theirs if they say so, and is lost if they do not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import Raw

from perdure.broker.inprocess import InProcessBroker
from perdure.core import commands as cm
from perdure.core.limits import LIMITS, Limits
from perdure.core.replies import ActivityClaimed, Beaten, NotWanted, WorkflowClaimed
from perdure.core.requests import (
    ActivitySucceeded,
    ClaimActivity,
    ClaimWorkflow,
    Commands,
    HeartbeatActivity,
    HeartbeatWorkflow,
    Report,
    SignalBody,
    SignalWorkflow,
    StartWorkflow,
)
from perdure.core.state import RunState
from perdure.engine.frontend import EngineFrontend
from perdure.runtime.chance import RealChance
from perdure.store.memory import MemoryStore
from perdure.testing.virtual_clock import VirtualClock

RUN = {"workflow_id": "w", "run_id": "r"}
ACTIVITY = {**RUN, "command": 2, "attempt": 1}
SECOND = 1_000_000
LIFE = 10 * SECOND
LIVES = {"lives_for": LIFE}


class House:
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

    async def claim(self, token: str, worker: str = "ann") -> Any:
        return await self.ask(ClaimWorkflow(**RUN, worker=worker, token=token, build_id="b1", **LIVES))

    async def report(self, claimed: WorkflowClaimed, *steps: Any, worker: str = "ann", **fields: Any) -> Any:
        seen = {"token": claimed.token, "based_on": claimed.length, "decided": claimed.decided}
        nonce = f"n{claimed.token}"
        return await self.ask(
            Report(**RUN, worker=worker, build_id="b1", nonce=nonce, steps=steps, **seen, **LIVES, **fields)  # type: ignore[arg-type]
        )

    async def take(self, token: str = "a", worker: str = "ann", **fields: Any) -> Any:
        return await self.ask(ClaimActivity(**{**ACTIVITY, **LIVES, **fields}, worker=worker, token=token))

    async def beat(self, token: str = "a", **fields: Any) -> Beaten:
        beaten: Beaten = await self.ask(HeartbeatActivity(**{**ACTIVITY, **LIVES, **fields}, worker="ann", token=token))
        return beaten

    async def succeed(self, token: str = "a") -> Any:
        fact = ActivitySucceeded(command=2, attempt=1, token=token, result=Raw(b"1"))
        return await self.ask(Report(**RUN, worker="ann", build_id="b1", based_on=0, decided=0, nonce="f", steps=(fact,)))


@asynccontextmanager
async def house(limits: Limits = LIMITS, **options: Any) -> AsyncIterator[House]:
    """A run `r` of workflow id `w` that has asked for activity 2."""
    built = House(limits)
    await built.begin()
    try:
        async with asyncio.timeout(20):
            await built.ask(StartWorkflow(**RUN, workflow_type="toy", seed=1, request_id="s"))
            claimed = await built.claim("first")
            await built.report(claimed, Commands(commands=(cm.ScheduleActivity(at=1, name="charge", **options),)))
            yield built
    finally:
        await built.engine.stop()


@pytest.mark.rule("F5")
@pytest.mark.scenario(63)
def test_a_two_hour_activity_outlives_ten_owners() -> None:
    """The worker beats on, whoever the owner is: the attempt is never given to another, and its result is taken by the last of them."""

    async def proof() -> None:
        async with house() as built:
            await built.take()
            for _ in range(10):
                for _ in range(240):
                    await built.sleep(3 * SECOND)
                    assert (await built.beat()).wanted
                await built.crash()
                assert isinstance(await built.take("b", "bob"), NotWanted)
                await built.sleep(9 * SECOND)
                await built.beat()
            assert built.run.activities[2].attempt == 1
            assert (await built.succeed()).facts_dropped == 0
            assert await built.history() == ["started", "activity_scheduled", "activity_completed"]

    asyncio.run(proof())


@pytest.mark.rule("F6")
@pytest.mark.parametrize("seconds", [3, 10])
def test_a_worker_that_died_with_its_owner_is_given_up_after_a_claims_period(seconds: int) -> None:
    """Counted from the takeover, and as long as the limit says: not before, or a worker that lives would be robbed."""

    async def proof() -> None:
        limits = Limits(claim_lives_s=seconds)
        async with house(limits) as built:
            await built.take(lives_for=seconds * SECOND)
            await built.beat(lives_for=seconds * SECOND)
            await built.crash()
            await built.sleep(seconds * SECOND - 1)
            assert built.run.activities[2].attempt == 1
            await built.sleep(1)
            assert built.run.activities[2].attempt == 2
            assert isinstance(await built.take("b", "bob", attempt=2), ActivityClaimed)
            assert (await built.succeed()).facts_dropped == 1

    asyncio.run(proof())


def test_claims_of_the_dead_owners_own_worker_are_lost_at_once() -> None:
    """It died with it."""

    async def proof() -> None:
        async with house() as built:
            await built.take(incarnation="i1", lives_for=0)
            await built.ask(SignalWorkflow(workflow_id="w", signal=SignalBody(name="go", signal_id="s")))  # writes the claim
            await built.crash()
            assert isinstance(await built.take("b", "bob", attempt=2), ActivityClaimed)

    asyncio.run(proof())


@pytest.mark.scenario(54)
def test_a_claim_nobody_wrote_is_the_workers_who_first_says_so() -> None:
    """The owner died within the first beat: the attempt is on offer, the worker presents it and keeps it."""

    async def proof() -> None:
        async with house() as built:
            await built.take()
            await built.crash()
            assert built.run.activities[2].claim is None
            assert (await built.beat()).wanted
            assert isinstance(await built.take("b", "bob"), NotWanted)
            assert not (await built.beat("other")).wanted
            assert (await built.succeed()).facts_dropped == 0

    asyncio.run(proof())


@pytest.mark.rule("F4")
@pytest.mark.rule("F5")
def test_a_decision_of_before_the_crash_is_dropped_and_the_run_goes_on() -> None:
    """Workflow claims die with their owner: the run is on offer at once, the old decision changes nothing, nothing is decided twice."""

    async def proof() -> None:
        async with house() as built:
            await built.take()
            await built.beat()
            await built.succeed()
            old = await built.claim("old")
            await built.crash()
            assert built.run.wants_decision
            assert (await built.ask(HeartbeatWorkflow(**RUN, token="old"))) == Beaten(wanted=False)
            decision = Commands(commands=(cm.StartTimer(at=3, delay=3600 * SECOND),))
            before = await built.history()
            assert not (await built.report(old, decision)).accepted
            assert await built.history() == before
            new = await built.claim("new", "bob")
            assert (await built.report(new, decision, worker="bob")).accepted
            assert not (await built.report(old, decision)).accepted
            assert await built.history() == [*before, "timer_started"]

    asyncio.run(proof())
