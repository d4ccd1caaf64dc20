"""Sagas: compensations last-in-first-out, all tried, none interrupted, their errors told on the one that brought them about."""

import asyncio
import gc
import warnings

import pytest

from perdure.core.errors import ActivityError, InvalidArgument
from perdure.sdk.activity import activity
from perdure.sdk.workflow import workflow

LOG: list[str] = []


@activity
async def refund(order: str) -> None:
    await asyncio.sleep(0)
    LOG.append(order)


@activity
async def fails(order: str) -> None:
    LOG.append(order)
    raise KeyError(order)


@activity
async def cancels_itself() -> None:
    raise asyncio.CancelledError


@pytest.fixture(autouse=True)
def _empty_log():
    LOG.clear()


async def failing(*compensations, error=None):
    async with workflow.saga() as saga:
        for compensation in compensations:
            saga.add(compensation)
        raise error or ValueError("broken")


def test_a_failure_runs_compensations_last_first():
    """The original error comes out, by itself when nothing else went wrong."""
    with pytest.raises(ValueError, match="broken") as caught:
        asyncio.run(failing(refund("a"), refund("b"), refund("c")))
    assert LOG == ["c", "b", "a"]
    assert getattr(caught.value, "__notes__", []) == []


def test_success_runs_nothing():
    """Nothing is undone, and coroutines that were not needed do not complain."""

    async def plain():
        LOG.append("plain")

    async def main():
        async with workflow.saga() as saga:
            saga.add(refund("a"))
            saga.add(plain())
        await saga.compensate()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(main())
        gc.collect()
    assert LOG == []


def test_all_are_tried_and_their_errors_are_notes():
    """A failing compensation neither hides the original error nor stops the others."""
    with pytest.raises(ValueError, match="broken") as caught:
        asyncio.run(failing(refund("a"), fails("b"), cancels_itself(), fails("c"), refund("d")))
    assert LOG == ["d", "c", "b", "a"]
    assert caught.value.__notes__ == [
        "compensation failed (1 of 3): KeyError: 'c'",
        "compensation failed (2 of 3): ActivityError: cancels_itself was cancelled before it was done",
        "compensation failed (3 of 3): KeyError: 'b'",
    ]


def test_a_cancel_compensates():
    """Being cancelled in the block undoes as an error does, and stays a cancel."""

    async def work():
        async with workflow.saga() as saga:
            saga.add(refund("a"))
            await asyncio.Event().wait()

    async def main():
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    asyncio.run(main())
    assert LOG == ["a"]


@pytest.mark.parametrize("cancels", [1, 3])
def test_a_cancel_does_not_interrupt_compensations(cancels):
    """However often it comes, what began is finished; then it is raised, from the error that was on its way."""

    async def main():
        entered, leave = asyncio.Event(), asyncio.Event()

        async def slow():
            entered.set()
            await leave.wait()
            LOG.append("slow")

        error = ValueError("broken")
        task = asyncio.create_task(failing(refund("a"), slow(), error=error))
        await entered.wait()
        for _ in range(cancels):
            task.cancel()
            await asyncio.sleep(0)
            assert not task.done()
        leave.set()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        # The task makes a CancelledError of its own for its waiter; what it raised is that one's context or itself.
        raised = caught.value if caught.value.__cause__ else caught.value.__context__
        assert raised.__cause__ is error

    asyncio.run(main())
    assert LOG == ["slow", "a"]


def test_a_timeout_around_compensations():
    """A timeout that passes meanwhile is a TimeoutError when all is undone, and leaves no cancel behind."""

    async def main():
        entered, leave = asyncio.Event(), asyncio.Event()

        async def slow():
            entered.set()
            await leave.wait()
            LOG.append("slow")

        async def limited():
            async with limit:
                await failing(slow())

        async def work():
            with pytest.raises(TimeoutError):
                await limited()
            await asyncio.sleep(0)
            LOG.append("after")

        limit = asyncio.timeout(None)
        task = asyncio.create_task(work())
        await entered.wait()
        limit.reschedule(asyncio.get_running_loop().time())
        await asyncio.sleep(0)
        assert limit.expired()
        leave.set()
        await task

    asyncio.run(main())
    assert LOG == ["slow", "after"]


def test_what_only_unwinds_compensates_nothing(scripted, continued):
    """Continue-as-new leaves the block without an error; closing a coroutine too."""

    async def code():
        async with workflow.saga() as saga:
            saga.add(refund("a"))
            workflow.continue_as_new()

    with pytest.raises(continued):
        scripted.run(code())

    async def main():
        async def work():
            async with workflow.saga() as saga:
                saga.add(refund("b"))
                await asyncio.Event().wait()

        coroutine = work()
        coroutine.send(None)
        coroutine.close()

    asyncio.run(main())
    assert LOG == []


def test_by_hand():
    """compensate() runs each once and raises a group of what failed; the block's end has nothing left to do."""

    async def main():
        async with workflow.saga() as saga:
            saga.add(refund("a"))
            saga.add(fails("b"))
            with pytest.raises(ExceptionGroup, match="compensations failed") as caught:
                await saga.compensate()
            assert [type(error) for error in caught.value.exceptions] == [KeyError]
            saga.add(refund("c"))
            await saga.compensate()
            await saga.compensate()
        saga.add(cancels_itself())
        with pytest.raises(ExceptionGroup) as caught:
            await saga.compensate()
        assert isinstance(caught.value.exceptions[0], ActivityError)

    asyncio.run(main())
    assert LOG == ["b", "a", "c"]


@pytest.mark.parametrize("thing", [refund, 3, lambda: None], ids=lambda thing: type(thing).__name__)
def test_only_calls_are_taken(thing):
    """Forgetting the arguments is told at once, not when it is needed."""
    with pytest.raises(InvalidArgument, match="a saga takes calls"):
        workflow.saga().add(thing)


def test_compensations_in_a_workflow_are_durable(scripted):
    """They are scheduled as commands of the run."""
    scripted.complete(None)
    scripted.complete(None)
    with pytest.raises(ValueError, match="broken"):
        scripted.run(failing(refund("a"), refund("b")))
    assert [bytes(command.input[0]) for command in scripted.scheduled] == [b'"b"', b'"a"']
    assert LOG == []
