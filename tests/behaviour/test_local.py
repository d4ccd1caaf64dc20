"""Local activities: ordinary ones that the worker of their workflow runs itself."""

import asyncio

import pytest

from perdure import Retry, activity, workflow

GATES: dict[str, asyncio.Event] = {}
RUNS: dict[str, int] = {}


@activity(local=True)
async def near(n: int) -> int:
    return n + 1


@activity(local=True, retry=Retry(initial=0.001, jitter=0))
def shaky(key: str) -> int:
    RUNS[key] = RUNS.get(key, 0) + 1
    if RUNS[key] < 3:
        raise ConnectionError("not yet")
    return RUNS[key]


@activity(local=True)
async def gated(key: str) -> str:
    await GATES.setdefault(key, asyncio.Event()).wait()
    return key


@workflow
async def counts(n: int) -> int:
    total = 0
    while total < n:
        total = await near(total)
    return total


@workflow
async def insists(key: str) -> int:
    return await shaky(key)


@workflow
async def collects(prefix: str) -> list[str]:
    return [await done for done in asyncio.as_completed([gated(f"{prefix}-{n}") for n in range(3)])]


async def test_each_step_is_one_commit_and_no_claim_is_written(any_house, t) -> None:
    """The history is that of ordinary activities, marked local; nothing is written but schedules and results."""
    async with any_house(counts, near) as app:
        handle = await app.client.start(counts(5))
        assert await handle.result() == 5
        entries = await handle.history(notes=True)
        assert [e.type for e in entries if not e.is_note] == [
            "started",
            *["activity_scheduled", "activity_completed"] * 5,
            "completed",
        ]
        assert all(e.local for e in entries if e.type == "activity_scheduled")
        if any_house.mode == "warm":
            assert not [e for e in entries if e.type == "activity_claimed"]


async def test_retries_are_those_of_any_activity(any_house) -> None:
    """Failures are recorded and delays kept."""
    key = f"shaky-{any_house.mode}"
    async with any_house(insists, shaky) as app:
        assert await app.client.execute(insists(key)) == 3


@pytest.mark.scenario(17)
async def test_concurrent_ones_resolve_in_the_order_in_which_they_ended(any_house, t) -> None:
    """Replay (which the house does of every history) sees that order too, not the one in which they were asked for."""
    prefix = f"order-{any_house.mode}"
    async with any_house(collects, gated) as app:
        handle = await app.client.start(collects(prefix))
        await t.recorded(app, handle, "activity_scheduled", 3)
        for place, n in enumerate((2, 0, 1), 1):
            GATES.setdefault(f"{prefix}-{n}", asyncio.Event()).set()
            await t.recorded(app, handle, "activity_completed", place)
        assert await handle.result() == [f"{prefix}-2", f"{prefix}-0", f"{prefix}-1"]


async def test_without_a_slot_it_waits_in_line_like_any_other(any_house, t) -> None:
    """`max_activities` holds for local ones too."""
    key = f"slot-{any_house.mode}"
    async with any_house(counts, collects, near, gated, max_activities=1) as app:
        blocked = await app.client.start(collects(key))
        await t.recorded(app, blocked, "activity_scheduled", 3)
        handle = await app.client.start(counts(2))
        await t.recorded(app, handle, "activity_scheduled")
        assert app.worker.running_activities == 1
        for n in range(3):
            GATES.setdefault(f"{key}-{n}", asyncio.Event()).set()
        assert await handle.result() == 2
        assert sorted(await blocked.result()) == [f"{key}-{n}" for n in range(3)]
