"""What `workflow.wait_until` waits for: conditions of the author's, tried after each input until none turns true.

They are tried in the order in which they were registered; the first that holds wakes its waiter, which runs to idle before any other is
tried. So whoever is woken finds its condition true. A run in which nobody waits has none of this.
"""

import inspect
from collections.abc import Callable
from contextvars import Context, copy_context
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final

from perdure.core.errors import InvalidArgument
from perdure.replay.interrupts import is_interrupt

if TYPE_CHECKING:
    import asyncio

    from perdure.replay.run_context import RunContext

PLACE: Final = "a wait_until predicate"

WAKES_MAX: Final = 100_000
"""Waiters woken after one input; a run that needs more passes conditions to and fro for ever."""


class Predicates:
    """Those of one run. `run` is called when the run is idle, `wait` by its code."""

    __slots__ = ("_context", "_waits")

    def __init__(self, context: "RunContext") -> None:
        self._context = context
        self._waits: list[_Wait] = []

    async def wait(self, predicate: Callable[[], object]) -> None:
        """Return when `predicate` holds, at once when it does already. What it raises is raised here."""
        context = self._context
        try:
            if context.read_only(PLACE, _holds, predicate):
                return
        finally:
            self._note_spoiled()
        wait = _Wait(predicate, context.loop.create_future(), copy_context())
        self._waits.append(wait)
        try:
            await wait.future
        finally:
            self._waits.remove(wait)

    def waits(self) -> "list[asyncio.Future[None]]":
        """Whom a condition is going to wake."""
        return [wait.future for wait in self._waits]

    def places(self) -> list[str]:
        """Where the conditions that wait are written, each once."""
        return sorted({_place(wait.predicate) for wait in self._waits if not wait.future.done()})

    def run(self) -> None:
        """Try them all until none turns true. When nobody waits any more, the run has none."""
        loop = self._context.loop
        wakes = 0
        while self._wake_first():
            wakes += 1
            if wakes > WAKES_MAX:
                loop.violations.append(
                    f"workflow code never comes to rest: {WAKES_MAX:,} conditions of wait_until turned true after one input"
                )
                return
            loop.run_until_idle()
        if not self._waits:
            self._context.predicates = None

    def _wake_first(self) -> bool:
        return any(not wait.future.done() and self._try(wait) for wait in self._waits)

    def _try(self, wait: "_Wait") -> bool:
        context = self._context
        try:
            if not context.loop.call_inside(wait.context.run, context.read_only, PLACE, _holds, wait.predicate):
                return False
            wait.future.set_result(None)
        except BaseException as error:
            if is_interrupt(error):
                raise
            self._note_spoiled()
            wait.future.set_exception(RuntimeError(f"{PLACE} raised {error!r}") if _untellable(error) else error)
        return True

    def _note_spoiled(self) -> None:
        """What was woken half-way before it was refused: this memory of the run is of no use, and its code has to be mended."""
        loop = self._context.loop
        if loop.spoiled:
            loop.violations.append(f"waking or scheduling something is not allowed in {PLACE}")


class _Wait:
    __slots__ = ("context", "future", "predicate")

    def __init__(self, predicate: Callable[[], object], future: "asyncio.Future[None]", context: Context) -> None:
        self.predicate = predicate
        self.future = future
        self.context = context


def _place(predicate: Callable[[], object]) -> str:
    if isinstance(predicate, MethodType):
        predicate = predicate.__func__
    if not isinstance(predicate, FunctionType):
        return type(predicate).__qualname__  # an author's object is not asked: no code of the run runs here
    code = predicate.__code__
    return f"{code.co_qualname.replace('.<locals>.<lambda>', '')}:{code.co_firstlineno}"


def _holds(predicate: Callable[[], Any]) -> bool:
    found = predicate()
    if found is True or found is False:
        return found
    if inspect.isawaitable(found):
        if inspect.iscoroutine(found):
            found.close()
        raise InvalidArgument("wait_until takes a plain function: its predicate gave something to await")
    return bool(found)


def _untellable(error: BaseException) -> bool:
    """A future takes no StopIteration: it would end the coroutine that awaits it."""
    return isinstance(error, StopIteration)
