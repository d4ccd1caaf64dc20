"""A node that starts again while workers in other processes live: what they hold stays theirs if they say so, and is lost if they do not."""

import asyncio

import pytest

from perdure.core import commands as cm
from perdure.core.limits import Limits
from perdure.core.replies import ActivityClaimed, Beaten, NotWanted
from perdure.core.requests import (
    Commands,
    HeartbeatWorkflow,
    SignalBody,
    SignalWorkflow,
)
from perdure.testing.bare_engine import RUN, SECOND, bare_engine


@pytest.mark.rule("F5")
@pytest.mark.scenario(63)
def test_a_two_hour_activity_outlives_ten_owners() -> None:
    """The worker beats on, whoever the owner is: the attempt is never given to another, and its result is taken by the last of them."""

    async def proof() -> None:
        async with bare_engine() as built:
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
@pytest.mark.scenario(40)
@pytest.mark.parametrize("seconds", [3, 10])
def test_a_worker_that_died_with_its_owner_is_given_up_after_a_claims_period(seconds: int) -> None:
    """Counted from the takeover, and as long as the limit says: not before, or a worker that lives would be robbed."""

    async def proof() -> None:
        limits = Limits(claim_lives_s=seconds)
        async with bare_engine(limits) as built:
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
        async with bare_engine() as built:
            await built.take(incarnation="i1", lives_for=0)
            await built.ask(SignalWorkflow(workflow_id="w", signal=SignalBody(name="go", signal_id="s")))  # writes the claim
            await built.crash()
            assert isinstance(await built.take("b", "bob", attempt=2), ActivityClaimed)

    asyncio.run(proof())


@pytest.mark.scenario(54)
def test_a_claim_nobody_wrote_is_the_workers_who_first_says_so() -> None:
    """The owner died within the first beat: the attempt is on offer, the worker presents it and keeps it."""

    async def proof() -> None:
        async with bare_engine() as built:
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
        async with bare_engine() as built:
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
