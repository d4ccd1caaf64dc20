"""A worker whose warm runs may weigh next to nothing: every run is thrown away and replayed, and nobody notices."""

import asyncio
from typing import Any

import pytest

from perdure import activity, workflow


@activity
async def grow(text: str) -> str:
    return text + "x" * 100


@workflow
async def grows(steps: int) -> int:
    text = ""
    for _ in range(steps):
        await workflow.receive("next")
        text = await grow(text)
    return len(text)


@pytest.mark.rule("O36")
async def test_runs_outgrow_the_cache(house: Any) -> None:
    """Sixty runs in turn, in a cache that holds a handful: all end as they should, and what is held stays within its bound."""
    async with house(grows, grow, max_cached_bytes=60_000) as app:
        sessions = app.worker._sessions
        handles = [await app.client.start(grows(3), id=f"g{number}") for number in range(60)]
        for _ in range(3):
            for handle in handles:
                await handle.signal("next")
            await asyncio.sleep(0)
            assert sessions.bytes <= 60_000 + 5 * 300 * 60  # those with a report under way stay until it is answered
        assert await asyncio.gather(*(handle.result() for handle in handles)) == [300] * 60
        assert sessions.evicted > 60
        assert sessions.bytes <= 60_000
