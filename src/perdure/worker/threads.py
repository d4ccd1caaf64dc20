"""Threads for sync activities. They are daemons: a function that never returns cannot keep the process from ending.

The pools of `concurrent.futures` are joined when the interpreter exits, however stuck their threads are; these are just left. A function
that was cut short therefore may be stopped anywhere, as by a crash, and its attempt is one that was lost.
"""

import logging
import os
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

log = logging.getLogger(__name__)


def end_if_forked(pid: int) -> None:
    """End this process if it is not `pid`: an activity forked it and came back here, where the loop and its connections are another's."""
    if os.getpid() != pid:
        log.error(
            "an activity returned in a process it had forked (pid %d), which ends here: it must call os._exit", os.getpid()
        )
        os._exit(1)


class Returned:
    """What a function gave or raised, as a value: a future cannot carry StopIteration, and a loop ends with some of the others."""

    __slots__ = ("error", "result")

    def __init__(self, result: Any, error: BaseException | None) -> None:
        self.result = result
        self.error = error


def returned(fn: Callable[..., Any], args: Any, kwargs: Any) -> Returned:
    """Call `fn`; whatever it raises is returned."""
    try:
        return Returned(fn(*args, **kwargs), None)
    except BaseException as error:  # noqa: BLE001 – handed over, not swallowed
        return Returned(None, error)


class DaemonThreads(Executor):
    """Up to `limit` threads, made when needed and kept. Callers submit no more than that at once; more would wait in line."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._lock = Lock()
        self._idle = 0
        self._count = 0
        self._ended = False
        self._pid = os.getpid()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        with self._lock:
            if self._ended:
                raise RuntimeError("the worker's threads have ended")
            if self._idle:
                self._idle -= 1
            elif self._count < self._limit:
                Thread(target=self._run, name=f"perdure-activity-{self._count + 1}", daemon=True).start()
                self._count += 1  # only now: a thread the system refused takes no place
            self._work.put((future, lambda: fn(*args, **kwargs)))
        return future

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            future, call = item
            if future.set_running_or_notify_cancel():
                outcome = returned(call, (), {})
                end_if_forked(self._pid)
                with self._lock:
                    self._idle += 1
                if outcome.error is None:
                    future.set_result(outcome.result)
                else:
                    future.set_exception(outcome.error)
                del outcome
            else:
                with self._lock:
                    self._idle += 1
            del item, future, call  # an idle thread holds nothing

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002
        """Threads end when what they run does; nobody waits for them, whatever is asked."""
        with self._lock:
            ended, self._ended = self._ended, True
            if not ended:
                for _ in range(self._count):
                    self._work.put(None)
