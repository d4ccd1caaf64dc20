"""Where the tasks of a warm run stand: the lines of the author's code each is suspended at, and what it awaits there. Runs none of it."""

import asyncio
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from perdure.core import commands as cm
from perdure.replay.frames import source_of, user_frames
from perdure.replay.handles import LoopTimer
from perdure.replay.runner import Runner

if TYPE_CHECKING:
    from collections.abc import Sequence

FRAMES_MAX: Final = 20
"""Lines told of one task, the outermost first."""


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line of the author's code at which a task is suspended; `source` is empty when the file cannot be read."""

    file: str
    line: int
    function: str
    source: str


@dataclass(frozen=True, slots=True)
class TaskStack:
    """One task that has not ended: `lines`, the outermost first, and what the innermost one awaits, in words; `event_id`: its command's."""

    name: str
    awaits: str
    event_id: int
    lines: tuple[CodeLine, ...]


def task_stacks(runner: Runner) -> list[TaskStack]:
    """Every task of the run that has not ended, main first, else in the order in which they began."""
    known = _Awaited(runner)
    tasks = [task for task in runner.context.loop.tasks if not task.done()]
    return [_stack(task, known, tasks) for task in tasks]


def _stack(task: "asyncio.Task[Any]", known: "_Awaited", tasks: "Sequence[asyncio.Task[Any]]") -> TaskStack:
    frames = _frames(task.get_coro())
    awaits, event_id = known.in_words(getattr(task, "_fut_waiter", None), tasks)
    return TaskStack(task.get_name(), awaits, event_id, tuple(map(_line, user_frames(frames)[:FRAMES_MAX])))


def _frames(awaitable: Any) -> list[FrameType]:
    """Frames of what is suspended, the outermost first: a coroutine, generator or async generator, and whatever it awaits."""
    frames: list[FrameType] = []
    while awaitable is not None and len(frames) < 1_000:
        frame = _first(awaitable, "cr_frame", "ag_frame", "gi_frame")
        if frame is None:
            break
        frames.append(frame)
        awaitable = _first(awaitable, "cr_await", "ag_await", "gi_yieldfrom")
    return frames


def _first(thing: Any, *names: str) -> Any:
    return next((found for name in names if (found := getattr(thing, name, None)) is not None), None)


def _line(frame: FrameType) -> CodeLine:
    code = frame.f_code
    return CodeLine(code.co_filename, frame.f_lineno, code.co_qualname, source_of(code.co_filename, frame.f_lineno))


class _Awaited:
    """What the futures of a run stand for."""

    def __init__(self, runner: Runner) -> None:
        context = runner.context
        self._futures: dict[int, tuple[str, int]] = {}
        for number, asked in runner.matcher.waiters.items():
            self._note(asked.waiter, asked.command, number)
        for asked in runner.matcher.new:
            self._note(asked.waiter, asked.command, 0)
        for name, line in (context.signals or {}).items():
            for future in line.waiting:
                self._futures[id(future)] = (f"signal {name!r}", 0)
        for wait in context.predicates.waits() if context.predicates is not None else ():
            self._futures[id(wait)] = ("the condition of wait_until", 0)

    def _note(self, waiter: Any, command: Any, number: int) -> None:
        words = (_in_words(command), number)
        if isinstance(waiter, LoopTimer):
            for one in waiter.wakes:
                self._futures[id(one)] = words
        elif isinstance(command, cm.RequestChild):
            for one in waiter.futures:
                self._futures[id(one)] = words
        else:
            self._futures[id(waiter)] = words

    def in_words(self, future: Any, tasks: "Sequence[asyncio.Task[Any]]") -> tuple[str, int]:
        """What a task that is suspended on `future` waits for, and the number of the command that asked for it."""
        known = self._futures.get(id(future))
        if known is not None:
            return known
        if isinstance(future, asyncio.Task):
            return f"task {future.get_name()!r}", 0
        awaited = [task.get_name() for task in getattr(future, "_children", ()) if task in tasks]
        if awaited:
            return f"tasks {', '.join(map(repr, awaited))}", 0
        return "something of its own code (an asyncio event, lock, queue or future)", 0


def _in_words(command: Any) -> str:
    name = getattr(command, "name", "") or getattr(command, "workflow_type", "")
    kind = _KINDS.get(command.__class__) or str(command.type).replace("_", " ")
    return f"{kind} {name!r}" if name else kind


_KINDS: Final[dict[type, str]] = {
    cm.ScheduleActivity: "activity",
    cm.StartTimer: "timer",
    cm.RequestChild: "child",
    cm.SignalExternal: "signal to another run:",
    cm.CancelExternal: "cancel of another run",
}
