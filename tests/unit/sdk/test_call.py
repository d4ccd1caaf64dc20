"""A call is a value and a real coroutine: nothing happens before it is awaited, and asyncio takes it everywhere."""

import asyncio
import gc
import inspect
import warnings
import weakref
from collections.abc import Coroutine

import pytest

from perdure.sdk.activity import activity
from perdure.sdk.call import Call
from perdure.sdk.workflow import workflow

LOG: list[str] = []


@activity
async def charge(order: str, cents: int = 1) -> str:
    LOG.append(order)
    await asyncio.sleep(0)
    return f"{order}:{cents}"


@activity
async def stuck() -> str:
    try:
        await asyncio.Event().wait()
    finally:
        LOG.append("closed")
    return ""


@activity
async def broken() -> None:
    raise KeyError("nothing here")


@workflow
async def fulfil(order: str) -> str:
    return await charge(order, cents=5)


@pytest.fixture(autouse=True)
def _empty_log():
    LOG.clear()


def test_making_a_call_does_nothing():
    """Not even wrong arguments are looked at; dropping it is silent and leaves nothing behind."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call = charge("a", nonsense=3)  # type: ignore[call-arg]
        assert LOG == []
        assert isinstance(call, Call)
        assert (call.definition, call.args, call.kwargs) == (charge, ("a",), {"nonsense": 3})
        del call
        gc.collect()


def test_a_dropped_call_frees_its_arguments():
    """A call holds its arguments as long as it lives and no longer, without waiting for the collector."""

    class Big:
        pass

    big = Big()
    gone = weakref.ref(big)
    call = charge(big)  # type: ignore[arg-type]
    del big
    assert gone() is not None
    gc.disable()
    try:
        del call
        assert gone() is None
    finally:
        gc.enable()


def test_a_call_is_a_coroutine():
    """To asyncio and to isinstance, though not to inspect's notion of a native one."""
    call = charge("a")
    assert asyncio.iscoroutine(call)
    assert isinstance(call, Coroutine)
    assert inspect.isawaitable(call)
    assert repr(charge("a", cents=2)) == "<Call charge('a', cents=2)>"


def test_awaiting_outside_a_workflow_runs_the_function():
    """Activities and workflows alike, with their own arguments and defaults."""

    async def main():
        return await charge("a"), await fulfil("b")

    assert asyncio.run(main()) == ("a:1", "b:5")
    assert LOG == ["a", "b"]


def test_asyncio_takes_calls_everywhere():
    """gather, tasks, task groups, wait_for, shield, timeout, wait and as_completed run them as coroutines."""

    async def main():
        results = list(await asyncio.gather(charge("a"), charge("b")))
        results.append(await asyncio.create_task(charge("c"), name="c"))
        results.append(await asyncio.ensure_future(charge("d")))
        async with asyncio.TaskGroup() as group:
            in_group = group.create_task(charge("e"))
        results.append(in_group.result())
        results.append(await asyncio.wait_for(charge("f"), 5))
        results.append(await asyncio.shield(charge("g")))
        async with asyncio.timeout(5):
            results.append(await charge("h"))
        done, _ = await asyncio.wait([asyncio.create_task(charge("i"))])
        results += [task.result() for task in done]
        results += [await done for done in asyncio.as_completed([charge("j")])]
        return results

    assert asyncio.run(main()) == [f"{letter}:1" for letter in "abcdefghij"]
    assert asyncio.run(charge("k")) == "k:1"  # type: ignore[arg-type]


def test_a_call_is_used_up_by_awaiting():
    """As a coroutine: the second time is an error, not a second charge."""

    async def main():
        call = charge("a")
        await call
        with pytest.raises(RuntimeError, match="already awaited call of charge"):
            await call

    asyncio.run(main())
    assert LOG == ["a"]


def test_wrong_arguments_are_type_errors_when_awaited():
    """Python's own error, from the function's own signature."""

    async def main():
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'order'"):
            await charge()  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
            await charge("a", colour=1)  # type: ignore[call-arg]

    asyncio.run(main())


def test_errors_come_through():
    """What the function raises is what awaiting raises."""
    with pytest.raises(KeyError, match="nothing here"):
        asyncio.run(broken())  # type: ignore[arg-type]


def test_cancelling_before_the_first_step_runs_nothing():
    """A task of a call that is cancelled at once never reaches the function, and warns of nothing."""

    async def main():
        task = asyncio.create_task(charge("a"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(main())
        gc.collect()
    assert LOG == []


def test_cancelling_reaches_the_function():
    """A running call passes the cancel on, and timeouts work."""

    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await stuck()
        task = asyncio.create_task(stuck())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert LOG == ["closed", "closed"]


def test_the_coroutine_protocol_by_hand():
    """send, throw and close do what they do on a native coroutine, begun or not."""
    call = charge("a")
    assert call.cr_frame is None
    call.send(None)
    assert call.cr_frame is not None
    with pytest.raises(StopIteration) as stopped:
        call.send(None)
    assert stopped.value.value == "a:1"

    thrown = charge("b")
    with pytest.raises(ValueError, match="early"):
        thrown.throw(ValueError("early"))
    with pytest.raises(RuntimeError):
        thrown.send(None)

    begun = charge("c")
    begun.send(None)
    with pytest.raises(ValueError, match="late"):
        begun.throw(ValueError, "late")

    closed = charge("d")
    closed.close()
    with pytest.raises(RuntimeError):
        closed.send(None)
    assert LOG == ["a", "c"]


def test_close_ends_a_running_call():
    """Its finally blocks run, as those of a coroutine do."""

    async def main():
        call = stuck()
        call.send(None)
        call.close()

    asyncio.run(main())
    assert LOG == ["closed"]


def test_tasks_show_the_name():
    """A task's repr and stack lead to the activity, not to the wrapper."""

    async def main():
        task = asyncio.create_task(stuck())
        await asyncio.sleep(0)
        text, stack = repr(task), task.get_stack()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return text, stack

    text, stack = asyncio.run(main())
    assert "coro=<stuck" in text
    assert stack[0].f_code.co_name == "stuck"
