"""Finds activations that do not come back: workflow code that computes for ever, or blocks in C.

The thread that runs workflow code only writes down that an activation began and ended. One daemon thread looks at the notes now and
then and reads the CPU clocks of those threads: CPU time, so that a starved machine accuses nobody; wall time only when it is ten
limits. It reports, it never interrupts.
"""

import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from threading import get_ident
from time import clock_gettime, monotonic
from types import FrameType, TracebackType
from typing import Final, Protocol

from msgspec import Struct

from perdure.replay.frames import user_frame

LIMIT_S: Final = 2.0
_FACTOR: Final = 10


class BlockedLoop(Struct, frozen=True, kw_only=True):
    """An activation that has run too long. Seconds are since the watchdog first saw it, so a little less than the truth."""

    label: str
    cpu_s: float | None
    """None where the system has no CPU clock for each thread."""
    wall_s: float
    file: str
    line: int
    function: str

    def __str__(self) -> str:
        used = f"{self.wall_s:.1f} s" if self.cpu_s is None else f"{self.cpu_s:.1f} s of CPU in {self.wall_s:.1f} s"
        return f"{self.label} blocks its thread: {used}, now in {self.function} ({self.file}:{self.line})"


class Clocks(Protocol):
    """Where the watchdog reads time."""

    def wall(self) -> float: ...

    def cpu_clock_of_this_thread(self) -> int | None:
        """A handle for `cpu`, or None where there is none."""
        ...

    def cpu(self, clock: int) -> float: ...


class SystemClocks:
    """The real ones."""

    def wall(self) -> float:
        return monotonic()

    def cpu_clock_of_this_thread(self) -> int | None:
        # Asked by the thread itself: for a thread that has ended, the C library may crash.
        if hasattr(time, "pthread_getcpuclockid"):
            return time.pthread_getcpuclockid(get_ident())
        return None

    def cpu(self, clock: int) -> float:
        return clock_gettime(clock)


class WatchedThread:
    """One thread that runs workflow code. It writes `label` and `number`; all else is the watchdog's."""

    __slots__ = ("began_cpu", "began_wall", "clock", "label", "number", "reported", "seen")

    def __init__(self, clock: int | None) -> None:
        self.clock = clock
        self.label: str | None = None
        self.number = 0
        self.seen = 0
        self.began_wall = 0.0
        self.began_cpu = 0.0
        self.reported = 0

    def begin(self, label: str) -> None:
        """An activation of the run `label` begins."""
        self.number += 1
        self.label = label

    def end(self) -> None:
        """It came back."""
        self.label = None


class Watchdog:
    """Reports each activation that uses more than `limit_s` of CPU, once, and again past ten limits.

    `report` is called on the watchdog's thread and must return soon; what it raises is dropped, the watch goes on.
    """

    def __init__(self, limit_s: float, report: Callable[[BlockedLoop], None], *, clocks: Clocks | None = None) -> None:
        self._limit_s = limit_s
        self._report = report
        self._clocks = clocks or SystemClocks()
        self._threads: dict[int, WatchedThread] = {}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def begin(self, label: str) -> None:
        """An activation of the run `label` begins on this thread."""
        self.this_thread().begin(label)

    def end(self) -> None:
        """It came back."""
        self._threads[get_ident()].label = None

    def this_thread(self) -> "WatchedThread":
        """Where this thread writes down its activations itself: for callers that stay on it."""
        watched = self._threads.get(get_ident())
        if watched is None:
            watched = self._threads[get_ident()] = WatchedThread(self._clocks.cpu_clock_of_this_thread())
        return watched

    def watch(self, label: str) -> AbstractContextManager[None]:
        """`begin` and `end` around a block."""
        return _Watch(self, label)

    def forget_thread(self) -> None:
        """This thread runs no more workflow code."""
        self._threads.pop(get_ident(), None)

    def start(self) -> None:
        """Start the thread unless it runs. It looks four times a limit."""
        with self._starting:
            if self._thread is None:
                self._stopping.clear()
                self._thread = threading.Thread(target=self._run, name="perdure-watchdog", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Stop the thread and wait for it. Idempotent."""
        with self._starting:
            thread, self._thread = self._thread, None
            self._stopping.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._limit_s / 4):
            self.look()

    def look(self) -> None:
        """Look at every thread once; what the watchdog's own thread does at each tick."""
        for ident, watched in list(self._threads.items()):
            blocked = self._judge(ident, watched)
            if blocked is not None:
                self._tell(blocked)

    def _tell(self, blocked: BlockedLoop) -> None:
        with suppress(Exception):  # a failing report must not end the watch; the reporter owns its errors
            self._report(blocked)

    def _judge(self, ident: int, watched: WatchedThread) -> BlockedLoop | None:
        label, number = watched.label, watched.number
        if label is None:
            return None
        wall = self._clocks.wall()
        cpu = self._cpu(ident, watched)
        if number != watched.seen:
            watched.seen, watched.began_wall, watched.began_cpu, watched.reported = number, wall, cpu or 0.0, 0
            return None
        wall_s, cpu_s = wall - watched.began_wall, None if cpu is None else cpu - watched.began_cpu
        level = self._level(wall_s, cpu_s)
        if level <= watched.reported or (frame := sys._current_frames().get(ident)) is None:
            return None
        if watched.number != number or watched.label is None:
            return None
        watched.reported = level
        return _blocked(label, cpu_s, wall_s, frame)

    def _cpu(self, ident: int, watched: WatchedThread) -> float | None:
        if watched.clock is None:
            return None
        try:
            return self._clocks.cpu(watched.clock)
        except OSError:
            self._threads.pop(ident, None)  # the thread has ended
            return None

    def _level(self, wall_s: float, cpu_s: float | None) -> int:
        """0 fine, 1 blocked, 2 hopeless."""
        used = wall_s if cpu_s is None else cpu_s
        if used > self._limit_s * _FACTOR:
            return 2
        return 1 if used > self._limit_s or wall_s > self._limit_s * _FACTOR else 0


class _Watch:
    def __init__(self, watchdog: Watchdog, label: str) -> None:
        self._watchdog = watchdog
        self._label = label

    def __enter__(self) -> None:
        self._watchdog.begin(self._label)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._watchdog.end()


def _blocked(label: str, cpu_s: float | None, wall_s: float, frame: FrameType) -> BlockedLoop:
    found = user_frame(frame) or frame
    code = found.f_code
    return BlockedLoop(
        label=label, cpu_s=cpu_s, wall_s=wall_s, file=code.co_filename, line=found.f_lineno, function=code.co_qualname
    )
