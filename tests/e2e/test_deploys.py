"""Builds that change under open runs, each a process of its own on one node."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from perdure.core.notes import DecidedBy, Quarantined
from perdure.errors import NondeterminismError
from perdure.sdk.client import Client

CHILD = "deploy_child.py"


async def notes(client: Client, workflow_id: str, kind: type) -> list[Any]:
    record = await client.frontend.record(client.namespace, workflow_id)
    return [note for note in record.notes if isinstance(note, kind)]


async def waiting(client: Client, *ids: str) -> bool:
    """All of these have asked, and wait for their approval."""
    for workflow_id in ids:
        description = await client.handle(workflow_id).describe()
        events = [event.type for event in await client.handle(workflow_id).history()]
        if "activity_completed" not in events or [item.kind for item in description.pending] != ["signal"]:
            return False
    return True


@pytest.mark.timeout(180)
@pytest.mark.rule("F3")
@pytest.mark.rule("F10")
@pytest.mark.rule("F20")
def test_a_rolling_deploy_under_open_runs(serve: Any) -> None:
    """Old and new workers serve one queue while runs of both are open, then the old leave: each history has the marker exactly when it took
    the new path, nothing is quarantined, and who decided is on record."""

    async def proof() -> None:
        async with serve() as (built, client):
            old = await built.worker(CHILD, "build-1", "v1")
            before = [f"before{number}" for number in range(8)]
            for workflow_id in before:
                await client.start("approval", workflow_id, id=workflow_id)
            await built.until(lambda: waiting(client, *before))
            new = await built.worker(CHILD, "build-2", "v2")
            during = [f"during{number}" for number in range(8)]
            for workflow_id in during:
                await client.start("approval", workflow_id, id=workflow_id)
            await built.until(lambda: waiting(client, *during))
            for workflow_id in (*before[:4], *during[:4]):
                await client.handle(workflow_id).signal("approve", "yes")
            for workflow_id in (*before[:4], *during[:4]):
                await client.handle(workflow_id).result(timeout=30)
            await old.drains()
            for workflow_id in (*before[4:], *during[4:]):
                await client.handle(workflow_id).signal("approve", "yes")
            paths: Counter[str] = Counter()
            for workflow_id in (*before, *during):
                handle = client.handle(workflow_id)
                path = await handle.result(timeout=30)
                marked = [event.type for event in await handle.history()].count("version_marked")
                assert marked == (path == "new"), workflow_id
                assert await notes(client, workflow_id, Quarantined) == []
                paths[path] += 1
            assert paths["old"] >= len(before)
            assert all([await client.handle(workflow_id).result() == "old" for workflow_id in before])
            assert paths.total() == 16
            deciders = {note.build_id for name in before[4:] for note in await notes(client, name, DecidedBy)}
            assert deciders == {"build-1", "build-2"}
            assert (await client.handle(before[7]).describe()).build_id == "build-2"
            await new.drains()

    asyncio.run(proof())


@pytest.mark.timeout(180)
@pytest.mark.rule("F11")
@pytest.mark.rule("F12")
def test_an_unguarded_change_sets_runs_aside_and_the_right_build_takes_them_up(serve: Any) -> None:
    """Both commands are named, the history bytes stay, other runs go on; a worker with code that fits takes the run up as it comes."""

    async def proof() -> None:
        async with serve() as (built, client):
            first = await built.worker(CHILD, "build-1", "v1")
            handle = await client.start("approval", "book", id="a1")
            bystander = await client.start("other", "book", id="o1")
            await built.until(lambda: waiting(client, "a1"))
            await first.drains()
            history = await built.exported(client, "a1", notes=False)
            wrong = await built.worker(CHILD, "build-2", "unguarded")
            with pytest.raises(NondeterminismError):
                await handle.query("anything")
            assert await built.exported(client, "a1", notes=False) == history  # a question sets nothing aside
            await handle.signal("approve", "yes")

            async def is_aside() -> bool:
                return (await handle.describe()).status == "quarantined"

            await built.until(is_aside)
            (note,) = await notes(client, "a1", Quarantined)
            assert note.build_id == "build-2"
            assert "'ask'" in note.expected
            assert "'fee'" in note.found
            after = await built.exported(client, "a1", notes=False)
            assert [event.type for event in await handle.history()][-1] == "signal_received"
            lines = history.splitlines()[:-1]  # all but the footer, which counts them
            assert after.splitlines()[: len(lines)] == lines
            await bystander.signal("approve", "yes")
            assert await bystander.result(timeout=30) == "asked for book"
            right = await built.worker(CHILD, "build-3", "v2")
            assert await handle.result(timeout=30) == "old"
            assert [note.build_id for note in await notes(client, "a1", Quarantined)] == ["build-2"]
            await wrong.drains()
            await right.drains()

    asyncio.run(proof())


@pytest.mark.timeout(180)
@pytest.mark.rule("F12")
def test_the_same_build_id_with_other_code_needs_a_resume(serve: Any) -> None:
    """The build failed on the run, as far as its name tells: it is offered it again when somebody says so."""

    async def proof() -> None:
        async with serve() as (built, client):
            first = await built.worker(CHILD, "build-1", "v1")
            handle = await client.start("approval", "book", id="a1")
            await built.until(lambda: waiting(client, "a1"))
            await first.drains()
            wrong = await built.worker(CHILD, "build-2", "unguarded")
            await handle.signal("approve", "yes")

            async def is_aside() -> bool:
                return (await handle.describe()).status == "quarantined"

            await built.until(is_aside)
            await wrong.drains()
            right = await built.worker(CHILD, "build-2", "v2")
            assert (await handle.describe()).status == "quarantined"
            await handle.resume()
            assert await handle.result(timeout=30) == "old"
            await right.drains()

    asyncio.run(proof())
