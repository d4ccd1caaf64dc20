"""The event loop of one run. It knows no clock, no I/O and no other thread: callbacks run first in, first out, until none is left.

The runner feeds an input (sets a future, fires a timer), calls `run_until_idle`, and reads what was asked for meanwhile. A run parked
for days keeps its loop, so it holds little; it is never running between activations. Whatever user code leaves behind after `close`
can schedule nothing.
"""

import asyncio
import math
import sys
from asyncio.events import _get_running_loop, _set_running_loop
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, Final, TypeAlias, TypeVar

from msgspec import Struct

from perdure.core.errors import NondeterminismError
from perdure.replay.activation import ACTIVE
from perdure.replay.asyncgens import hook
from perdure.replay.collection import COLLECTING, collecting_here
from perdure.replay.frames import BOUNDARIES, suspended_line, user_line
from perdure.replay.handles import LoopTimer, ReadyHandle
from perdure.replay.interrupts import is_interrupt
from perdure.replay.loop_tasks import WorkflowFuture, WorkflowTask
from perdure.replay.refused_calls import RefusedCalls
from perdure.replay.teardown import forget, release

T = TypeVar("T")

RECORDED_MAX: Final = 100
"""Unhandled errors and violations kept of a run; more say nothing new."""

CALLBACKS_MAX: Final = 1_000_000
"""Callbacks of one activation, about a second of them; code that needs more will never need less, and blocks its thread for all others."""

NEVER_US: Final = 250_000_000_000_000_000
"""Delays of this many microseconds (8,000 years) and more never end: no calendar has their date."""

READ_ONLY: Final = "a query, validator or predicate"
"""Where code may look at the run and ask nothing of it."""

_PRUNE_TASKS_AT: Final = 8


class Unhandled(Struct, frozen=True):
    """An error no code of the run looked at: what asyncio said of it, and the exception if there was one."""

    message: str
    exception: BaseException | None = None


class WorkflowLoop(RefusedCalls):
    """A deterministic asyncio loop.

    `start_timer(delay_us, summary, timer)` and `cancel_timer(timer)` are called at the moment user code asks; `now()` gives seconds
    since the run's start and may only change between activations.
    """

    __slots__ = (
        "_accepts",
        "_cancel_timer",
        "_closed",
        "_now",
        "_prune_at",
        "_ready",
        "_serial",
        "_start_timer",
        "_task_number",
        "_tasks",
        "importing",
        "place",
        "spoiled",
        "unguarded_depth",
        "unhandled",
        "violations",
        "workflow_context",
    )

    def __init__(
        self,
        *,
        start_timer: Callable[[int, str, LoopTimer], None],
        cancel_timer: Callable[[LoopTimer], None],
        now: Callable[[], float],
    ) -> None:
        self._start_timer = start_timer
        self._cancel_timer = cancel_timer
        self._now = now
        self._ready: list[ReadyHandle] = []
        self._tasks: list[WorkflowTask[Any]] = []
        self._prune_at = _PRUNE_TASKS_AT
        self._serial = 0
        self._task_number = 0
        self._closed = False
        self._accepts = True
        self.workflow_context: Any = None
        self.unguarded_depth = 0
        """Above zero while perdure's own work runs inside an activation."""
        self.importing = False
        """True once this activation began to import a module: guards then look whether they are asked by it."""
        self.place = ""
        """The read-only place whose code runs now, in words; empty everywhere else."""
        self.spoiled = False
        """True once waking or scheduling was refused half-way (a query that set an event, say): the history is right, this memory of
        it may not be. The runner must be thrown away, and rebuilt by replay."""
        self.unhandled: list[Unhandled] = []
        self.violations: list[str] = []
        """What workflow code tried and was refused, each with its line; the run must be quarantined when there is any."""

    # ---------------------------------------------------------------------------------------------------------- activations

    def run_until_idle(self) -> None:
        """Run ready callbacks in order until none is left. Errors of callbacks go to `unhandled`; only Ctrl-C leaves.

        After `CALLBACKS_MAX` of them the rest is dropped, and a violation recorded.
        """
        if self._ready:
            outer = self._enter()
            try:
                self._run_ready()
            finally:
                self._leave(outer)

    def call_inside(self, function: Callable[..., T], *args: Any) -> T:
        """Call workflow code straight, with this loop running and guards up: for queries and predicates."""
        outer = self._enter()
        try:
            return function(*args)
        finally:
            self._leave(outer)

    def read_only(self, place: str, function: Callable[..., T], *args: Any) -> T:
        """Call, inside an activation, what may start or wake nothing: that raises `NondeterminismError` naming the `place`.

        It is no violation: nothing happened.
        """
        outer, self.place, self._accepts = self.place, place, False
        try:
            return function(*args)
        finally:
            self.place = outer
            self._accepts = not outer and not self._closed

    def _enter(self) -> "_Outer":
        """Become the running loop of this thread; what is to be put back later is returned."""
        loop = _get_running_loop()
        if ACTIVE and (self in ACTIVE or loop in ACTIVE):
            raise RuntimeError("workflow code cannot run inside workflow code")
        # From 3.14 on the thread, not the loop, remembers the current task.
        task = _swap(loop, None) if _PER_THREAD and loop is not None else None
        hooks = hook()
        _set_running_loop(self)
        ACTIVE.append(self)
        return loop, task, hooks

    def _leave(self, outer: "_Outer") -> None:
        loop, task, hooks = outer
        ACTIVE.remove(self)
        self.importing = False
        _set_running_loop(loop)
        if hooks is not None:
            sys.set_asyncgen_hooks(*hooks)
        if task is not None:
            _swap(loop, task)

    def _run_ready(self) -> None:
        left = CALLBACKS_MAX
        while self._ready:
            batch, self._ready = self._ready, []
            left -= len(batch)
            if left < 0:
                self._record_restless(batch)
                return
            for handle in batch:
                callback = handle.callback
                if callback is None:
                    continue
                try:
                    handle.context.run(callback, *handle.args)
                except BaseException as error:
                    if is_interrupt(error):
                        self._ready = []
                        raise
                    # A callback's error is the run's affair, never the worker's.
                    wrong = {"message": f"error in {callback!r}", "exception": error}
                    handle.context.run(self.call_exception_handler, wrong)

    def _record_restless(self, batch: list[ReadyHandle]) -> None:
        owners: list[Any] = [getattr(handle.callback, "__self__", None) for handle in batch]
        coroutines: list[Any] = [owner.get_coro() for owner in owners if isinstance(owner, asyncio.Task)]
        where = f" ({suspended_line(coroutines[0])})" if coroutines else ""
        self.violations.append(
            f"workflow code never comes to rest{where}: {CALLBACKS_MAX:,} callbacks ran and nothing durable was waited for;"
            " a loop needs a timer, a signal or a result to wait for, sleep(0) is none"
        )

    # ----------------------------------------------------------------------------------------------------------- scheduling

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> ReadyHandle:
        handle = ReadyHandle(callback, args, context if context is not None else copy_context())
        if self._closed:
            handle.cancel()
        elif not self._accepts or COLLECTING:
            self._check("waking a task")
            self._ready.append(handle)
        else:
            self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> LoopTimer | ReadyHandle:
        """A durable timer of `delay` seconds, rounded up to whole microseconds; zero or less is `call_soon`."""
        return self._call_in(microseconds(delay), self._now() + delay, callback, args, context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> LoopTimer | ReadyHandle:
        """A durable timer until `when` on this loop's clock. The float's own grain is no delay: `call_at(time() + 60)` is 60 s."""
        now = self._now()
        grain = math.ulp(when) + math.ulp(now) if math.isfinite(when) else 0.0
        return self._call_in(microseconds(when - now, grain), when, callback, args, context)

    def _call_in(
        self, delay_us: int, when: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> LoopTimer | ReadyHandle:
        if delay_us <= 0:
            return self.call_soon(callback, *args, context=context)
        return self.start_timer(delay_us, callback, *args, when=when, context=context)

    def start_timer(
        self,
        delay_us: int,
        callback: Callable[..., object],
        *args: Any,
        summary: str = "",
        when: float | None = None,
        context: Context | None = None,
    ) -> LoopTimer:
        """A timer of exactly `delay_us` > 0 microseconds with a `summary` for people; `call_later` has no room for one."""
        due = when if when is not None else self._now() + delay_us / 1e6
        timer = LoopTimer(self, due, callback, args, context if context is not None else copy_context())
        if delay_us >= NEVER_US or self._closed:
            timer.never = True
        else:
            self._check("starting a timer")
            self._start_timer(delay_us, summary, timer)
        return timer

    def timer_cancelled(self, timer: LoopTimer) -> None:
        """Called by the timer itself."""
        if not self._closed:
            self._check("cancelling a timer")
            self._cancel_timer(timer)

    def _check(self, what: str) -> None:
        """Refuse `what` where nothing may be scheduled: read-only code, a run put aside, finalizers run by the collector."""
        self.spoiled = self.spoiled or not self._accepts
        if COLLECTING and collecting_here():
            raise self.refuse(f"{what} from a finalizer that the garbage collector ran")
        if self._closed:
            raise NondeterminismError(f"{what}: the run was put aside")
        if not self._accepts:
            raise NondeterminismError(f"{what} is not allowed in {self.place or READ_ONLY} ({user_line(sys._getframe(2))})")

    def time(self) -> float:
        """Seconds since the run's start, as recorded in its history."""
        return self._now()

    # ----------------------------------------------------------------------------------------------------- futures and tasks

    @property
    def last_serial(self) -> int:
        """Of the future or task that was made last."""
        return self._serial

    def next_serial(self) -> int:
        """A number no other task or future of this run has; the same one on every replay."""
        self._serial += 1
        return self._serial

    def create_future(self) -> WorkflowFuture[Any]:
        future: WorkflowFuture[Any] = WorkflowFuture(loop=self)
        self._serial = future.serial = self._serial + 1
        return future

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None, **keywords: Any
    ) -> WorkflowTask[T]:
        """A task of this run, held until it is done. Unnamed ones are called Task-1, Task-2 … per run."""
        if not self._accepts or COLLECTING:
            self._check_task(coro)
        if name is None:
            self._task_number += 1
            name = f"Task-{self._task_number}"
        task: WorkflowTask[T] = WorkflowTask(coro, loop=self, name=name, context=context, **keywords)
        self._serial = task.serial = self._serial + 1
        self._hold(task)
        return task

    def _check_task(self, coro: Coroutine[Any, Any, Any]) -> None:
        try:
            self._check("creating a task")
        except NondeterminismError:
            forget(coro)  # it will never be awaited; the error says why
            raise

    def _hold(self, task: WorkflowTask[Any]) -> None:
        """The library holds tasks weakly; a run must not lose one at the collector's whim, and `close` must find them."""
        tasks = self._tasks
        tasks.append(task)
        if len(tasks) > self._prune_at:
            self._tasks = [held for held in tasks if not held.done()]
            self._prune_at = max(_PRUNE_TASKS_AT, 2 * len(self._tasks))

    @property
    def tasks(self) -> "list[WorkflowTask[Any]]":
        """Those held, in the order in which they were made; some may be done."""
        return list(self._tasks)

    def get_task_factory(self) -> None:
        return None

    # ---------------------------------------------------------------------------------------------------- errors and refusals

    def refuse(self, what: str) -> NondeterminismError:
        where = user_line(sys._getframe(1))
        message = f"{what} is not allowed in workflow code ({where}): move it into an activity"
        if len(self.violations) < RECORDED_MAX and not self._closed:
            self.violations.append(message)
        return NondeterminismError(message)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Errors nobody looked at are kept for the runner; never printed."""
        self._record(Unhandled(str(context.get("message", "unhandled error")), context.get("exception")))

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def get_exception_handler(self) -> None:
        return None

    def _record(self, unhandled: Unhandled) -> None:
        if len(self.unhandled) < RECORDED_MAX and not self._closed:
            self.unhandled.append(unhandled)

    # ------------------------------------------------------------------------------------------------------ async generators

    def finalize_asyncgen(self, asyncgen: AsyncGenerator[Any, Any]) -> None:
        """One was dropped before its end: close it in a task of its own, as asyncio does.

        That is deterministic only where reference counts drop it, inside this run's activation; elsewhere it just goes.
        """
        if not self._closed and self in ACTIVE and not (COLLECTING and collecting_here()):
            self.create_task(asyncgen.aclose(), name="close async generator")

    async def shutdown_asyncgens(self) -> None:
        """Nothing to do: `close` lets go of them without running them."""

    # ------------------------------------------------------------------------------------------------------------------ state

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        """Ignored: debug mode of asyncio reads the clock."""

    def is_running(self) -> bool:
        return self in ACTIVE

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Put the run aside: drop every task, callback and unhandled error without running user code. Idempotent.

        Raises RuntimeError inside an activation of this loop.
        """
        if self._closed:
            return
        if ACTIVE and (self in ACTIVE or _get_running_loop() in ACTIVE):
            raise RuntimeError("a workflow loop cannot be closed from workflow code")
        self._closed, self._accepts = True, False
        self._start_timer, self._cancel_timer, self._now = _no_timer, _no_cancel, _no_time
        self.workflow_context = None
        if any(not task.done() for task in self._tasks):
            self.call_inside(self._let_go)
        else:
            self._tasks, self._ready, self.unhandled = [], [], []

    def _let_go(self) -> None:
        tasks, self._tasks = self._tasks, []
        self._ready = []
        self.unhandled = []
        release(self, tasks)


_Outer: TypeAlias = tuple[asyncio.AbstractEventLoop | None, Any, Any]
_PER_THREAD: Final = sys.version_info >= (3, 14)
_swap: Final[Any] = getattr(asyncio.tasks, "_swap_current_task", None)

BOUNDARIES.update({WorkflowLoop._run_ready.__code__, WorkflowLoop.call_inside.__code__})


def microseconds(delay: float, grain: float = 0.0) -> int:
    """`delay` seconds in whole microseconds, never early; `NEVER_US` for what no calendar reaches. Raises ValueError for NaN.

    Only the error of the float itself (`grain` seconds, plus the multiplication's) is not rounded up.
    """
    if delay != delay:  # noqa: PLR0124 – true for NaN only
        raise ValueError("a delay must be a number, not NaN")
    exact = delay * 1e6
    if exact >= NEVER_US:
        return NEVER_US
    if exact <= 0:
        return 0
    nearest = round(exact)
    if nearest and abs(exact - nearest) <= grain * 1e6 + 2 * math.ulp(exact):
        return nearest
    return math.ceil(exact)


def _no_timer(_delay_us: int, _summary: str, _timer: LoopTimer) -> None: ...


def _no_cancel(_timer: LoopTimer) -> None: ...


def _no_time() -> float:
    return 0.0
