"""Priorities: who waits for a slot is served by urgency."""

import asyncio

from perdure import activity, workflow

ORDER: list[str] = []
GATE: list[asyncio.Event] = []


@activity
async def block() -> None:
    await GATE[0].wait()


@activity
async def serve(name: str) -> None:
    ORDER.append(name)


@workflow
async def blocks() -> None:
    await block()


@workflow
async def serves(name: str) -> None:
    await serve(name)


@workflow
async def serves_many() -> None:
    calls = [serve.options(priority=priority)(f"{priority}") for priority in (0, -7, 3, 9, 3)]
    await asyncio.gather(*calls)


async def test_who_waits_is_served_by_urgency(any_house, t) -> None:
    """One slot, taken: activities wait in line, with their own priority or their run's; higher first, then whoever came first."""
    ORDER.clear()
    GATE[:] = [asyncio.Event()]
    async with any_house(blocks, serves, serves_many, block, serve, max_activities=1) as app:
        blocked = await app.client.start(blocks())
        await t.recorded(app, blocked, "activity_scheduled")
        handles = [await app.client.start(serves(name), priority=priority) for name, priority in (("calm", None), ("run", 5))]
        handles.append(await app.client.start(serves_many()))
        for handle, count in zip(handles, (1, 1, 5), strict=True):
            await t.recorded(app, handle, "activity_scheduled", count)
            await t.decided(app, handle)
        GATE[0].set()
        for handle in (blocked, *handles):
            await handle.result()
    assert ORDER == ["9", "run", "3", "3", "calm", "0", "-7"]
