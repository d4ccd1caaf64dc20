"""Offers to workers in other processes: to those that can take them, and to others when nothing comes of it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from perdure.core import commands as cm
from perdure.core.replies import NotWanted, WorkflowClaimed
from perdure.core.requests import Commands, ReleaseActivity
from perdure.testing.bare_engine import ACTIVITY, SECOND, BareEngine, bare_engine

TIMER = Commands(commands=(cm.StartTimer(at=1, delay=5),))


def on_engine(test: Callable[[BareEngine], Awaitable[None]]) -> None:
    async def main() -> None:
        async with bare_engine() as built:
            await test(built)

    asyncio.run(main())


async def decided(built: BareEngine, token: str, worker: str = "ann", build_id: str = "b1") -> None:
    """Whoever was handed the run claims it and sees what there is to see."""
    claimed = await built.claim(token, worker, build_id)
    assert isinstance(claimed, WorkflowClaimed), claimed
    await built.report(claimed, Commands(), worker=worker, build_id=build_id)


# ----------------------------------------------------------------------------------------------------- never claimed, vanished


@pytest.mark.scenario(53)
@pytest.mark.scenario(62)
@pytest.mark.parametrize("kind", ["workflow", "activity"])
def test_a_task_nobody_claims_goes_to_another_worker_after_a_second(kind: str) -> None:
    """It was on its way when the wire broke, or its worker is frozen: others have it within 1.25 s, not before 1 s."""

    async def proof(built: BareEngine) -> None:
        frozen = built.worker("ann")
        if kind == "workflow":
            await built.signal("go")
        assert kind in {task.kind for task in frozen.put_away()}
        other = built.worker("bob")
        await built.sleep(SECOND - 1)
        assert other.put_away() == []
        await built.sleep(SECOND // 4 + 1)
        assert [task.kind for task in other.put_away() if task.kind == kind] == [kind]
        assert [task for task in frozen.put_away() if task.kind == kind] == []

    on_engine(proof)


@pytest.mark.scenario(53)
def test_what_a_worker_that_vanishes_was_handed_is_offered_at_once() -> None:
    """Both kinds; without time passing."""

    async def proof(built: BareEngine) -> None:
        gone = built.worker("ann")
        await built.signal("go")
        other = built.worker("bob")
        gone.lose()
        assert sorted(task.kind for task in other.put_away()) == ["activity", "workflow"]
        assert len(built.engine.offers.handed) == 2
        await decided(built, "t", "bob")
        await built.take(worker="bob")
        await built.sleep(SECOND)
        assert len(built.engine.offers.handed) == 0
        assert other.put_away() == []

    on_engine(proof)


def test_a_worker_that_never_answers_is_asked_less_and_less() -> None:
    """There is no other: the pause doubles, up to a minute. When another comes it has the task at once."""

    async def proof(built: BareEngine) -> None:
        frozen = built.worker("ann")
        await built.signal("go")
        await built.sleep(120 * SECOND)
        offers = [task for task in frozen.put_away() if task.kind == "workflow"]
        assert 7 <= len(offers) <= 9

    on_engine(proof)


@pytest.mark.rule("F5")
@pytest.mark.rule("F6")
def test_a_run_whose_worker_is_cut_off_is_decided_by_another_at_once() -> None:
    """The claim of the one cut off ends with its connection; should it come back with its decision, that changes nothing."""

    async def proof(built: BareEngine) -> None:
        gone = built.worker("ann")
        await built.signal("go")
        claimed = await built.claim("t")
        other = built.worker("bob")
        assert isinstance(await built.claim("u", "bob"), NotWanted)
        gone.lose()
        assert [task.kind for task in other.put_away() if task.kind == "workflow"] == ["workflow"]
        await decided(built, "u", "bob")
        before = await built.history()
        assert not (await built.report(claimed, TIMER)).accepted
        assert await built.history() == before

    on_engine(proof)


@pytest.mark.scenario(55)
def test_a_worker_cut_off_keeps_its_activities() -> None:
    """They may be hours old; it is likely to be back in a moment. Only silence for a claim's whole period loses them."""

    async def proof(built: BareEngine) -> None:
        gone = built.worker("ann")
        await built.take()
        gone.lose()
        other = built.worker("bob")
        await built.sleep(9 * SECOND)
        assert isinstance(await built.take("b", "bob"), NotWanted)
        assert (await built.beat()).wanted
        assert (await built.succeed()).facts_dropped == 0
        assert [task for task in other.put_away() if task.kind == "activity"] == []

    on_engine(proof)


def test_a_worker_that_leaves_in_order_keeps_its_claims() -> None:
    """It takes nothing more, and reports what it has in hand."""

    async def proof(built: BareEngine) -> None:
        leaving = built.worker("ann")
        await built.signal("go")
        claimed = await built.claim("t")
        leaving.leave()
        other = built.worker("bob")
        assert [task for task in other.put_away() if task.kind == "workflow"] == []
        assert (await built.report(claimed, Commands())).accepted

    on_engine(proof)


def test_a_worker_that_is_back_hears_of_cancels_again() -> None:
    """Its new connection is the one notices go to."""

    async def proof(built: BareEngine) -> None:
        first = built.worker("ann")
        await built.take()
        first.lose()
        second = built.worker("ann")
        await built.signal("stop")
        claimed = await built.claim("t")
        await built.report(claimed, Commands(commands=(cm.CancelActivity(at=3, target=2),)))
        assert [notice.token for notice in second.notices] == ["a"]
        assert first.notices == []

    on_engine(proof)


# --------------------------------------------------------------------------------------------------------------------- builds


@pytest.mark.rule("F11")
@pytest.mark.rule("F12")
@pytest.mark.parametrize("why", ["nondeterminism", "old_build"])
def test_a_run_one_build_cannot_run_is_offered_to_the_other_at_once(why: str) -> None:
    """And to that one only, from then on: no second is lost, nor an offer, however often workers take turns."""

    async def proof(built: BareEngine) -> None:
        old = [built.worker(f"old{number}", "b1") for number in range(3)]
        new = built.worker("new", "b2")
        await built.signal("go")
        await built.claim("t")
        for hand in (*old, new):
            hand.put_away()
        await built.release("t", why, change_id="fee")
        assert [task.kind for task in new.put_away()] == ["workflow"]
        await decided(built, "u", "new", "b2")
        for number in range(10):
            await built.signal(f"go{number}")
            assert [task.kind for task in new.put_away()] == ["workflow"]
            await decided(built, f"u{number}", "new", "b2")
        await built.sleep(60 * SECOND)
        assert [task for hand in old for task in hand.put_away() if task.kind == "workflow"] == []

    on_engine(proof)


@pytest.mark.rule("F3")
@pytest.mark.rule("F12")
def test_a_run_no_worker_here_can_run_waits_for_one_that_can() -> None:
    """Nobody is bothered meanwhile; the right build gets it as it comes, without a resume."""

    async def proof(built: BareEngine) -> None:
        old = built.worker("old", "b1")
        await built.signal("go")
        await built.claim("t")
        await built.release("t", "nondeterminism")
        old.put_away()
        await built.sleep(300 * SECOND)
        assert [task for task in old.put_away() if task.kind == "workflow"] == []
        new = built.worker("new", "b2")
        assert [task.kind for task in new.put_away() if task.kind == "workflow"] == ["workflow"]
        await decided(built, "u", "new", "b2")
        assert built.run.quarantine is None

    on_engine(proof)


def test_an_offer_in_vain_is_passed_on() -> None:
    """A worker claims what its build may not have, on a stale offer: it is told so, and another is asked."""

    async def proof(built: BareEngine) -> None:
        built.worker("old", "b1")
        await built.signal("go")
        await built.claim("t")
        await built.release("t", "old_build", change_id="fee")
        new = built.worker("new", "b2")
        new.put_away()
        assert isinstance(await built.claim("u", "old", "b1"), NotWanted)
        assert [task.kind for task in new.put_away()] == ["workflow"]

    on_engine(proof)


def test_describe_says_why_none_of_the_workers_moves_a_run() -> None:
    """Which build failed, which does not know it; nothing while one of them can."""

    async def proof(built: BareEngine) -> None:
        built.worker("ann", "b1")
        await built.signal("go")
        await built.claim("t")
        await built.release("t", "nondeterminism")
        told = (await built.engine.describe("default", "w")).standstill
        assert "no worker of queue 'default' can take 'toy': build b1 failed on this run" in told
        built.worker("bob", "b2")
        assert not any("can take" in line for line in (await built.engine.describe("default", "w")).standstill)
        await built.claim("u", "bob", "b2")
        await built.release("u", "unknown_type", "bob", "b2")
        told = (await built.engine.describe("default", "w")).standstill
        why = "build b1 failed on this run; build b2 does not know it"
        assert f"no worker of queue 'default' can take 'toy': {why}" in told

    on_engine(proof)


# -------------------------------------------------------------------------------------------------------------- unknown names


def test_a_run_of_a_type_one_worker_does_not_know_goes_to_another() -> None:
    """At once; and for a while the first is not asked for runs of that type."""

    async def proof(built: BareEngine) -> None:
        ignorant = built.worker("ann")
        await built.signal("go")
        knowing = built.worker("bob")
        await built.claim("t")
        ignorant.put_away()
        await built.release("t", "unknown_type")
        assert [task.kind for task in knowing.put_away()] == ["workflow"]
        for number in range(10):
            await built.start(f"w{number}", f"r{number}")
        assert [task for task in ignorant.put_away() if task.kind == "workflow"] == []
        assert len(knowing.put_away()) == 10

    on_engine(proof)


def test_a_run_of_a_type_nobody_knows_is_offered_every_second() -> None:
    """A worker may have registered it since."""

    async def proof(built: BareEngine) -> None:
        ignorant = built.worker("ann")
        await built.signal("go")
        for number in range(5):
            assert "workflow" in {task.kind for task in ignorant.put_away()}
            await built.claim(f"t{number}")
            await built.release(f"t{number}", "unknown_type")
            assert ignorant.put_away() == []
            await built.sleep(SECOND)

    on_engine(proof)


@pytest.mark.parametrize("others", [0, 1])
def test_an_activity_one_worker_does_not_know_goes_to_another(others: int) -> None:
    """At once where there is another; else it is offered again a second later."""

    async def proof(built: BareEngine) -> None:
        ignorant = built.worker("ann")
        hands = [built.worker("bob") for _ in range(others)]
        claim = (await built.take()).claim
        ignorant.put_away()
        back: Any = ReleaseActivity(**ACTIVITY, token=claim.token, worker="ann", unknown="charge")
        await built.ask(back)
        assert [task.command for hand in hands for task in hand.put_away()] == [2] * others
        assert ignorant.put_away() == []
        await built.sleep(SECOND)
        assert [task.command for task in ignorant.put_away()] == [] if others else [2]

    on_engine(proof)
