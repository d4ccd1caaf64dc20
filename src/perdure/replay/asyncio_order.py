"""`asyncio.wait` and `asyncio.as_completed` in argument order on a workflow's loop.

Both put their arguments into a set and iterate it, in the order of addresses for coroutines and calls; tasks made from them would be
numbered differently on every replay. On every other loop the originals run, untouched.
"""

import asyncio
import inspect
from asyncio.events import _get_running_loop
from collections.abc import Awaitable, Iterable
from functools import wraps
from typing import Any, Final

from perdure.replay.loop import WorkflowLoop

_WHEN: Final = (asyncio.FIRST_COMPLETED, asyncio.FIRST_EXCEPTION, asyncio.ALL_COMPLETED)


def install() -> None:
    """Replace both, in `asyncio` and where asyncio itself looks for them. Idempotent."""
    tasks: Any = asyncio.tasks
    if not hasattr(tasks.wait, "__wrapped__"):
        asyncio.wait = tasks.wait = _ordered_wait(tasks.wait, tasks._wait)
        asyncio.as_completed = tasks.as_completed = _ordered_as_completed(tasks.as_completed)


def _ordered_wait(original: Any, wait_for_all: Any) -> Any:
    @wraps(original)
    async def wait(
        fs: Iterable["asyncio.Future[Any]"],
        *,
        timeout: float | None = None,
        return_when: str = asyncio.ALL_COMPLETED,
    ) -> tuple[set[Any], set[Any]]:
        loop = _get_running_loop()
        if not isinstance(loop, WorkflowLoop):
            done: tuple[set[Any], set[Any]] = await original(fs, timeout=timeout, return_when=return_when)
            return done
        if asyncio.isfuture(fs) or asyncio.iscoroutine(fs):
            raise TypeError(f"expect a list of futures, not {type(fs).__name__}")
        futures = list(dict.fromkeys(fs))
        if not futures:
            raise ValueError("Set of Tasks/Futures is empty.")
        if return_when not in _WHEN:
            raise ValueError(f"Invalid return_when value: {return_when}")
        if any(asyncio.iscoroutine(future) for future in futures):
            raise TypeError("Passing coroutines is forbidden, use tasks explicitly.")
        done = await wait_for_all(futures, timeout, return_when, loop)
        return done  # noqa: RET504 – typed above

    return wait


def _ordered_as_completed(original: Any) -> Any:
    @wraps(original)
    def as_completed(fs: Iterable[Awaitable[Any]], *, timeout: float | None = None) -> Any:
        loop = _get_running_loop()
        if not isinstance(loop, WorkflowLoop):
            return original(fs, timeout=timeout)
        if inspect.isawaitable(fs):
            raise TypeError(f"expects an iterable of awaitables, not {type(fs).__name__}")
        return _AsCompleted(loop, fs, timeout)

    return as_completed


class _AsCompleted:
    """Results in the order in which they come: by `for` as awaitables of results, by `async for` as the futures themselves."""

    def __init__(self, loop: WorkflowLoop, awaitables: Iterable[Awaitable[Any]], timeout: float | None) -> None:
        self._done: asyncio.Queue[asyncio.Future[Any] | None] = asyncio.Queue()
        futures = [asyncio.ensure_future(awaitable, loop=loop) for awaitable in dict.fromkeys(awaitables)]
        self._todo: dict[asyncio.Future[Any], None] = dict.fromkeys(futures)
        self._left = len(self._todo)
        for future in self._todo:
            future.add_done_callback(self._completed)
        self._timer = loop.call_later(timeout, self._timed_out) if self._todo and timeout is not None else None

    def __iter__(self) -> "_AsCompleted":
        return self

    def __aiter__(self) -> "_AsCompleted":
        return self

    def __next__(self) -> Awaitable[Any]:
        if not self._left:
            raise StopIteration
        self._left -= 1
        return self._next_result()

    async def __anext__(self) -> "asyncio.Future[Any]":
        if not self._left:
            raise StopAsyncIteration
        self._left -= 1
        return await self._next_future()

    async def _next_result(self) -> Any:
        return (await self._next_future()).result()

    async def _next_future(self) -> "asyncio.Future[Any]":
        future = await self._done.get()
        if future is None:
            raise TimeoutError
        return future

    def _completed(self, future: "asyncio.Future[Any]") -> None:
        if self._todo:
            del self._todo[future]
            self._done.put_nowait(future)
            if not self._todo and self._timer is not None:
                self._timer.cancel()

    def _timed_out(self) -> None:
        for future in self._todo:
            future.remove_done_callback(self._completed)
            self._done.put_nowait(None)
        self._todo.clear()
