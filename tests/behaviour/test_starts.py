"""Starting, finding and listing runs."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure import Worker, activity, workflow
from perdure.errors import InvalidArgument, NotFound, WorkflowAlreadyStarted, WorkflowFailed, WorkflowTerminated


@activity
async def where() -> str:
    return activity.info().queue


@workflow
async def waits(word: str = "go") -> str:
    return await workflow.receive(word, str)


@workflow
async def answers(value: int) -> int:
    return value


@workflow
async def fails() -> None:
    raise ValueError("no")


@workflow
async def looks_around(n: int) -> list[Any]:
    info = workflow.info()
    return [info.workflow_id, info.type, info.queue, info.attempt, info.namespace, info.memo, await where(), n]


@pytest.mark.rule("O39")
@pytest.mark.scenario(42)
async def test_two_starts_of_one_id_at_once(house) -> None:
    """One run: the other gets WorkflowAlreadyStarted naming it, or attaches when asked to."""
    async with house(waits) as app:
        start = app.client.start
        first, second = await asyncio.gather(start(waits(), id="a"), start(waits(), id="a"), return_exceptions=True)
        assert isinstance(second, WorkflowAlreadyStarted)
        assert second.run_id == (await first.describe()).run_id
        one, two = await asyncio.gather(start(waits(), id="b"), start(waits(), id="b", on_conflict="attach"))
        await one.signal("go", "both")
        assert await one.result() == await two.result() == "both"
        assert await app.client.count() == 2


async def test_what_an_open_run_of_the_id_means(house) -> None:
    """fail, attach, terminate."""
    async with house(waits) as app:
        first = await app.client.start(waits(), id="x")
        with pytest.raises(WorkflowAlreadyStarted):
            await app.client.start(waits(), id="x")
        attached = await app.client.start(waits("other"), id="x", on_conflict="attach")
        assert (await attached.describe()).run_id == (await first.describe()).run_id
        second = await app.client.start(waits(), id="x", on_conflict="terminate")
        with pytest.raises(WorkflowTerminated):
            await first.result()
        await second.signal("go", "new")
        assert await second.result() == "new"


async def test_what_a_closed_run_of_the_id_means(house) -> None:
    """always, failed, never."""
    async with house(answers, fails) as app:
        assert await app.client.execute(answers(1), id="ok") == 1
        assert await app.client.execute(answers(2), id="ok") == 2
        for reuse in ("failed", "never"):
            with pytest.raises(WorkflowAlreadyStarted):
                await app.client.start(answers(3), id="ok", reuse=reuse)
        with pytest.raises(WorkflowFailed):
            await app.client.execute(fails(), id="bad")
        with pytest.raises(WorkflowAlreadyStarted):
            await app.client.start(answers(3), id="bad", reuse="never")
        assert await app.client.execute(answers(4), id="bad", reuse="failed") == 4


@pytest.mark.rule("O39")
async def test_a_start_repeated_with_its_request_id_gets_its_run(house) -> None:
    """Open or closed, whatever `reuse` and `on_conflict` say, and also in the next life of the node."""
    async with house(answers, waits) as app:
        first = await app.client.start(answers(1), id="r", request_id="req")
        assert await first.result() == 1
        again = await app.client.start(answers(2), id="r", request_id="req", reuse="never")
        assert await again.result() == 1
        open_one = await app.client.start(waits(), id="o", request_id="req-o")
        same = await app.client.start(waits(), id="o", request_id="req-o", on_conflict="terminate")
        assert (await same.describe()).run_id == (await open_one.describe()).run_id
        assert (await open_one.describe()).status == "running"
    async with house(answers, waits) as app:
        once_more = await app.client.start(answers(3), id="r", request_id="req", reuse="never")
        assert await once_more.result() == 1
        assert await app.client.count() == 2
        await app.client.handle("o").terminate()


async def test_ways_to_say_what_to_start(house) -> None:
    """A call, a workflow with its arguments, a name; the result is typed by what is known."""
    async with house(answers) as app:
        client = app.client
        assert await client.execute(answers(1)) == 1
        assert await client.execute(answers, 2) == 2
        assert await client.execute("answers", 3) == 3
        handle = await client.start(answers(4), id="h")
        assert await client.handle("h", workflow=answers).result() == await handle.result() == 4
        with pytest.raises(InvalidArgument):
            await client.start(where())  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            await client.start(answers(1, 2))  # type: ignore[call-arg]


@pytest.mark.scenario(35)
@pytest.mark.parametrize("bad", ["", "a\nb", "\ud800", "x" * 256, "\x00", "\x7f"])
async def test_ids_are_checked_at_the_door(house, bad: str) -> None:
    """Empty, too long, no UTF-8, control characters: InvalidArgument, and nothing is written."""
    async with house(answers, memory=True) as app:
        with pytest.raises(InvalidArgument):
            await app.client.start(answers(1), id=bad)
        with pytest.raises(InvalidArgument):
            await app.client.start(answers(1), id="fine", request_id=bad)
        with pytest.raises(InvalidArgument):
            await app.client.start(answers(1), id="fine", queue=bad)
        assert app.frontend.committer.transitions == 0
        assert await app.client.execute(answers(1), id="ä" * 127) == 1


async def test_unknown_ids(house) -> None:
    """NotFound, whatever is asked."""
    async with house(answers) as app:
        handle = app.client.handle("nobody")
        for ask in (
            handle.result,
            handle.describe,
            handle.history,
            handle.cancel,
            handle.terminate,
            handle.pause,
            handle.resume,
        ):
            with pytest.raises(NotFound):
                await ask()
        await app.client.execute(answers(1), id="somebody")
        with pytest.raises(NotFound):
            await app.client.handle("somebody", "no-such-run").describe()
        with pytest.raises(NotFound):
            await app.client.handle("somebody", "no-such-run").result()


async def test_info_memo_and_queue(any_house) -> None:
    """What a run knows of itself; its activities run on its queue."""
    async with any_house(looks_around, where, queues=["default", "slow"]) as app:
        handle = await app.client.start(looks_around(1), id="i", queue="slow", memo={"who": "ann"})
        found = await handle.result()
        assert found[:5] == ["i", "looks_around", "slow", 1, "default"]
        assert found[6:] == ["slow", 1]
        description = await handle.describe()
        assert description.memo == {"who": "ann"}
        assert (description.workflow_id, description.status, description.queue) == ("i", "completed", "slow")
        assert description.result == found


@workflow
async def uses_other_queue() -> str:
    return await where.options(queue="gpu")()


async def test_a_worker_of_another_queue(house) -> None:
    """A second worker on the embedded client serves its own queue; what is for it waits until it is there."""
    async with house(uses_other_queue) as app:
        handle = await app.client.start(uses_other_queue())
        with pytest.raises(TimeoutError):
            await handle.result(timeout=0.05)
        pending = (await handle.describe()).pending
        assert [(item.kind, item.name) for item in pending] == [("activity", "where")]
        assert "gpu" in pending[0].state
        async with Worker(app.client, queue="gpu", activities=[where]):
            assert await handle.result() == "gpu"


async def test_workflows_on_a_queue_of_their_own(house) -> None:
    """A worker may serve workflows of a queue the node itself does not."""
    async with house(answers) as app:
        handle = await app.client.start(answers(5), queue="apart")
        with pytest.raises(TimeoutError):
            await handle.result(timeout=0.05)
        async with Worker(app.client, queue="apart", workflows=[answers]):
            assert await handle.result() == 5


async def test_describe_and_history_of_an_open_run(house, t) -> None:
    """describe says what a run waits for; history gives numbered events with their fields, notes beside."""
    async with house(sleeps_then_waits) as app:
        handle = await app.client.start(sleeps_then_waits(), id="open")
        timer = await t.recorded(app, handle, "timer_started")
        description = await handle.describe()
        assert [(item.kind, item.summary, item.event_id) for item in description.pending] == [("timer", "nap", timer.id)]
        assert description.pending[0].until > datetime.now(UTC) + timedelta(minutes=50)
        history = await handle.history()
        assert [entry.id for entry in history] == [1, 2]
        assert history[0].workflow_type == "sleeps_then_waits"
        assert (timer.at, timer.based_on, timer.delay) == (1, 1, 3_600_000_000)
        assert timer.time.tzinfo is not None
        await handle.terminate()


@workflow
async def sleeps_then_waits() -> None:
    await workflow.sleep(3_600, summary="nap")


async def test_list_and_count(house) -> None:
    """Pages without gaps or repeats, newest first, by status, type and time; iterating walks all of them."""
    async with house(answers, fails, waits) as app:
        client = app.client
        for n in range(25):
            await client.start(answers(n), id=f"n-{n:02}")
        for n in range(25):
            await client.handle(f"n-{n:02}").result()
        with pytest.raises(WorkflowFailed):
            await client.execute(fails(), id="bad")
        await client.start(waits(), id="open")
        assert await client.count() == 27
        assert await client.count(status="completed") == 25
        assert await client.count(status=["failed", "running"]) == 2
        assert [row.workflow_id async for row in client.list(type="fails")] == ["bad"]
        page = await client.list(limit=10)
        assert page.items[0].workflow_id == "open"
        seen = [row.workflow_id for row in page.items]
        while page.cursor:
            page = await client.list(limit=10, cursor=page.cursor)
            seen += [row.workflow_id for row in page.items]
        assert len(seen) == len(set(seen)) == 27
        assert [row.workflow_id async for row in client.list(limit=4)] == seen
        rows = [row async for row in client.list(status="completed")]
        middle = rows[10].started_at
        after = [row async for row in client.list(status="completed", started_after=middle)]
        assert {row.workflow_id for row in after} == {row.workflow_id for row in rows if row.started_at >= middle}
        assert await client.count("status in ('failed', 'running')") == 2
        assert await client.count("workflow_id starts_with 'n-1' and closed_at is not null") == 10
        assert [row.workflow_id async for row in client.list("type = 'fails' or status = 'running'", 1)] == ["open", "bad"]
        assert [row.workflow_id async for row in client.list("type = 'fails' or status = 'running'", type="fails")] == ["bad"]
        with pytest.raises(InvalidArgument) as refused:
            await client.list("type = fails", type="fails")
        assert refused.value.column == 8
        with pytest.raises(InvalidArgument):
            await client.list(limit=0)
        await client.handle("open").terminate()
