"""Children: what their parent gets of them, what becomes of them when it closes or is cancelled, and that nothing is lost on the way."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from perdure import Retry, activity, errors, workflow
from perdure.errors import ChildWorkflowError, InvalidArgument, WorkflowCancelled, WorkflowTerminated


class Refused(Exception):
    pass


@activity
async def double(n: int) -> int:
    return 2 * n


@workflow
async def twice(n: int) -> int:
    return await double(n)


@workflow
async def refuses(why: str) -> int:
    raise Refused(why)


@workflow
async def waits() -> str:
    return await workflow.receive("go", str)


@workflow
async def cleans_up() -> str:
    try:
        return await workflow.receive("go", str)
    except asyncio.CancelledError:
        await double(1)
        raise


@workflow
async def counts(n: int) -> int:
    if n < 3:
        await double(n)
        workflow.continue_as_new(n + 1)
    return n


@workflow
async def sums(n: int) -> int:
    return sum(await asyncio.gather(*(twice(k) for k in range(n))))


async def test_a_child_is_awaited_like_an_activity(any_house, t) -> None:
    """Results come back typed, ids are made of the run's own and a count, in the order they were asked for."""
    async with any_house(sums, twice, double) as app:
        handle = await app.client.start(sums(4))
        assert await handle.result() == 12
        asked = [event for event in await handle.history() if event.type == "child_requested"]
        assert [event.workflow_id for event in asked] == [f"{handle.run_id}.{n}" for n in (1, 2, 3, 4)]
        assert (await t.types(handle)).count("child_closed") == 4


@workflow
async def asks(why: str) -> list[Any]:
    told: list[Any] = []
    try:
        await refuses(why)
    except Refused as error:
        cause = error.__cause__
        assert isinstance(cause, ChildWorkflowError)
        told = [str(error), cause.name, cause.kind, cause.attempts]
    return told


async def test_a_failed_child_raises_its_own_exception(any_house) -> None:
    """The class and text of the child; what it was is in the cause."""
    async with any_house(asks, refuses) as app:
        assert await app.client.execute(asks("no")) == ["no", "refuses", "error", 1]


@workflow
async def fails_at_first() -> int:
    if workflow.info().attempt < 3:
        raise Refused("not yet")
    return workflow.info().attempt


@workflow
async def insists(attempts: int) -> tuple[int, int]:
    patient = fails_at_first.options(retry=Retry(initial=0.001, max_attempts=attempts))
    try:
        return await patient(), 0
    except Refused as error:
        cause: Any = error.__cause__
        return 0, cause.attempts


async def test_a_child_that_is_tried_again_is_one_child(any_house, t) -> None:
    """The parent hears of the last attempt only, and how many there were."""
    async with any_house(insists, fails_at_first) as app:
        handle = await app.client.start(insists(3))
        assert await handle.result() == (3, 0)
        assert await t.types(handle) == ["started", "child_requested", "child_started", "child_closed", "completed"]
        assert await app.client.execute(insists(2)) == (0, 2)


@workflow(timeout=0.05)
async def times_out() -> None:
    await workflow.receive("never")


@workflow
async def learns(id: str) -> list[str]:
    kinds: list[str] = []
    for call in (waits(), times_out()):
        child = await workflow.start_child(call, id=f"{id}{len(kinds)}")
        try:
            await child
        except ChildWorkflowError as error:
            kinds.append(error.kind)
    try:
        await workflow.start_child(waits(), id="taken")
    except ChildWorkflowError as error:
        kinds += [error.kind, type(error.__cause__).__name__]
    return kinds


async def test_how_else_a_child_may_end(any_house, t) -> None:
    """Terminated, timed out, and not started at all because its id is taken: the error itself says which."""
    async with any_house(learns, waits, times_out) as app:
        taken = await app.client.start(waits(), id="taken")
        handle = await app.client.start(learns("kid"))
        await t.recorded(app, handle, "child_started")
        await app.client.handle("kid0").terminate("enough")
        assert await handle.result() == ["terminated", "timed_out", "start_failed", "WorkflowAlreadyStarted"]
        await taken.terminate()


@workflow
async def keeps(kind: str) -> str:
    info = workflow.info()
    child = await workflow.start_child(waits(), id=f"{info.workflow_id}-kid")
    await child.signal("go", kind)
    assert child.run_id
    return f"{child.id}: {await child}, {await child}"


async def test_a_handle_of_a_child(any_house) -> None:
    """It has started when the handle is there; it takes signals, and may be awaited more than once."""
    async with any_house(keeps, waits) as app:
        assert await app.client.execute(keeps("x"), id="p") == "p-kid: x, x"
        described = await app.client.handle("p-kid").describe()
        assert described.parent is not None
        assert described.parent[0] == "p"


@workflow
async def by_name(n: int) -> Any:
    return await (await workflow.start_child("twice", n))


@workflow
async def named_wrongly(id: Any, policy: Any) -> str:
    try:
        await workflow.start_child(waits(), id=id, on_parent_close=policy)
    except InvalidArgument as error:
        return str(error)
    return "started"


async def test_by_type_name_and_with_a_wrong_id(any_house) -> None:
    """A name is enough to start a child; what can be no id is refused where it is written, and the run goes on."""
    async with any_house(by_name, twice, double, named_wrongly, waits) as app:
        assert await app.client.execute(by_name(4)) == 8
        assert "must not be empty" in await app.client.execute(named_wrongly("", "terminate"))
        assert "control character" in await app.client.execute(named_wrongly("a\nb", "terminate"))
        assert "on_parent_close must be one of" in await app.client.execute(named_wrongly("kid", "kill"))


# --------------------------------------------------------------------------------------------------------------- closing, cancel


@workflow
async def leaves() -> None:
    for policy in ("terminate", "cancel", "abandon"):
        await workflow.start_child(waits(), id=f"left-{policy}", on_parent_close=policy)  # type: ignore[arg-type]


async def test_what_becomes_of_children_when_their_parent_closes(any_house, t) -> None:
    """Terminated, asked to stop, or left alone, as each was started."""
    async with any_house(leaves, waits) as app:
        parent = await app.client.start(leaves())
        await parent.result()
        with pytest.raises(WorkflowTerminated):
            await app.client.handle("left-terminate").result()
        with pytest.raises(WorkflowCancelled):
            await app.client.handle("left-cancel").result()
        await app.client.handle("left-abandon").signal("go", "on")
        assert await app.client.handle("left-abandon").result() == "on"

        async def nothing_owed() -> bool:
            return (await parent.describe()).pending == ()

        await t.until(app, nothing_owed)
        notes = [entry for entry in await parent.history(notes=True) if entry.type == "delivered"]
        assert sum(len(note.messages) for note in notes) == 2


@workflow
async def tree(depth: int) -> str:
    if depth == 0:
        return await cleans_up()
    return "".join(await asyncio.gather(*(tree.options(queue=None)(depth - 1) for _ in range(2))))


@pytest.mark.scenario(6)
@pytest.mark.scenario(14)
async def test_a_cancel_reaches_every_depth(any_house, t) -> None:
    """A tree of seven runs and four leaves waits in gathers; cancelling its root cancels everyone, and the leaves clean up."""
    async with any_house(tree, cleans_up, double) as app:
        root = await app.client.start(tree(2), id="root")

        async def grown() -> bool:
            rows = [row async for row in app.client.list(status="running", type="cleans_up")]
            return len(rows) == 4

        await t.until(app, grown)
        await root.cancel()
        with pytest.raises(WorkflowCancelled):
            await root.result()

        async def over() -> bool:
            return await app.client.count(status="running") == 0

        await t.until(app, over)
        assert await app.client.count(status="cancelled") == 11
        for row in [row async for row in app.client.list(type="cleans_up")]:
            assert "activity_completed" in await t.types(app.client.handle(row.workflow_id))


@pytest.mark.scenario(14)
async def test_a_cancel_while_a_tree_grows_misses_no_one(any_house, t) -> None:
    """Cancelled at once, while children and grandchildren are only being asked for: nobody is left running."""
    async with any_house(tree, cleans_up, double) as app:
        for number in range(5):
            root = await app.client.start(tree(3), id=f"root{number}")
            for _ in range(number):
                await root.describe()
            await root.cancel()
            with pytest.raises(WorkflowCancelled):
                await root.result()

        async def over() -> bool:
            return await app.client.count(status="running") == 0

        await t.until(app, over)
        statuses = {row.status async for row in app.client.list()}
        assert statuses <= {"cancelled", "terminated"}


async def test_terminating_a_tree(any_house, t) -> None:
    """Whoever is terminated from outside terminates its children, and they theirs."""
    async with any_house(tree, cleans_up, double) as app:
        root = await app.client.start(tree(2), id="root")

        async def grown() -> bool:
            rows = [row async for row in app.client.list(status="running", type="cleans_up")]
            return len(rows) == 4

        await t.until(app, grown)
        await root.terminate("enough")

        async def over() -> bool:
            return await app.client.count(status="running") == 0

        await t.until(app, over)
        assert await app.client.count(status="terminated") == 11


@workflow
async def gives_up(id: str) -> str:
    child = await workflow.start_child(cleans_up(), id=id)
    with suppress(TimeoutError):
        await asyncio.wait_for(child, 0.01)
    try:
        await child
    except ChildWorkflowError as error:
        return error.kind
    return "?"


async def test_giving_up_on_a_child_asks_it_to_stop(any_house, t) -> None:
    """Cancelling the task that awaits it raises there at once and records the request; awaiting it again tells how it ended."""
    async with any_house(gives_up, cleans_up, double) as app:
        parent = await app.client.start(gives_up("kid"))
        assert await parent.result() == "cancelled"
        assert (await t.types(parent)).count("child_cancel_requested") == 1


@workflow
async def never_asks() -> str:
    task = asyncio.create_task(twice(1))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return "nobody"


async def test_a_child_taken_back_at_once_is_never_asked_for(any_house, t) -> None:
    """A start and its cancel while one input is fed leave nothing in the history."""
    async with any_house(never_asks, twice, double) as app:
        handle = await app.client.start(never_asks())
        assert await handle.result() == "nobody"
        assert await t.types(handle) == ["started", "completed"]


# ------------------------------------------------------------------------------------------------------------ continue as new


@workflow
async def awaits_chain() -> int:
    return await counts(0)


async def test_a_child_that_continues_as_new_is_one_child(any_house, t) -> None:
    """The parent hears of the last close only."""
    async with any_house(awaits_chain, counts, double) as app:
        handle = await app.client.start(awaits_chain())
        assert await handle.result() == 3
        assert await t.types(handle) == ["started", "child_requested", "child_started", "child_closed", "completed"]


@workflow
async def moves_on(left: int) -> str:
    if left == 2:
        await workflow.start_child(waits(), id="heirloom")
    if left:
        workflow.continue_as_new(left - 1)
    return await workflow.receive("end", str)


async def test_a_parent_that_continues_as_new_keeps_its_children_until_the_chain_closes(any_house, t) -> None:
    """The child goes on over two successors, and is terminated when the third run closes."""
    async with any_house(moves_on, waits) as app:
        handle = await app.client.start(moves_on(2), id="chain")

        async def third() -> bool:
            return await app.client.count(status="continued") == 2

        await t.until(app, third)
        assert (await app.client.handle("heirloom").describe()).status == "running"
        await app.client.handle("chain").signal("end", "done")
        assert await handle.result() == "done"
        with pytest.raises(WorkflowTerminated):
            await app.client.handle("heirloom").result()


# -------------------------------------------------------------------------------------------------------------------- externals


@workflow
async def speaks(id: str) -> list[str]:
    told: list[str] = []
    other = workflow.external(id)
    try:
        await other.signal("go", "hello")
        told.append("delivered")
        await other.signal("go", "again")
    except errors.PerdureError as error:
        told.append(error.code)
    try:
        await other.cancel("enough")
    except errors.PerdureError as error:
        told.append(error.code)
    return told


async def test_speaking_to_another_run(any_house) -> None:
    """A signal is awaited until it is delivered; a closed run and one that never was are told apart."""
    async with any_house(speaks, waits, hears) as app:
        await app.client.start(hears(), id="other")
        assert await app.client.execute(speaks("other")) == ["delivered"]
        assert await app.client.handle("other").result() == ["hello", "again", "cancelled"]
        assert await app.client.execute(speaks("other")) == ["WORKFLOW_CLOSED", "WORKFLOW_CLOSED"]
        assert await app.client.execute(speaks("nobody")) == ["NOT_FOUND", "NOT_FOUND"]


@workflow
async def hears() -> list[str]:
    heard: list[str] = []
    try:
        while True:
            heard.append(await workflow.receive("go", str))
    except asyncio.CancelledError:
        return [*heard, "cancelled"]


@workflow
async def last_words(id: str) -> str:
    task = asyncio.create_task(workflow.external(id).signal("go", "farewell"))
    await asyncio.sleep(0)
    return f"done {task.done()}"


async def test_a_signal_of_a_run_that_closes_at_once_is_delivered(any_house, t) -> None:
    """The request and the close are one decision; the message stays behind until it is answered."""
    async with any_house(last_words, waits) as app:
        other = await app.client.start(waits(), id="other")
        parent = await app.client.start(last_words("other"))
        assert await parent.result() == "done False"
        assert await other.result() == "farewell"
        await t.recorded(app, parent, "delivered")


@workflow
async def sends_off(id: str) -> None:
    asyncio.create_task(workflow.start_child(waits(), id=id, on_parent_close="abandon"))  # noqa: RUF006
    await asyncio.sleep(0)


async def test_a_child_to_be_abandoned_is_started_though_its_parent_closes_at_once(any_house, t) -> None:
    """Its start is left behind too."""
    async with any_house(sends_off, waits) as app:
        await app.client.execute(sends_off("orphan"))

        async def there() -> bool:
            return await app.client.count(type="waits") == 1

        await t.until(app, there)
        await app.client.handle("orphan").signal("go", "alone")
        assert await app.client.handle("orphan").result() == "alone"


# ------------------------------------------------------------------------------------------------------------------- restarts


async def test_a_parent_hears_of_its_child_over_a_restart(house, t) -> None:
    """The node stops while both wait; in its next life the child ends and the parent goes on."""
    async with house(keeps_waiting, waits) as app:
        parent = await app.client.start(keeps_waiting("kid"), id="p")
        await t.recorded(app, parent, "child_started")
    async with house(keeps_waiting, waits) as app:
        assert [(item.kind, item.workflow_id) for item in (await app.client.handle("p").describe()).pending] == [
            ("child", "kid")
        ]
        await app.client.handle("kid").signal("go", "late")
        assert await app.client.handle("p").result() == "late"


@workflow
async def keeps_waiting(id: str) -> str:
    return await (await workflow.start_child(waits(), id=id))


@pytest.mark.parametrize("calls", [1, 5])
async def test_commits_of_a_child(house, calls: int) -> None:
    """Start and end of a child without steps are one commit of its own, and two of its parent."""
    async with house(many, nothing) as app:
        await app.client.execute(many(calls))
        # start and request · per child: its only commit, started, closed · the parent's decision on each
        assert app.frontend.committer.transitions == 1 + 4 * calls
        assert app.frontend.sweeper.repaired == 0


@workflow
async def nothing() -> None:
    pass


@workflow
async def many(calls: int) -> None:
    for _ in range(calls):
        await nothing()
