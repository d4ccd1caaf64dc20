"""An event loop under one seed: virtual time, no I/O, no threads, and the seed picks which ready callback runs next.

It also knows *processes*: every callback and task belongs to the one in which it was made, and a process can be frozen, thawed and killed
at any instant, so that a whole node with its workers lives and dies inside one thread. A killed process runs no further line of code.
"""

import asyncio
import heapq
import random
from asyncio import events
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from math import ceil
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any, Final, NoReturn, Self, TypeVar

from perdure.replay.teardown import forget

T = TypeVar("T")

TURNS_MAX: Final = 50_000
"""Callbacks at one instant of virtual time; more are a loop without end."""

WORLD: Final = "world"
"""The process nobody kills: clients, the outside world, the hand that does the faults."""


_COROUTINE: Final[Any] = CoroutineType
_SUSPENDABLE: Final[Any] = (CoroutineType, GeneratorType, AsyncGeneratorType)


class DeadlockError(AssertionError):
    """Nothing is ready and no timer is set: whatever is still awaited will never come."""


class LivelockError(AssertionError):
    """Callbacks go on and on, and time does not."""


class SeededHandle(asyncio.TimerHandle):
    """One callback, and the process it belongs to."""

    __slots__ = ("process",)

    def __init__(
        self,
        callback: Callable[..., Any],
        args: tuple[Any, ...],
        loop: "SeededLoop",
        context: Context | None,
        when: float,
        process: str,
    ) -> None:
        super().__init__(when, callback, args, loop, context)
        self.process = process


class SeededFuture(asyncio.Future[Any]):
    """Remembers who made it: what a dead process left unseen is nobody's error."""

    def __init__(self, *, loop: "SeededLoop") -> None:
        self.process = loop.process
        super().__init__(loop=loop)


class SeededTask(asyncio.Task[T]):
    """A task belongs to the process that made it, whoever wakes it."""

    def __init__(self, coro: Coroutine[Any, Any, T], *, loop: "SeededLoop", process: str, **keywords: Any) -> None:
        self.process = process
        super().__init__(coro, loop=loop, **keywords)


class SeededLoop(asyncio.AbstractEventLoop):
    """Runs one coroutine to its end. `now` is in microseconds since the epoch; `shuffle` off: callbacks run in the order they came."""

    def __init__(self, chance: random.Random, start: int, *, shuffle: bool = True) -> None:
        self._chance = chance
        self._shuffle = shuffle
        self.start = start
        self.now = start
        self.process = WORLD
        self.turns = 0
        """Callbacks run so far."""
        self.errors: list[str] = []
        """Errors nobody looked at, of processes that live."""
        self._ready: list[SeededHandle] = []
        self._timers: list[tuple[int, int, SeededHandle]] = []
        self._serial = 0
        self._frozen: dict[str, list[SeededHandle]] = {}
        self._dead: set[str] = set()
        self._tasks: list[SeededTask[Any]] = []
        self._since = 0
        """Callbacks run before this instant."""
        self._trip_at = 0
        self._trip: Callable[[], None] | None = None
        self._running = False
        self._closed = False

    @classmethod
    def of(cls, chance: random.Random, start: int, *, shuffle: bool = True) -> Self:
        """A loop; sockets, signals and subprocesses, which asyncio's loops also have, are left out on purpose."""
        return cls(chance, start, shuffle=shuffle)

    # -------------------------------------------------------------------------------------------------------------- running

    def run_until_complete(self, future: Any) -> Any:
        """Run until it is done. Raises `DeadlockError` when it never will be."""
        events._set_running_loop(self)
        self._running = True
        try:
            main = self.create_task(future)
            while not main.done():
                self._turn()
            return main.result()
        finally:
            self._running = False
            events._set_running_loop(None)

    def _turn(self) -> None:
        if not self._ready:
            self._next_timer()
            return
        handle = self._pick()
        process = handle.process
        if handle._cancelled or process in self._dead:
            return
        if process in self._frozen:
            self._frozen[process].append(handle)
            return
        self.turns += 1
        if self.turns - self._since > TURNS_MAX:
            raise LivelockError(f"{TURNS_MAX} callbacks at one instant; the next one is {handle!r} of {process}")
        self.process = process
        handle._run()
        if self.turns == self._trip_at:
            self.process = WORLD
            trip, self._trip = self._trip, None
            if trip is not None:
                trip()

    def _pick(self) -> SeededHandle:
        ready = self._ready
        if not self._shuffle:
            return ready.pop(0)
        last = len(ready) - 1
        if last:
            place = int(self._chance.random() * (last + 1))
            ready[place], ready[last] = ready[last], ready[place]
        return ready.pop()

    def _next_timer(self) -> None:
        timers = self._timers
        while timers and (timers[0][2]._cancelled or timers[0][2].process in self._dead):
            heapq.heappop(timers)
        if not timers:
            raise DeadlockError("nothing is ready and no timer is set")
        self.now = max(self.now, timers[0][0])
        self._since = self.turns
        while timers and timers[0][0] <= self.now:
            self._ready.append(heapq.heappop(timers)[2])

    def trip(self, turns: int, action: Callable[[], None]) -> None:
        """Do `action` in the world after so many more callbacks: between any two of them, in the middle of whatever goes on."""
        self._trip_at, self._trip = self.turns + turns, action

    # ------------------------------------------------------------------------------------------------------------ processes

    @contextmanager
    def inside(self, process: str) -> Iterator[None]:
        """What is made in this block belongs to `process`."""
        outer, self.process = self.process, process
        try:
            yield
        finally:
            self.process = outer

    def freeze(self, process: str) -> None:
        """Run nothing of it until it is thawed; time goes on."""
        if process not in self._dead:
            self._frozen.setdefault(process, [])

    def thaw(self, process: str) -> None:
        self._ready += self._frozen.pop(process, [])

    def kill(self, process: str) -> None:
        """It never runs again; its coroutines are dropped where they stand, without a `finally`."""
        self._dead.add(process)
        self._frozen.pop(process, None)
        for task in self._tasks:
            if task.process == process and not task.done():
                _forget(task)
        self._tasks = [task for task in self._tasks if task.process != process and not task.done()]

    def lives(self, process: str) -> bool:
        return process not in self._dead

    # ----------------------------------------------------------------------------------------------------------- scheduling

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> SeededHandle:  # type: ignore[override]
        handle = self._handle(callback, args, context, 0.0)
        if not self._closed and handle.process not in self._dead:
            self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> SeededHandle:
        return self.at(self.now + max(0, ceil(delay * 1e6)), callback, *args, context=context)

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> SeededHandle:  # type: ignore[override]
        return self.at(self.start + ceil(when * 1e6 - 1e-3), callback, *args, context=context)

    def at(self, instant: int, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> SeededHandle:
        """Call back when `now` has reached `instant`."""
        handle = self._handle(callback, args, context, (instant - self.start) / 1e6)
        if not self._closed and handle.process not in self._dead:
            self._serial += 1
            heapq.heappush(self._timers, (instant, self._serial, handle))
        return handle

    def _handle(
        self, callback: Callable[..., Any], args: tuple[Any, ...], context: Context | None, when: float
    ) -> SeededHandle:
        owner = getattr(callback, "__self__", None)
        process = owner.process if type(owner) is SeededTask else self.process
        return SeededHandle(callback, args, self, context if context is not None else copy_context(), when, process)

    def time(self) -> float:
        return (self.now - self.start) / 1e6

    def create_future(self) -> "asyncio.Future[Any]":
        return SeededFuture(loop=self)

    def create_task(self, coro: Any, **keywords: Any) -> "SeededTask[Any]":
        task: SeededTask[Any] = SeededTask(coro, loop=self, process=self.process, **keywords)
        self._tasks.append(task)
        if len(self._tasks) > 500:
            self._tasks = [held for held in self._tasks if not held.done()]
        return task

    def get_task_factory(self) -> None:
        return None

    def run_in_executor(self, *_: Any) -> NoReturn:  # type: ignore[override]
        raise RuntimeError("there are no threads in a simulation: its activities are async")

    # ---------------------------------------------------------------------------------------------------------------- state

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        task = context.get("task") or context.get("future")
        if getattr(task, "process", self.process) in self._dead or self._closed:
            return
        self.errors.append(f"{context.get('message')}: {context.get('exception')!r}")

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Drop whatever is left without running it. Idempotent."""
        self._closed = True
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            if not task.done():
                _forget(task)
        self._ready, self._timers = [], []
        self._frozen = {}

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled handles are passed over when their time comes."""


def _forget(task: "SeededTask[Any]") -> None:
    """Let go of a task's coroutine, of whatever it awaits, and of coroutines it holds and never awaited, without running a line."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    suspended: Any = task.get_coro()
    while suspended is not None:
        if isinstance(suspended, _SUSPENDABLE):
            forget(suspended)
            _forget_held(suspended)
        suspended = (
            getattr(suspended, "cr_await", None)
            or getattr(suspended, "gi_yieldfrom", None)
            or getattr(suspended, "ag_await", None)
        )


def _forget_held(suspended: Any) -> None:
    frame = getattr(suspended, "cr_frame", None)
    if frame is not None:
        value: Any
        for value in frame.f_locals.values():
            if isinstance(value, _COROUTINE) and value.cr_frame is not None and not value.cr_running:
                forget(value)


class LoopClock:
    """`ports.Clock` of everything on a `SeededLoop`."""

    def __init__(self, loop: SeededLoop) -> None:
        self._loop = loop

    def now(self) -> int:
        return self._loop.now

    def not_before(self, instant: int) -> None:
        """A loop's time never goes back, over a restart neither."""

    def call_at(self, instant: int, callback: Callable[[], None]) -> SeededHandle:
        return self._loop.at(instant, callback)

    async def sleep(self, duration: int) -> None:
        if duration <= 0:
            await asyncio.sleep(0)
            return
        done = self._loop.create_future()
        wake = self._loop.at(self._loop.now + duration, _finish, done)
        try:
            await done
        finally:
            wake.cancel()


def _finish(done: "asyncio.Future[None]") -> None:
    if not done.done():
        done.set_result(None)
