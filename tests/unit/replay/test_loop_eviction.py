"""Putting a run aside runs none of its code, frees its memory, and nothing it leaves behind can schedule anything."""

import asyncio
import contextlib
import gc
import time
import warnings
import weakref

import pytest

from perdure.core.errors import NondeterminismError
from perdure.replay import teardown

pytestmark = pytest.mark.skipif(not teardown.FORGETS, reason="this interpreter cannot let go of a frame without resuming it")


class Canary:
    """Tells when it was freed."""


@pytest.fixture
def log():
    return []


@pytest.fixture(autouse=True)
def no_collector():
    """Memory must go by itself, and no warning may hide in a later collection."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gc.collect()


@pytest.mark.scenario(10)
def test_no_finally_except_or_with_block_runs(stage, log, capsys):
    """Nested coroutines, `with` and `async with` blocks, generators and async generators: not one line more."""

    @contextlib.contextmanager
    def span():
        try:
            yield
        finally:
            log.append("span")

    @contextlib.asynccontextmanager
    async def resource():
        try:
            yield
        finally:
            log.append("resource")

    class Manual:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            log.append("manual")

    def numbers():
        try:
            yield 1
            yield 2
        finally:
            log.append("numbers")

    async def asyncgen():
        try:
            with span():
                yield await inner()
        finally:
            log.append("asyncgen")

    async def inner():
        try:
            await asyncio.sleep(10)
        except BaseException as error:
            log.append(repr(error))
            raise
        finally:
            log.append("inner")

    async def main():
        stack = contextlib.ExitStack()
        for _number in numbers():
            with span(), Manual(), stack:
                stack.enter_context(span())
                async with resource(), asyncio.timeout(60):
                    async for _value in asyncgen():
                        pass

    task = stage.start(main())
    stage.loop.close()
    del task
    stage.timers.clear()
    gc.collect()
    assert log == []
    assert capsys.readouterr() == ("", "")


@pytest.mark.scenario(10)
def test_no_task_of_the_run_runs_another_line(stage, log):
    """Task groups, gathered, shielded, never started, waiting on each other, and coroutines never awaited: all silent."""

    async def child():
        try:
            await asyncio.Event().wait()
        finally:
            log.append("child")

    async def main():
        held = child()
        async with asyncio.TaskGroup() as group:
            task = group.create_task(child())
            group.create_task(asyncio.wait_for(child(), 50))
            await asyncio.sleep(0)
            asyncio.get_running_loop().call_soon(log.append, "ready")
            try:
                await asyncio.gather(task, asyncio.shield(child()), child())
            finally:
                log.append(held)

    stage.loop.create_task(main())
    stage.loop.run_until_idle()
    log.clear()
    stage.loop.create_task(child())
    stage.loop.close()
    stage.timers.clear()
    gc.collect()
    assert log == []


def test_memory_is_freed_at_once(stage):
    """Frames go by reference count, not when the collector gets to it."""
    canaries = []

    async def child(canary):
        await asyncio.Event().wait()

    async def main():
        canary = Canary()
        canaries.append(weakref.ref(canary))
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            mine = asyncio.current_task()
            group.create_task(child(canary))
            await asyncio.gather(child(canary), asyncio.shield(child(canary)))
            del mine

    stage.start(main())
    assert canaries[0]() is not None
    stage.loop.close()
    stage.timers.clear()
    assert canaries[0]() is None


def test_what_is_left_behind_can_schedule_nothing(stage, other, log, capsys):
    """Finalizers of the run's objects find a closed loop and no workflow: no command, no task, no I/O, no other run, no noise."""

    class Sly:
        def __init__(self, future):
            self.future = future

        def __del__(self):
            for attempt in (
                lambda: asyncio.ensure_future(asyncio.sleep(1)),
                lambda: asyncio.get_running_loop().call_later(5, log.append, "timer"),
                lambda: self.future.set_result(1),
                lambda: open("/dev/null"),  # noqa: PTH123, SIM115
                lambda: time.sleep(9),
            ):
                try:
                    attempt()
                except BaseException as error:  # noqa: BLE001
                    log.append(type(error))
            raise ValueError("out of a finalizer")

    async def main():
        sly = Sly(asyncio.get_running_loop().create_future())
        await asyncio.sleep(10)
        return sly

    stage.start(main())
    timers = stage.timers[:]
    stage.loop.close()
    assert log == [NondeterminismError, NondeterminismError, NondeterminismError]
    for *_, timer in timers:
        timer.fire()
    stage.loop.run_until_idle()
    assert (stage.count, other.count, other.loop.violations) == (1, 0, [])
    assert capsys.readouterr() == ("", "")


@pytest.mark.scenario(11)
def test_the_collector_in_another_runs_activation_reaches_no_run(stage, other, log):
    """Garbage of one run, collected while another one's code runs, sees no running loop and cannot wake the live run it came from."""

    class Sly:
        def __init__(self, event):
            self.event = event
            self.cycle = self

        def __del__(self):
            log.append(asyncio._get_running_loop())
            try:
                self.event.set()
            except NondeterminismError as error:
                log.append("refused" if "garbage collector" in str(error) else error)

    async def leave_garbage():
        event = asyncio.Event()
        waiting = asyncio.create_task(event.wait())
        await asyncio.sleep(0)
        Sly(event)
        await asyncio.sleep(5)
        return waiting

    async def innocent():
        before = asyncio.get_running_loop()
        gc.collect()
        return asyncio.get_running_loop() is before

    stage.start(leave_garbage())
    assert other.run(innocent())
    assert log == [None, "refused"]
    assert (other.loop.violations, len(stage.loop.violations)) == ([], 1)


@pytest.mark.scenario(11)
def test_an_async_generator_in_garbage_is_not_closed_on_any_loop(stage, log):
    """Only a reference count may close one; the collector's moment is no part of a history."""

    async def numbers():
        try:
            yield 1
        finally:
            log.append("closed")

    async def main():
        generator = numbers()
        cycle = [generator]
        cycle.append(cycle)
        await anext(generator)
        del generator, cycle
        await asyncio.sleep(1)
        gc.collect()
        await asyncio.sleep(1)

    async def outer():
        stage.run(main())
        gc.collect()
        await asyncio.sleep(0)

    asyncio.run(outer())
    assert log == []


def test_close_is_idempotent_and_refused_from_inside(stage, other):
    """A run cannot put itself or another one aside; a closed loop takes nothing, silently or with an error."""

    async def main():
        for loop in (stage.loop, other.loop):
            with pytest.raises(RuntimeError):
                loop.close()

    stage.run(main())
    stage.loop.close()
    stage.loop.close()
    assert stage.loop.is_closed()
    assert stage.loop.call_soon(print).cancelled()
    with pytest.raises(NondeterminismError):
        stage.loop.create_task(main())


def test_where_frames_cannot_be_let_go_finally_blocks_are_harmless(stage, log, monkeypatch, capsys):
    """On such interpreters `finally` runs, but can neither await, start tasks, sleep nor raise out."""
    monkeypatch.setattr(teardown, "FORGETS", False)

    async def main():
        try:
            await asyncio.sleep(10)
        finally:
            log.append("finally")
            for attempt in (lambda: asyncio.create_task(asyncio.Event().wait()), lambda: time.sleep(9)):
                try:
                    attempt()
                except NondeterminismError:
                    log.append("refused")
            await asyncio.sleep(1)

    stage.start(main())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stage.loop.close()
    assert log == ["finally", "refused", "refused"]
    assert stage.count == 1
    assert capsys.readouterr() == ("", "")
