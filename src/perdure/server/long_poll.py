"""Waits that a request may ask for: bounded in number and time, over at once when the caller leaves or the node stops.

Giving up a wait never touches what is waited for.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

from perdure.core.errors import ResourceExhausted, Unavailable

T = TypeVar("T")


class CallerGone(Exception):  # noqa: N818  nobody is told
    """The caller has left: there is no one to answer."""


class LongPolls:
    """The waits of one application. `end` them all, once, when it stops."""

    def __init__(self, waits_max: int) -> None:
        self._waits_max = waits_max
        self.waiting = 0
        """How many there are."""
        self._ended = asyncio.Event()

    @property
    def has_ended(self) -> bool:
        """True once no wait is taken any more."""
        return self._ended.is_set()

    async def ended(self) -> None:
        """Until `end` is called."""
        await self._ended.wait()

    def end(self) -> None:
        """Let every wait come to nothing, now and from now on. Idempotent."""
        self._ended.set()

    async def wait(self, work: Coroutine[Any, Any, T], seconds: float, receive: Receive) -> T | None:
        """What `work` gives, or None when it gives nothing in time or the node is stopping; `work` is cancelled then.

        Raises what `work` raises, `ResourceExhausted` when too many wait, `CallerGone` when the caller hangs up meanwhile.
        """
        if self.waiting >= self._waits_max:
            work.close()
            raise ResourceExhausted(f"{self._waits_max} requests wait already (http.waits_max)")
        loop = asyncio.get_running_loop()
        done = loop.create_task(work, name="perdure long poll")
        gone = loop.create_task(hung_up(receive), name="perdure long poll: caller")
        ended = loop.create_task(self.ended(), name="perdure long poll: end")
        self.waiting += 1
        try:
            await asyncio.wait((done, gone, ended), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if done.done():
                return self._outcome(done)
            if gone.done():
                raise CallerGone
            return None
        finally:
            self.waiting -= 1
            for task in (done, gone, ended):
                task.cancel()
            await asyncio.wait((done, gone, ended))

    def _outcome(self, done: "asyncio.Task[T]") -> T | None:
        """An engine that stops with the node tells whoever waits so; that is no fault of theirs."""
        if self.has_ended and isinstance(done.exception(), Unavailable):
            return None
        return done.result()


async def hung_up(receive: Receive) -> None:
    """Until the caller has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
