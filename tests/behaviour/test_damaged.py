"""A journal with a damaged byte under the whole node: the run it hit is set aside and named, everything else goes on."""

import asyncio
import re
import warnings
from pathlib import Path

import pytest

import perdure
from perdure import activity, workflow
from perdure.core.errors import HistoryDamaged, WorkflowAlreadyStarted, WorkflowTerminated

ran = []


@workflow
async def parked(name: str) -> str:
    ran.append(name)
    first = await workflow.receive("go")
    await note(name, first)
    return first + await workflow.receive("go")


@activity
async def note(name: str, value: str) -> None:
    pass


@workflow
async def says(value: str) -> str:
    await note("says", value)
    await note("says again", value)
    return value


async def damaged(house, *, line: int, wanted: str) -> None:
    """Two runs parked in a journal, and one byte changed in the line number `line` of those that hold `wanted`."""
    async with house(parked, note, replays=False) as app:
        for name in ("hit", "spared"):
            handle = await app.client.start(parked(name), id=name)
            await handle.signal("go", "a")
        while True:
            waiting = [(await app.client.handle(name).describe()).history_length for name in ("hit", "spared")]
            if min(waiting) >= 4:
                break
            await asyncio.sleep(0)
    break_line(house.data, line, wanted)


def break_line(data_directory: Path, line: int, wanted: str) -> None:
    path = data_directory / "journal" / "00000001.jsonl"
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    numbers = [number for number, text in enumerate(lines) if re.search(rb'"t":\{"workflow_id":"%b"' % wanted.encode(), text)]
    at = sum(map(len, lines[: numbers[line]])) + len(lines[numbers[line]]) // 2
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


@pytest.mark.rule("F7")
@pytest.mark.parametrize("line", [0, 1, -1])
async def test_a_damaged_run_is_set_aside_and_named_and_the_rest_goes_on(house, caplog, line) -> None:
    """Its code never runs again, no message reaches it, it is listed and described as quarantined, and terminating frees its id."""
    await damaged(house, line=line, wanted="hit")
    ran.clear()
    async with house(parked, note, replays=False) as app:
        hit = app.client.handle("hit")
        await app.client.handle("spared").signal("go", "b")
        assert await app.client.handle("spared").result(timeout=20) == "ab"
        described = await hit.describe()
        assert described.status == "quarantined"
        assert "segment 1, byte" in described.pending[0].state
        assert {row.workflow_id: row.status async for row in app.client.list()} == {
            "hit": "quarantined",
            "spared": "completed",
        }
        for refused in (hit.signal("go", "b"), hit.cancel(), hit.resume(), hit.result(timeout=20), hit.query("where")):
            with pytest.raises(HistoryDamaged) as error:
                await refused
            assert error.value.run_id == described.run_id
        with pytest.raises(WorkflowAlreadyStarted):
            await app.client.start(parked("again"), id="hit")
        with pytest.warns(RuntimeWarning, match="part of its history is lost"):
            history = await hit.history()
        assert [event.id for event in history] == list(range(1, len(history) + 1))
        assert len(history) < described.history_length or line < 0
        await hit.terminate("its history is lost")
        with pytest.raises(WorkflowTerminated):
            await hit.result(timeout=20)
        again = await app.client.start(parked("again"), id="hit")
        await again.signal("go", "x")
        await again.signal("go", "y")
        assert await again.result(timeout=20) == "xy"
    assert "hit" not in ran
    assert sum("is quarantined" in record.message for record in caplog.records) >= 1
    async with perdure.embedded(house.data) as app:
        assert [row.status async for row in app.client.list()] == ["completed", "completed", "terminated"]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert (await app.client.handle("hit").history())[-1].type == "completed"


@pytest.mark.parametrize("line", [0, 1, -1])
async def test_a_closed_run_that_lost_lines_is_quarantined_wherever_one_looks(house, line) -> None:
    """In listings, counts, descriptions and its history, before and after a restart; its result stays while its end is whole."""
    async with house(note, says, replays=False) as app:
        first = await app.client.start(says("a"), id="hit")
        assert await first.result() == "a"
    break_line(house.data, line, "hit")
    for _ in range(2):
        async with house(note, says, replays=False) as app:
            hit = app.client.handle("hit")
            described = await hit.describe()
            assert described.status == "quarantined"
            assert "segment 1, byte" in described.pending[0].state
            assert [row.status async for row in app.client.list()] == ["quarantined"]
            assert [await app.client.count(f"status = '{status}'") for status in ("quarantined", "completed")] == [1, 0]
            with pytest.warns(RuntimeWarning, match="part of its history is lost"):
                await hit.history()
            if line == -1:
                with pytest.raises(HistoryDamaged):
                    await hit.result(timeout=20)
            else:
                assert [await hit.result(timeout=20) for _ in range(2)] == ["a", "a"]
    async with house(note, says, replays=False) as app:
        if line == -1:
            await app.client.handle("hit").terminate("its end is lost")
            assert (await app.client.handle("hit").describe()).status == "terminated"
            assert [row.status async for row in app.client.list()] == ["terminated"]
        again = await app.client.start(says("b"), id="hit")
        assert await again.result(timeout=20) == "b"


async def test_a_start_may_replace_a_damaged_run(house) -> None:
    """`on_conflict="terminate"` ends it and begins anew, in one write."""
    await damaged(house, line=1, wanted="hit")
    async with house(parked, note, replays=False) as app:
        handle = await app.client.start(parked("new"), id="hit", on_conflict="terminate")
        await handle.signal("go", "1")
        await handle.signal("go", "2")
        assert await handle.result(timeout=20) == "12"
