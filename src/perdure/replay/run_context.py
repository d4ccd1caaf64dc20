"""What workflow code reaches through the sdk's verbs: the run's side of `sdk.context.WorkflowContext`.

Every method either reads what was fed or asks the matcher for a command; none knows a clock, chance or I/O.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Generator
from functools import lru_cache
from random import Random
from typing import Any, Final, NoReturn, TypeVar

from msgspec.structs import replace

from perdure.core import commands as cm
from perdure.core.errors import LimitExceeded, NondeterminismError
from perdure.core.events import Attribute, SignalReceived, Started
from perdure.core.failure import Failure
from perdure.core.machine.attributes import beyond, merged
from perdure.core.payload import NULL, Payload
from perdure.core.requests import SetAside
from perdure.replay.children import Child
from perdure.replay.frames import user_line
from perdure.replay.handles import LoopTimer
from perdure.replay.interrupts import is_interrupt
from perdure.replay.loop import WorkflowLoop
from perdure.replay.matcher import Asked, Matcher
from perdure.replay.predicates import Predicates
from perdure.sdk.context import ActivityAnswer, ExternalAnswer, WorkflowInfo
from perdure.sdk.exceptions import to_raisable
from perdure.sdk.failures import to_failure
from perdure.sdk.payload_bound import lower

T = TypeVar("T")

MAKING: Final = "__init__ of a workflow"
SIDE_EFFECT: Final = "the function of a side_effect"
AWAITS_MAX: Final = 20
"""So many of the signals and conditions a run waits for are told; only people look at them."""
_MAY_DRAW: Final = (MAKING, SIDE_EFFECT)
"""The read-only place in which chance may be drawn: it is passed once in every life of a run."""


class ContinueAsNewRequested(BaseException):
    """Leaves workflow code on its way out; BaseException, so that `except Exception` does not stop it."""

    def __init__(self, command: cm.ContinueAsNew) -> None:
        super().__init__("continue as new")
        self.command = command


class RunContext:
    """One run, as its own code sees it. `at`, `time`, `covered` and `news` are set by the runner before each input."""

    __slots__ = (
        "_random",
        "at",
        "attributes",
        "changes",
        "covered",
        "datetimes",
        "definition",
        "handlers_running",
        "history_bytes",
        "instance",
        "loop",
        "matcher",
        "namespace",
        "news",
        "predicates",
        "run_id",
        "seed",
        "set_aside",
        "signals",
        "started",
        "time",
        "workflow_id",
    )

    def __init__(self, namespace: str, workflow_id: str, started: Started, matcher: Matcher, definition: Any) -> None:
        self.namespace = namespace
        self.workflow_id = workflow_id
        self.started = started
        lower(started.limits.payload_bytes_max)  # else what is refused would depend on which nodes this process has seen
        self.matcher = matcher
        self.definition = definition
        self.run_id = started.origin_run_id or started.run_id
        self.seed = started.seed
        self.attributes = started.attributes
        self.datetimes = started.attribute_datetimes
        self.at = 0
        self.time = started.time + started.start_delay
        self.covered = 0
        self.news = False
        """What is being run, an input or an accepted update, belongs to no accepted decision."""
        self.history_bytes = 0
        self.changes: dict[str, int] | None = None
        self.signals: dict[str, _Line] | None = None
        self.instance: Any = None
        """The object of a workflow class, once it is made."""
        self.handlers_running = 0
        """Handlers that have begun and not ended."""
        self.predicates: Predicates | None = None
        """What `wait_until` waits for; None while nobody does."""
        self.set_aside: list[SetAside] | None = None
        """Signals that did not fit their handlers, to be noted with the next decision."""
        self._random: Random | None = None
        self.loop = WorkflowLoop(start_timer=self._start_timer, cancel_timer=self._cancel_timer, now=self.elapsed)
        self.loop.workflow_context = self

    def elapsed(self) -> float:
        """Seconds since the run's start: the loop's clock."""
        return (self.time - self.started.time) / 1_000_000

    # ------------------------------------------------------------------------------------------------------- reading

    def info(self) -> WorkflowInfo:
        started = self.started
        parent = started.parent
        return WorkflowInfo(
            namespace=self.namespace,
            workflow_id=self.workflow_id,
            run_id=self.run_id,
            type=started.workflow_type,
            queue=started.queue,
            attempt=started.attempt,
            started_at=started.time,
            parent=None if parent is None else (parent.workflow_id, parent.run_id),
            memo=started.memo,
            attributes=self.attributes,
            datetimes=self.datetimes,
            history_length=self.at,
            history_bytes=self.history_bytes,
            continue_as_new_suggested=self.at >= started.limits.history_warn,
        )

    def now(self) -> int:
        return self.time

    def reset(self, run_id: str, seed: int) -> None:
        """From here on the code sees another run's id and chance; before, it saw those of the run that was reset."""
        self.run_id, self.seed = run_id, seed
        if self._random is not None:
            self._random.seed(seed)

    def random(self) -> Random:
        if self.loop.place and self.loop.place not in _MAY_DRAW:
            self.refuse_asking("drawing chance")
        if self._random is None:
            self._random = Random(self.seed)  # noqa: S311 – the run's own, seeded generator: determinism, not secrecy
        return self._random

    def is_replaying(self) -> bool:
        return not self.news

    # ------------------------------------------------------------------------------------------------------ read-only places

    def make(self, cls: type) -> Any:
        """The run's instance. What its `__init__` raises is the run's affair."""
        self.instance = self.read_only(MAKING, cls)
        return self.instance

    def read_only(self, place: str, function: Callable[..., T], *args: Any) -> T:
        """Call, inside an activation, what may look at the run but ask nothing of it: no commands, tasks, wakes, chance.

        Raises `NondeterminismError`, naming the place, when it tries.
        """
        asked = len(self.matcher.asked)
        drawn = self._random.getstate() if self._random is not None and place != MAKING else None
        try:
            return self.loop.read_only(place, function, *args)
        finally:
            if len(self.matcher.asked) != asked:
                del self.matcher.asked[asked:]
                raise NondeterminismError(f"asking for something durable is not allowed in {place}")
            if drawn is not None and self._random is not None and self._random.getstate() != drawn:
                self._random.setstate(drawn)
                raise NondeterminismError(f"drawing chance is not allowed in {place}")

    def refuse_asking(self, what: str) -> None:
        """Raise where code may ask for nothing. `what` is asked for now."""
        if self.loop.place:
            raise NondeterminismError(f"{what} is not allowed in {self.loop.place} ({user_line(sys._getframe(1))})")

    async def wait_until(self, predicate: Callable[[], object]) -> None:
        if self.predicates is None:
            self.predicates = Predicates(self)
        await self.predicates.wait(predicate)

    # ---------------------------------------------------------------------------------------------- activities, timers

    async def activity(self, command: cm.ScheduleActivity) -> ActivityAnswer:
        future: asyncio.Future[ActivityAnswer] = self.loop.create_future()
        asked = self.matcher.ask(command, future)
        try:
            return await future
        except asyncio.CancelledError:
            if command.on_cancel == "abandon":
                raise
            if future.done() and not future.cancelled():  # both in one breath: there is nothing left to cancel
                if command.on_cancel == "wait":
                    return future.result()
                raise
            if self.matcher.withdraw(asked):
                raise
            self.matcher.ask(cm.CancelActivity(at=self.at, target=0), target=asked)
            if command.on_cancel == "try":
                raise
        return await self._ended(asked)

    async def _ended(self, asked: Asked) -> ActivityAnswer:
        """Wait for the end of an activity that was asked to stop. Cancelled meanwhile, the waiting task is cancelled again behind that end."""
        again = False
        while True:
            future: asyncio.Future[ActivityAnswer] = self.loop.create_future()
            asked.waiter = future
            try:
                answer = await future
            except asyncio.CancelledError:
                again = True
                if not future.done() or future.cancelled():
                    continue
                answer = future.result()
            task = asyncio.current_task()
            if again and task is not None:
                task.cancel()
            return answer

    def child(self, command: cm.RequestChild) -> Child:
        return Child(self, command)

    async def external(self, command: cm.SignalExternal | cm.CancelExternal) -> ExternalAnswer:
        future: asyncio.Future[ExternalAnswer] = self.loop.create_future()
        asked = self.matcher.ask(command, future)
        try:
            return await future
        except asyncio.CancelledError:
            self.matcher.withdraw(asked)
            raise

    async def sleep(self, delay: int, summary: str = "") -> None:
        if delay <= 0:
            await asyncio.sleep(0)
            return
        future = self.loop.create_future()
        timer = self.loop.start_timer(delay, _wake, future, summary=summary)
        try:
            await future
        finally:
            timer.cancel()

    def _start_timer(self, delay_us: int, summary: str, timer: LoopTimer) -> None:
        timer.token = self.matcher.ask(cm.StartTimer(at=self.at, delay=delay_us, summary=summary), timer)

    def _cancel_timer(self, timer: LoopTimer) -> None:
        asked: Asked = timer.token
        if not self.matcher.withdraw(asked):
            self.matcher.ask(cm.CancelTimer(at=self.at, target=0), target=asked)

    # --------------------------------------------------------------------------------------------------------- signals

    def receive(self, name: str) -> "Reception":
        return Reception(self, self.line(name))

    def line(self, name: str) -> "_Line":
        if self.signals is None:
            self.signals = {}
        line = self.signals.get(name)
        if line is None:
            line = self.signals[name] = _Line()
        return line

    def signalled(self, signal: SignalReceived) -> None:
        """A signal was fed: hand it to whoever waits longest, else keep it."""
        line = self.line(signal.name)
        while line.waiting:
            future = line.waiting.pop(0)
            if not future.done():
                future.set_result(signal)
                return
        line.kept.append(signal)

    def kept_again(self, signal: SignalReceived) -> None:
        """A signal whose taker was cancelled before it saw it: the next in line gets it, or it is the first kept."""
        line = self.line(signal.name)
        while line.waiting:
            future = line.waiting.pop(0)
            if not future.done():
                future.set_result(signal)
                return
        line.kept.appendleft(signal)

    def put_aside(self, aside: SetAside) -> None:
        """A signal's value did not fit its handler. Noted once: a decision that was made already has noted it."""
        if aside.command > self.covered:
            self.set_aside = [*(self.set_aside or ()), aside]

    def untaken(self) -> tuple[SignalReceived, ...]:
        """Signals fed that no code took, in history order."""
        kept = [signal for line in (self.signals or {}).values() for signal in line.kept]
        return tuple(sorted(kept, key=lambda signal: signal.id))

    def awaits(self) -> tuple[str, ...]:
        """What the code waits for that it asked nobody for: signals by name and conditions by place, as the note `Seen` has them."""
        if self.signals is None and self.predicates is None:
            return ()
        waiting = (self.signals or {}).items()
        names = sorted(name for name, line in waiting if any(not future.done() for future in line.waiting))
        places = self.predicates.places() if self.predicates is not None else []
        return _shared(tuple([f"signal {name}" for name in names] + [f"condition {place}" for place in places])[:AWAITS_MAX])

    # ------------------------------------------------------------------------------------------- versions, side effects

    def version(self, change_id: str, lowest: int, highest: int) -> int:
        self.refuse_asking("version()")
        if self.changes is None:
            self.changes = {}
        taken = self.changes.get(change_id)
        if taken is None:
            taken = self.changes[change_id] = self._first_version(change_id, highest)
        if not lowest <= taken <= highest:
            message = f"the run took version {taken} of {change_id!r}; this code knows {lowest} to {highest}"
            self.loop.violations.append(message)
            raise NondeterminismError(message)
        return taken

    def _first_version(self, change_id: str, highest: int) -> int:
        marker = self.matcher.marker(change_id, self.at)
        if marker is not None:
            taken = marker.version
        elif not self.matcher.expected and self.news:
            taken = highest
        else:
            return 0
        self.matcher.ask(cm.MarkVersion(at=self.at, change_id=change_id, version=taken))
        return taken

    def side_effect(self, produce: Callable[[], Payload]) -> Payload:
        self.refuse_asking("side_effect()")
        recorded = self.matcher.side_effect(self.at)
        result, failure = self._tried(produce) if recorded is None else (recorded.result, recorded.failure)
        self.matcher.ask(cm.RecordSideEffect(at=self.at, result=result, failure=failure))
        if failure is not None:
            raise to_raisable(failure)  # also the first time: what is raised must be the same in every replay
        return result

    def _tried(self, produce: Callable[[], Payload]) -> tuple[Payload, Failure | None]:
        """What the function gives or raises. What must not be asked for in it is recorded as little as anywhere else."""
        try:
            return self._produced(produce), None
        except NondeterminismError:
            raise
        except BaseException as error:
            if is_interrupt(error):
                raise
            return NULL, to_failure(error)

    def _produced(self, produce: Callable[[], Payload]) -> Payload:
        """Call what no replay calls again: it may ask for nothing, and the chance it draws is not the run's own, which stands still."""
        kept, seed = self._random, self.seed
        state = kept.getstate() if kept is not None else None
        # Numbers only, so the same in any process; no two calls of a run share them.
        self._random, self.seed = None, hash((seed, self.at, self.loop.last_serial, len(self.matcher.asked)))
        try:
            return self.loop.read_only(SIDE_EFFECT, produce)
        finally:
            self._random, self.seed = kept, seed
            if kept is not None and state is not None:
                kept.setstate(state)  # the code may hold it

    # ------------------------------------------------------------------------------------------- what others see of it

    def set_attributes(self, attributes: dict[str, Attribute], datetimes: tuple[str, ...]) -> None:
        self.refuse_asking("set_attributes()")
        command = cm.SetAttributes(at=self.at, attributes=attributes, datetimes=datetimes)
        after, named = merged(self.attributes, self.datetimes, command)
        limits = self.started.limits
        if fault := beyond(after, limits.attributes_max, limits.attribute_bytes_max):
            raise LimitExceeded(f"with set_attributes the run has {fault}")
        self.matcher.ask(command)
        self.attributes, self.datetimes = after, named

    def set_details(self, details: str) -> None:
        self.refuse_asking("set_details()")
        self.matcher.ask(cm.SetDetails(at=self.at, details=details))

    # ---------------------------------------------------------------------------------------------------------- the end

    def continue_as_new(self, command: cm.ContinueAsNew) -> NoReturn:
        self.refuse_asking("continue_as_new()")
        raise ContinueAsNewRequested(replace(command, at=self.at))


class _Line:
    """Signals of one name: those nobody took yet, and those who wait for one."""

    __slots__ = ("kept", "waiting")

    def __init__(self) -> None:
        self.kept: deque[SignalReceived] = deque()
        self.waiting: list[asyncio.Future[SignalReceived]] = []


class Reception:
    """Waits for one signal. When the wait is cancelled at the very moment the signal came, the signal is kept for the next one."""

    __slots__ = ("_context", "_line")

    def __init__(self, context: RunContext, line: _Line) -> None:
        self._context = context
        self._line = line

    def __await__(self) -> Generator[Any, None, SignalReceived]:
        line = self._line
        if line.kept:
            return line.kept.popleft()
        future: asyncio.Future[SignalReceived] = self._context.loop.create_future()
        line.waiting.append(future)
        try:
            return (yield from future.__await__())
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._context.kept_again(future.result())
            raise


@lru_cache(maxsize=1_000)
def _shared(awaits: tuple[str, ...]) -> tuple[str, ...]:
    """The same object for equal ones: thousands of parked runs wait for the same signal."""
    return awaits


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
