"""What follows a fan-out follows: once, whatever became of its parts, and on the smallest worker there can be."""

import asyncio

import pytest

from perdure import Retry, activity, workflow
from perdure.errors import ActivityError

ENDS: list[str] = []


@activity(retry=Retry(max_attempts=1))
async def part(number: int) -> int:
    if number % 3 == 0:
        raise ValueError(f"part {number}")
    return number


@activity
def part_on_a_thread(number: int) -> int:
    return number


@activity
async def follows(found: list[int], lost: int) -> str:
    ENDS.append(f"{sum(found)} and {lost} lost")
    return ENDS[-1]


@workflow
async def fans_out(parts: int) -> str:
    results = await asyncio.gather(*(part(number) for number in range(parts)), return_exceptions=True)
    lost = [result for result in results if isinstance(result, (ActivityError, ValueError))]
    return await follows([result for result in results if isinstance(result, int)], len(lost))


@workflow
async def nested(depth: int) -> int:
    """A parent waits for its child, and that for its own: none of them may hold what the innermost needs."""
    if not depth:
        return await part_on_a_thread(1)
    return 1 + await nested(depth - 1)


@workflow
async def many(width: int, depth: int) -> int:
    return sum(await asyncio.gather(*(nested(depth) for _ in range(width))))


@pytest.mark.scenario(97)
async def test_what_follows_is_called_once(any_house) -> None:
    """With parts that succeed and parts that fail, in every manner of running it."""
    ENDS.clear()
    async with any_house(fans_out, part, follows) as app:
        assert await app.client.execute(fans_out(12)) == "48 and 4 lost"
    assert ENDS == ["48 and 4 lost"]


@pytest.mark.scenario(97)
async def test_what_follows_is_called_when_nothing_was_fanned_out(any_house) -> None:
    """An empty fan-out ends at once."""
    async with any_house(fans_out, part, follows) as app:
        assert await app.client.execute(fans_out(0)) == "0 and 0 lost"


@pytest.mark.scenario(61)
async def test_who_waits_holds_nothing_that_others_need(any_house) -> None:
    """Trees of parents on a worker with one slot, one thread and room for one warm run: they all come to their end."""
    async with any_house(many, nested, part_on_a_thread, max_activities=1, max_cached_runs=1) as app:
        assert await app.client.execute(many(4, 5)) == 24
