"""Standard asyncio on the workflow loop."""

import asyncio
import contextvars
import math
import signal
import sys
import threading

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure.core.errors import NondeterminismError
from perdure.replay import loop as loop_module
from perdure.replay.loop import NEVER_US, WorkflowLoop, microseconds


async def after(delay, value):
    await asyncio.sleep(delay)
    return value


def test_sleep_is_a_timer_of_whole_microseconds_and_time_is_fed(stage):
    """A sleep starts one timer and wakes only when it is fired; loop time stands still meanwhile."""

    async def main():
        before = asyncio.get_running_loop().time()
        await asyncio.sleep(60)
        return before, asyncio.get_running_loop().time()

    task = stage.start(main())
    assert [entry[0] - stage.now_us for entry in stage.timers] == [60_000_000]
    stage.loop.run_until_idle()
    assert not task.done()
    stage.fire()
    assert task.result() == (0.0, 60.0)


def test_sleep_of_zero_or_less_only_yields(stage):
    """No timer is started, other tasks get their turn."""

    async def main():
        order = []

        async def side():
            order.append("side")

        task = asyncio.create_task(side())
        await asyncio.sleep(0)
        await asyncio.sleep(-3)
        order.append("main")
        await task
        return order

    assert stage.run(main()) == ["side", "main"]
    assert stage.count == 0


def test_gather_wait_for_shield_and_timeout(stage):
    """Results, order and errors are asyncio's own."""

    async def main():
        together = await asyncio.gather(after(3, "a"), after(1, "b"), asyncio.shield(after(2, "c")))
        first = await asyncio.wait_for(after(1, "d"), timeout=5)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(after(9, "e"), timeout=2)
        try:
            async with asyncio.timeout(3 * 86400):
                await asyncio.Event().wait()
        except TimeoutError:
            return together, first, asyncio.get_running_loop().time()

    assert stage.run(main()) == (["a", "b", "c"], "d", 3 + 1 + 2 + 3 * 86400)
    assert not stage.timers


def test_queue_lock_semaphore_condition_barrier_event(stage):
    """Every synchronisation primitive works and is fair, first come first served."""

    async def main():
        order = []
        queue, lock, semaphore = asyncio.Queue(maxsize=1), asyncio.Lock(), asyncio.Semaphore(2)
        condition, barrier, event = asyncio.Condition(), asyncio.Barrier(3), asyncio.Event()

        async def work(number):
            await event.wait()
            async with lock:
                order.append(number)
                await asyncio.sleep(1)
            async with semaphore:
                await queue.put(number)
            async with condition:
                condition.notify_all()
            await barrier.wait()

        tasks = [asyncio.create_task(work(number)) for number in range(3)]
        event.set()
        got = [await queue.get() for _ in range(3)]
        await asyncio.gather(*tasks)
        return order, got

    assert stage.run(main()) == ([0, 1, 2], [0, 1, 2])


def test_task_group_cancels_siblings_and_groups_errors(stage):
    """One failing child cancels the others; both errors come out as a group."""

    async def main():
        seen = []

        async def fail(delay, message):
            await asyncio.sleep(delay)
            raise ValueError(message)

        async def clean():
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(clean())
                group.create_task(fail(1, "one"))
                group.create_task(fail(1, "two"))
        except* ValueError as errors:
            seen += [str(error) for error in errors.exceptions]
        return seen

    assert stage.run(main()) == ["cancelled", "one"] or pytest.fail("siblings were not cancelled in order")
    assert len(stage.cancelled) == 2
    assert not stage.timers


@pytest.mark.scenario(2)
def test_cancelled_sleep_cancels_its_timer_once(stage):
    """Cancelling the task cancels the timer at once; a timer that fired is not cancelled any more."""

    async def main():
        task = asyncio.create_task(asyncio.sleep(50))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return len(stage.cancelled)

    assert stage.run(main()) == 1
    assert len(stage.cancelled) == 1


@pytest.mark.scenario(6)
def test_cancel_in_gather_with_return_exceptions_is_not_swallowed(stage):
    """The waiting task ends cancelled, and so do the children."""
    children = []

    async def main():
        children.extend(asyncio.create_task(after(100, n)) for n in range(2))
        await asyncio.gather(*children, return_exceptions=True)

    task = stage.start(main())
    task.cancel()
    stage.loop.run_until_idle()
    assert task.cancelled()
    assert all(child.cancelled() for child in children)
    assert not stage.timers


def test_timer_cancelled_between_fire_and_its_callback_does_not_run(stage):
    """Its handle in the ready queue goes with it, and nobody is told twice."""
    ran = []

    async def main():
        return asyncio.get_running_loop().call_later(5, ran.append, 1)

    timer = stage.start(main()).result()
    timer.fire()
    timer.cancel()
    timer.fire()
    stage.loop.run_until_idle()
    assert (ran, stage.cancelled, timer.cancelled(), timer.when()) == ([], [], True, 5.0)


def test_async_generator_dropped_early_is_closed_in_the_run(stage):
    """Leaving an `async for` by `break` runs the generator's `finally` in the same activation, also when it awaits."""

    async def main():
        log = []

        async def numbers():
            try:
                yield 1
                yield 2
            finally:
                await asyncio.sleep(0)
                log.append("closed")

        async for _number in numbers():
            break
        await asyncio.sleep(1)
        return log

    assert stage.run(main()) == ["closed"]


def test_async_generators_of_the_outer_loop_stay_its_own(stage):
    """With a real loop around, its own unfinished generators are closed by it, before and after activations."""
    log = []

    async def numbers(name):
        try:
            yield 1
        finally:
            log.append((name, asyncio.get_running_loop() is stage.loop))

    async def workflow():
        async for _number in numbers("workflow"):
            break
        await asyncio.sleep(0)

    async def outer():
        async for _number in numbers("before"):
            break
        stage.start(workflow())
        async for _number in numbers("after"):
            break
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    before = sys.get_asyncgen_hooks()
    asyncio.run(outer())
    assert sorted(log) == [("after", False), ("before", False), ("workflow", True)]
    assert sys.get_asyncgen_hooks() == before


def test_works_inside_a_running_task_of_a_real_loop(stage):
    """The outer loop, its current task and its hooks are what they were, also when an activation raises."""

    async def workflow():
        assert asyncio.current_task().get_name() == "Task-1"
        await asyncio.sleep(1)
        return asyncio.current_task().get_name()

    async def interrupted():
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(0)

    async def outer():
        mine = asyncio.current_task()
        result = stage.run(workflow())
        signal.signal(signal.SIGINT, signal.default_int_handler)  # asyncio's would cancel `outer` first
        with pytest.raises(KeyboardInterrupt):
            stage.start(interrupted())
        assert asyncio.current_task() is mine
        assert not isinstance(asyncio.get_running_loop(), WorkflowLoop)
        return result

    assert asyncio.run(outer()) == "Task-1"
    assert not stage.loop.is_running()


def test_an_activation_that_never_rests_ends(stage, monkeypatch):
    """Two tasks that wake each other for ever: the rest is dropped, what is said names a line, and as much as is allowed is no violation."""
    monkeypatch.setattr(loop_module, "CALLBACKS_MAX", 100)

    async def rests():
        for _ in range(99):
            await asyncio.sleep(0)

    async def spins():
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    stage.start(rests())
    assert stage.loop.violations == []
    stage.start(spins())
    (said,) = stage.loop.violations
    assert "never comes to rest" in said
    assert f"{__file__}:{spins.__code__.co_firstlineno + 2}: await asyncio.sleep(0)" in said


def test_contextvars_are_the_runs_own(stage):
    """A run starts from an empty context; a task copies the one of its maker."""
    var = contextvars.ContextVar("var", default="unset")
    var.set("worker")

    async def child():
        seen = var.get()
        var.set("child")
        return seen

    async def main():
        before = var.get()
        var.set("main")
        return before, await asyncio.create_task(child()), var.get()

    assert stage.run(main()) == ("unset", "main", "main")
    assert var.get() == "worker"


def test_tasks_and_futures_hash_by_serial_and_are_named_per_run(stage, other):
    """Two runs of the same code see the same hashes and names in the same process."""

    async def main():
        loop = asyncio.get_running_loop()
        things = [loop.create_future(), asyncio.create_task(after(1, 1)), loop.create_future()]
        gathered = asyncio.gather(*things[:1])
        things[0].set_result(1)
        result = [hash(thing) for thing in [*things, gathered]], things[1].get_name(), len(set(things))
        await things[1]
        await gathered
        return result

    first = stage.run(main())
    assert first == other.run(main())
    assert first[1:] == ("Task-2", 3)


def test_errors_nobody_looked_at_are_collected(stage, capsys):
    """Nothing is printed; the worker's thread sees no exception, the run keeps what was said."""

    async def main():
        loop = asyncio.get_running_loop()
        loop.call_soon(lambda: 1 / 0)
        future = loop.create_future()
        future.set_exception(ValueError("lost"))
        del future
        task = asyncio.create_task(leave())
        await asyncio.wait([task])
        return type(task.exception())

    async def leave():
        raise SystemExit(3)

    assert stage.run(main()) is SystemExit
    kinds = [type(unhandled.exception) for unhandled in stage.loop.unhandled]
    assert kinds == [ValueError, ZeroDivisionError, SystemExit]
    assert capsys.readouterr() == ("", "")


def test_other_threads_may_not_touch_the_loop(stage):
    """`call_soon_threadsafe`, and what uses it, is refused and recorded."""
    errors = []

    def touch():
        try:
            stage.loop.call_soon_threadsafe(print, "never")
        except NondeterminismError as error:
            errors.append(error)

    thread = threading.Thread(target=touch)
    thread.start()
    thread.join()
    assert "call_soon_threadsafe" in str(errors[0])
    assert len(stage.loop.violations) == 1


def test_running_on_one_thread_says_nothing_to_another(stage):
    """While a workflow runs here, other threads have no running loop and the real clock."""
    import time

    seen = []

    def look():
        seen.append((asyncio._get_running_loop(), time.time() > stage.now_us / 1e6))

    async def main():
        from perdure.replay.activation import unguarded

        with unguarded():
            thread = threading.Thread(target=look)
            thread.start()
            thread.join()

    stage.run(main())
    assert seen == [(None, True)]


@pytest.mark.parametrize(
    "call",
    [
        lambda loop: loop.run_in_executor(None, print),
        lambda loop: loop.create_connection(None, "127.0.0.1", 1),
        lambda loop: loop.subprocess_exec(None, "ls"),
        lambda loop: loop.add_reader(0, print),
        lambda loop: loop.add_signal_handler(2, print),
        lambda loop: loop.sock_recv(None, 1),
        lambda loop: loop.run_until_complete(None),
        lambda loop: loop.set_task_factory(None),
    ],
)
def test_calls_that_reach_the_world_name_themselves_and_the_line(stage, call):
    """Each raises `NondeterminismError` with this file and line, and is recorded even though it is caught."""

    async def main():
        with pytest.raises(NondeterminismError) as caught:
            call(asyncio.get_running_loop())
        return str(caught.value)

    message = stage.run(main())
    assert message.startswith("loop.")
    assert f"{__file__}:{call.__code__.co_firstlineno}" in message
    assert stage.loop.violations == [message]


def test_to_thread_names_the_users_line(stage):
    """The line is the user's, not asyncio's."""

    async def main():
        await asyncio.to_thread(print)

    with pytest.raises(NondeterminismError, match=rf"run_in_executor.*{__file__}:{main.__code__.co_firstlineno + 1}"):
        stage.run(main())


def test_a_dropped_task_lives_on(stage):
    """A task nobody holds is not collected while it waits."""
    import gc

    log = []

    async def lonely():
        await asyncio.sleep(5)
        log.append("done")

    async def main():
        asyncio.create_task(lonely())  # noqa: RUF006 – that is the point
        await asyncio.sleep(1)
        for _ in range(40):
            await asyncio.create_task(asyncio.sleep(0))
        await asyncio.sleep(10)

    task = stage.start(main())
    while not task.done():
        gc.collect()
        stage.fire()
    assert log == ["done"]


def test_a_parked_loop_is_small():
    """A run that waits for days keeps a loop of less than a kilobyte."""
    import tracemalloc

    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    loops = [WorkflowLoop(start_timer=print, cancel_timer=print, now=float) for _ in range(200)]
    each = (tracemalloc.get_traced_memory()[0] - before) / len(loops)
    tracemalloc.stop()
    assert each < 1024


# ---------------------------------------------------------------------------------------------------------------------- delays


@given(st.floats(min_value=0, max_value=1e9, exclude_min=True))
@example(5e-324)
@example(2.3)
@example(0.57)
def test_a_delay_is_never_early_and_less_than_a_microsecond_late(delay):
    """Rounded up to whole microseconds, save for the grain of the float itself."""
    exact = delay * 1e6
    assert exact - 2 * math.ulp(exact) <= microseconds(delay) <= exact + 1 + 2 * math.ulp(exact)
    assert microseconds(delay) >= 1


@given(st.integers(0, 10**15), st.integers(1, 10**12))
def test_call_at_a_time_plus_a_delay_is_that_delay(now_us, delay_us):
    """`call_at(time() + delay)` is the same timer as `call_later(delay)`, whatever floats make of the sum."""
    started = []
    loop = WorkflowLoop(
        start_timer=lambda us, _s, _t: started.append(us), cancel_timer=lambda _t: None, now=lambda: now_us / 1e6
    )
    loop.call_at(loop.time() + delay_us / 1e6, print)
    grain_us = 2 * math.ulp(now_us / 1e6 + delay_us / 1e6) * 1e6
    assert abs(started[0] - delay_us) <= math.ceil(grain_us) if grain_us > 0.5 else started == [delay_us]
    loop.close()


@pytest.mark.scenario(84)
def test_delays_past_every_calendar_never_end_and_never_reach_the_runner(stage):
    """Infinite and year-10000 sleeps wait without a timer; NaN is refused."""

    async def main():
        asyncio.get_running_loop().call_later(math.inf, print)
        timer = asyncio.get_running_loop().call_later(1e300, print)
        timer.cancel()
        with pytest.raises(ValueError, match="NaN"):
            asyncio.get_running_loop().call_later(math.nan, print)
        await asyncio.sleep(math.inf)

    task = stage.start(main())
    assert not task.done()
    assert (stage.timers, stage.cancelled) == ([], [])
    assert microseconds(math.inf) == NEVER_US
