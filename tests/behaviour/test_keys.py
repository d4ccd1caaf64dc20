"""Idempotency keys: the same for whatever happens to an effect on its way, another one for every other effect."""

import asyncio

import pytest

from perdure import Retry, activity, workflow

SEEN: dict[str, list[str]] = {}
GATES: dict[str, asyncio.Event] = {}


@activity(retry=Retry(initial=0.001, jitter=0))
async def charge(key: str, failures: int = 0) -> str:
    info = activity.info()
    SEEN.setdefault(key, []).append(info.idempotency_key)
    if info.attempt <= failures:
        raise ConnectionError("the answer was lost")
    await GATES.setdefault(key, asyncio.Event()).wait()
    return info.idempotency_key


@activity
async def other() -> None: ...


@workflow(name="pays")
async def pays(key: str) -> list[str]:
    first = await charge(f"{key}-1", 2)
    return [first, await charge(f"{key}-2")]


@workflow(name="pays")
async def pays_another_way(key: str) -> list[str]:
    first = await charge(f"{key}-1", 2)
    if workflow.patched("look twice"):
        await other()
    return [first, await charge(f"{key}-2")]


@pytest.mark.rule("O23")
async def test_keys_are_the_same_over_retries_crashes_and_deploys(any_house, t) -> None:
    """Two failed attempts, a worker cut short in the third, another build with a version marker and an activity in between: one key."""
    key = f"pays-{any_house.mode}"
    async with any_house(pays, charge, replays=False, grace=0) as app:
        handle = await app.client.start(pays(key), id="pays")
        await t.recorded(app, handle, "attempt_failed", 2)
        await t.until(app, lambda: _seen(key, 3))
    GATES.setdefault(f"{key}-1", asyncio.Event()).set()
    GATES.setdefault(f"{key}-2", asyncio.Event()).set()
    async with any_house(pays_another_way, charge, other) as app:
        handle = app.client.handle("pays", workflow=pays)
        first, second = await handle.result()
        assert "version_marked" in await t.types(handle)
    assert len(SEEN[f"{key}-1"]) == 4
    assert set(SEEN[f"{key}-1"]) == {first}
    assert set(SEEN[f"{key}-2"]) == {second}
    assert first != second
    for number in (1, 2):
        GATES.setdefault(f"{key}-again-{number}", asyncio.Event()).set()
    async with any_house(pays_another_way, charge, other) as app:
        assert {first, second}.isdisjoint(await app.client.execute(pays_another_way(f"{key}-again"), id="again"))


async def _seen(key: str, count: int) -> bool:
    return len(SEEN.get(f"{key}-1", ())) >= count
