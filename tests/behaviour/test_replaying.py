"""Replay gives what was recorded and does nothing: however often code runs again, each activity has run once."""

from collections import Counter

import pytest

from perdure import activity, workflow

CODE: Counter[str] = Counter()
CARRIED_OUT: Counter[str] = Counter()


@activity
async def step(key: str, n: int) -> int:
    CARRIED_OUT[f"{key}{n}"] += 1
    return n + 1


@workflow
async def ten_steps(key: str) -> int:
    CODE[key] += 1
    found = 0
    for _ in range(10):
        found = await step(key, found)
    await workflow.receive("go", int)
    return found


@pytest.mark.rule("O9")
async def test_a_replay_carries_nothing_out(any_house, t) -> None:
    """Warm, always replayed, on one warm run: ten steps are ten calls, whether the code began once or again for each of them."""
    key = any_house.mode
    CODE.clear()
    CARRIED_OUT.clear()
    async with any_house(ten_steps, step) as app:
        handle = await app.client.start(ten_steps(key), id="r")
        await t.recorded(app, handle, "activity_completed", 10)
        await handle.signal("go", 1)
        assert await handle.result() == 10
        began = CODE[key]
        assert began > 5 if key == "cold" else began >= 1
        assert {f"{key}{n}": 1 for n in range(10)} == CARRIED_OUT


@pytest.mark.rule("O9")
async def test_a_later_life_begins_where_the_history_ends(house, t) -> None:
    """A new process with nothing in memory runs the code from its first line, is given ten results at once, and calls nothing."""
    CODE.clear()
    CARRIED_OUT.clear()
    async with house(ten_steps, step, replays=False) as app:
        handle = await app.client.start(ten_steps("life"), id="r")
        await t.recorded(app, handle, "activity_completed", 10)
    before = CODE["life"]
    async with house(ten_steps, step, replays=False) as app:
        handle = app.client.handle("r", workflow=ten_steps)
        await handle.signal("go", 1)
        assert await handle.result() == 10
        assert CODE["life"] == before + 1
    assert {f"life{n}": 1 for n in range(10)} == CARRIED_OUT
