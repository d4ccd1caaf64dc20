"""Threads of sync activities: reused, bounded, daemons, and able to hand over whatever is raised."""

import threading

import pytest

from perdure.worker.threads import DaemonThreads, returned


def test_threads_are_daemons_and_used_again():
    """One after the other: one thread. None is joined when the interpreter ends."""
    threads = DaemonThreads(3)
    seen = [threads.submit(threading.current_thread).result(5) for _ in range(10)]
    assert len(set(seen)) <= 2  # the first may not have sat down yet when the second call comes
    assert all(thread.daemon for thread in seen)
    threads.shutdown()
    for thread in seen:
        thread.join(5)
        assert not thread.is_alive()


def test_as_many_at_once_as_asked_for_and_no_more():
    """All `limit` calls run together; the next one waits for a thread."""
    threads = DaemonThreads(3)
    together, release = threading.Barrier(4), threading.Event()

    def meet() -> None:
        together.wait(5)
        release.wait(5)

    futures = [threads.submit(meet) for _ in range(3)]
    together.wait(5)
    late = threads.submit(int)
    assert not late.running()
    release.set()
    assert late.result(5) == 0
    assert [future.result(5) for future in futures] == [None] * 3
    threads.shutdown()


def test_what_is_raised_is_carried():
    """StopIteration too, which no asyncio future takes."""
    for kind in (StopIteration, KeyboardInterrupt, GeneratorExit, ValueError):
        error = kind("x")
        assert returned(error.__class__.mro, (), {}).error is None
        assert returned(_raise, (error,), {}).error is error


def _raise(error: BaseException) -> None:
    raise error


def test_ended_threads_take_nothing():
    """A worker that has stopped runs no more."""
    threads = DaemonThreads(1)
    threads.shutdown()
    with pytest.raises(RuntimeError, match="ended"):
        threads.submit(int)
