"""A child as the code of its parent sees it: asked for, started, over. Implements `sdk.context.ChildRun`."""

import asyncio
from typing import TYPE_CHECKING

from perdure.core import commands as cm
from perdure.core.events import ChildClosed, ChildStarted, ChildStartFailed

if TYPE_CHECKING:
    from perdure.replay.run_context import RunContext


class Child:
    """The runner calls `has_started` and `is_over` with what it is fed; any number of tasks may wait for either."""

    __slots__ = ("_asked", "_cancelled", "_context", "_over", "_started", "_waiting")

    def __init__(self, context: "RunContext", command: cm.RequestChild) -> None:
        self._context = context
        self._started: ChildStarted | None = None
        self._over: ChildClosed | ChildStartFailed | None = None
        self._cancelled = False
        self._waiting: list[tuple[asyncio.Future[None], bool]] = []
        """Whom to wake, and whether its start is enough."""
        self._asked = context.matcher.ask(command, self)

    @property
    def number(self) -> int:
        return self._asked.event_id

    @property
    def futures(self) -> "list[asyncio.Future[None]]":
        """Whom its start or end wakes."""
        return [future for future, _ in self._waiting]

    async def started(self) -> ChildStarted | ChildStartFailed | ChildClosed:
        if self._started is None and self._over is None:
            await self._wait(start_is_enough=True)
        answer = self._started or self._over
        assert answer is not None
        return answer

    async def over(self) -> ChildClosed | ChildStartFailed:
        if self._over is None:
            await self._wait(start_is_enough=False)
        assert self._over is not None
        return self._over

    async def _wait(self, *, start_is_enough: bool) -> None:
        future: asyncio.Future[None] = self._context.loop.create_future()
        self._waiting.append((future, start_is_enough))
        try:
            await future
        except asyncio.CancelledError:
            self.cancel("")
            raise

    def cancel(self, reason: str) -> None:
        if self._over is not None or self._cancelled:
            return
        self._cancelled = True
        context = self._context
        if not context.matcher.withdraw(self._asked):
            context.matcher.ask(cm.CancelChild(at=context.at, target=0, reason=reason), target=self._asked)

    # ------------------------------------------------------------------------------------------------------------- feeding

    def has_started(self, event: ChildStarted) -> None:
        self._started = event
        kept: list[tuple[asyncio.Future[None], bool]] = []
        for future, start_is_enough in self._waiting:
            if not start_is_enough:
                kept.append((future, False))
            elif not future.done():
                future.set_result(None)
        self._waiting = kept

    def is_over(self, event: ChildClosed | ChildStartFailed) -> None:
        self._over = event
        waiting, self._waiting = self._waiting, []
        for future, _ in waiting:
            if not future.done():
                future.set_result(None)
