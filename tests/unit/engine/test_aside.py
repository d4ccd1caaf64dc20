"""A report that cannot be written down: its run is quarantined and goes on with another build, and nothing else of it is lost."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec import Raw

from perdure.broker.inprocess import InProcessBroker
from perdure.core import commands as cm
from perdure.core.errors import InvalidArgument
from perdure.core.failure import Failure
from perdure.core.replies import NotWanted, Reported, WorkflowClaimed
from perdure.core.requests import (
    ActivityErred,
    ActivitySucceeded,
    ClaimActivity,
    ClaimWorkflow,
    Commands,
    Report,
    SignalBody,
    SignalWorkflow,
    StartWorkflow,
)
from perdure.core.tasks import Task
from perdure.engine.frontend import EngineFrontend
from perdure.ports import WorkerIdentity
from perdure.runtime.chance import RealChance
from perdure.runtime.clock import RealClock
from perdure.store.memory import MemoryStore

BROKEN = Raw(b"nope")
RUN = {"workflow_id": "w", "run_id": "r"}
START = StartWorkflow(**RUN, workflow_type="toy", seed=1, request_id="s")


def on_engine(test: Callable[[EngineFrontend], Awaitable[None]]) -> None:
    async def main() -> None:
        engine = EngineFrontend(MemoryStore(), InProcessBroker(), RealClock(), RealChance(), node="n", incarnation="i")
        await engine.start()
        try:
            async with asyncio.timeout(20):
                await test(engine)
        finally:
            await engine.stop()

    asyncio.run(main())


async def claimed(engine: EngineFrontend, build_id: str = "b1") -> Any:
    return await engine.call(ClaimWorkflow(**RUN, worker="ann", token=f"t {build_id}", build_id=build_id))


async def report(engine: EngineFrontend, seen: Any, *steps: Any, build_id: str = "b1", **fields: Any) -> Reported:
    fields = {"token": seen.token, "based_on": seen.length, "decided": seen.decided, "nonce": "n", **fields}
    found: Reported = await engine.call(Report(**RUN, worker="ann", build_id=build_id, steps=steps, incarnation="i", **fields))
    return found


def asked(*inputs: Raw, at: int = 1) -> Commands:
    return Commands(commands=(cm.ScheduleActivity(at=at, name="charge", input=inputs),))


async def types(engine: EngineFrontend) -> list[str]:
    return [event.type for event in (await engine.record("default", "w")).events]


def test_a_decision_that_cannot_be_written_quarantines_the_run_and_keeps_its_facts() -> None:
    """The worker hears why, the result it told of stands, the same build is not asked again, and another one goes on."""

    async def test(engine: EngineFrontend) -> None:
        await engine.call(START)
        first = await report(engine, await claimed(engine), asked())
        mine: dict[str, Any] = {"command": 2, "attempt": 1, "token": "a"}
        await engine.call(ClaimActivity(**RUN, **mine, worker="ann", incarnation="i"))  # only remembered, not written
        fact = ActivitySucceeded(**mine, result=Raw(b"7"), fed_at=engine.now())
        with pytest.raises(InvalidArgument, match="JSON"):
            await report(engine, first, fact, asked(BROKEN, at=3))
        assert await types(engine) == ["started", "activity_scheduled", "activity_completed"]
        found = await engine.describe("default", "w")
        assert found.status == "quarantined"
        assert isinstance(await claimed(engine), NotWanted)
        other = await claimed(engine, "b2")
        assert isinstance(other, WorkflowClaimed)
        ended = await report(engine, other, Commands(), closing=cm.CompleteWorkflow(at=3), build_id="b2")
        assert ended.closed
        assert (await engine.result("default", "w")).status == "completed"

    on_engine(test)


@pytest.mark.parametrize("bad", ["result", "failure"])
def test_a_fact_that_cannot_be_written_becomes_a_failure_of_its_attempt(bad: str) -> None:
    """It is neither lost, which would run the activity again at once, nor told for ever."""

    async def test(engine: EngineFrontend) -> None:
        await engine.call(START)
        once = cm.ScheduleActivity(at=1, name="charge")
        first = await report(engine, await claimed(engine), Commands(commands=(once,)), room=1, queues=("default",))
        (grant,) = first.activities
        mine: dict[str, Any] = {"command": grant.scheduled.id, "attempt": 1, "token": grant.token}
        wrong = ActivityErred(**mine, failure=Failure(type="Boom", message="\udce9"))
        fact = ActivitySucceeded(**mine, result=BROKEN) if bad == "result" else wrong
        with pytest.raises(InvalidArgument):
            await report(engine, first, fact, based_on=0, decided=0, token="")
        notes = {note.type: note for note in (await engine.record("default", "w")).notes}
        assert notes["attempt_failed"].failure.type == "Unwritable"

    on_engine(test)


def test_a_start_is_kept_though_its_first_decision_cannot_be_written() -> None:
    """The two ride in one commit; the client's part is written alone, and the client hears nothing of the rest."""

    async def test(engine: EngineFrontend) -> None:
        offered: asyncio.Queue[Any] = asyncio.Queue()
        identity = WorkerIdentity(worker="ann", build_id="b1", incarnation="i")
        engine.subscribe("default", "workflow", identity, offered.put_nowait, 10)
        starting = engine.call(START)
        assert isinstance(await offered.get(), Task)
        seen = await claimed(engine)
        assert not starting.done()
        with pytest.raises(InvalidArgument):
            await report(engine, seen, asked(BROKEN))
        assert (await starting).run_id == "r"
        assert (await engine.describe("default", "w")).status == "quarantined"
        assert await types(engine) == ["started"]

    on_engine(test)


def test_what_a_client_asks_for_and_cannot_be_written_is_its_own_mistake() -> None:
    """`InvalidArgument`, and the run is as it was."""

    async def test(engine: EngineFrontend) -> None:
        with pytest.raises(InvalidArgument, match="JSON"):
            await engine.call(
                StartWorkflow(**{**RUN, "workflow_id": "v"}, workflow_type="toy", seed=1, input=(BROKEN,), request_id="v")
            )
        await engine.call(START)
        body = SignalBody(name="go", input=(BROKEN,), signal_id="g")
        with pytest.raises(InvalidArgument, match="JSON"):
            await engine.call(SignalWorkflow(workflow_id="w", signal=body))
        assert (await engine.describe("default", "w")).status == "running"
        assert await types(engine) == ["started"]

    on_engine(test)
