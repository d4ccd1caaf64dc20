"""A thread with an event loop of its own, for callers that do not await. It never runs callers' code and holds no process open."""

import asyncio
import concurrent.futures
import os
import threading
from asyncio.events import _get_running_loop
from collections.abc import Coroutine
from typing import Any, TypeVar

from perdure.core.errors import Unavailable

T = TypeVar("T")


class LoopThread:
    """Begins with the first call and ends with `stop`. Calls may come from any number of threads at once.

    The thread is a daemon: a program that forgets to stop it ends all the same. It does not survive a fork: the child needs another.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._asked_to_stop = asyncio.Event()
        self.stopped = False

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Run `call` there and wait for what it gives or raises. Whatever interrupts the wait (Ctrl-C) cancels the call.

        Raises `Unavailable` when the thread has stopped, or stops meanwhile.
        """
        with self._lock:
            if self.stopped:
                call.close()
                raise Unavailable("the client is closed")
            future = asyncio.run_coroutine_threadsafe(call, self._loop or self._begin())
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise Unavailable("the client was closed meanwhile") from None
        except BaseException:
            future.cancel()
            raise

    def _begin(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, args=(loop,), name=self._name, daemon=True)
        self._thread.start()
        self._loop = loop
        return loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:  # its end cancels what is under way
            runner.run(self._until_stopped())

    async def _until_stopped(self) -> None:
        await self._asked_to_stop.wait()

    def stop(self) -> None:
        """Cancel what is under way and end the thread. Returns when it has ended, unless it is that thread that asks. Idempotent."""
        thread = self.dismiss()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def dismiss(self) -> threading.Thread | None:
        """Have the thread end, without waiting for it. Does nothing in the child of a fork, where it is not."""
        if self._pid != os.getpid():
            return None
        with self._lock:
            loop = None if self.stopped else self._loop
            self.stopped = True
            if loop is not None:
                loop.call_soon_threadsafe(self._asked_to_stop.set)
            return self._thread


def refuse_in_loop(call: str) -> None:
    """Raise `RuntimeError` where an event loop runs on this thread: the call would hold up everything on it, perhaps its own answer."""
    if _get_running_loop() is not None:
        raise RuntimeError(
            f"{call} blocks, and an event loop runs on this thread: await the same call of a client from perdure.connect(), "
            f"or leave this one to a thread (asyncio.to_thread)"
        )
