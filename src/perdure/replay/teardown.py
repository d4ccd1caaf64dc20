"""Evicting a run: let go of its suspended coroutines without running another line of the user's code.

CPython resumes a suspended frame with GeneratorExit when it is freed, so that `finally` blocks run – for a run that is only put aside,
that would be wrong at a random moment. The interpreter finalizes an object at most once and keeps a bit for it beside the object; with
the bit set, freeing a frame just drops what it holds. There is no API to set it, so `forget` does, on interpreters whose layout is known
and was probed at import (`FORGETS`). Elsewhere `finally` blocks do run, but on a closed loop with every guard up: commands, tasks and
I/O are refused, errors go nowhere.

What the walk does not reach (frames in objects that the user's code also keeps in module state, or in reference cycles) dies later in
that same harmless way, outside every activation.
"""

import asyncio
import ctypes
import gc
import sys
import sysconfig
import threading
from collections.abc import Coroutine, Generator, Iterable
from contextlib import contextmanager
from types import AsyncGeneratorType, CoroutineType, GeneratorType, ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from perdure.replay.loop import WorkflowLoop

_WALK_MAX: Final = 20_000
"""Objects looked at in one teardown; what lies beyond is left to the harmless way."""

_SUSPENDABLE: Final[Any] = (CoroutineType, GeneratorType, AsyncGeneratorType)
_NO_ENTRY: Final = (type, ModuleType)
_ALONE: Final[list[Any]] = [[]]
_OURS: Final = sys.getrefcount(_ALONE[0])
"""What the count says of an object that one list holds and nothing else."""


class _Header(ctypes.Structure):
    """The last word before a collectable object; its lowest bit says that the object was finalized."""

    _fields_ = (("finalized", ctypes.c_size_t, 1),)


_HEADER_SIZE: Final = ctypes.sizeof(_Header)


def _known_layout() -> bool:
    return (
        sys.implementation.name == "cpython"
        and (3, 11) <= sys.version_info < (3, 15)
        and sys.byteorder == "little"
        and ctypes.sizeof(ctypes.c_void_p) == _HEADER_SIZE
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
        and not sysconfig.get_config_var("Py_TRACE_REFS")
    )


def forget(suspended: object) -> None:
    """Mark a coroutine, generator or async generator so that freeing it runs nothing and warns of nothing.

    The bit is set by one C call under the interpreter lock, so no other thread can be in the middle of changing that word.
    """
    if FORGETS:
        _Header.from_address(id(suspended) - _HEADER_SIZE).finalized = 1


def _probe() -> bool:
    """Try it on a generator of our own."""
    ran: list[bool] = []

    def suspended() -> Generator[None, None, None]:
        try:
            yield
        finally:
            ran.append(True)

    if not _known_layout():
        return False
    probe = suspended()
    next(probe)
    if gc.is_finalized(probe):
        return False
    _Header.from_address(id(probe) - _HEADER_SIZE).finalized = 1
    seen = gc.is_finalized(probe)
    del probe
    return seen and not ran


FORGETS: bool = _probe()
"""True where eviction runs no `finally` block at all."""


async def _ended() -> None:
    """Takes the place of a coroutine that was let go."""


_ENDED: Final[Coroutine[Any, Any, None]] = _ended()
_ENDED.close()


_any_asyncio: Any = asyncio
_cancel: Final[Any] = _any_asyncio.Future.cancel
_build_anew: Final[Any] = _any_asyncio.Task.__init__


def release(loop: "WorkflowLoop", tasks: Iterable["asyncio.Task[Any]"]) -> None:
    """Let go of the coroutines of `tasks`, which belong to the closed `loop`. Raises nothing, schedules nothing, logs nothing."""
    pending: list[Any] = [task for task in tasks if not task.done()]
    if not pending:
        return
    coroutines: list[Any] = [task.get_coro() for task in pending]
    if FORGETS:
        _Walk(coroutines).run()
    with _quiet():
        for task in pending:
            _end(loop, task)
        while coroutines:
            coroutines.pop()


def _end(loop: "WorkflowLoop", task: Any) -> None:
    """Cut the references between a task, its coroutine and what it waits for, so that memory is freed now and not by the collector.

    Built anew around `_ENDED` a task drops its coroutine; the cancel of the *future* part ends it without a step.
    """
    waits_for = getattr(task, "_fut_waiter", None)
    serial = task.serial
    del (
        task.serial
    )  # asyncio enters it in its set of all tasks once more: by its address, or all runs' first tasks collide there
    _build_anew(task, _ENDED, loop=loop, name=task.get_name())
    task.serial = serial
    task._log_destroy_pending = False
    _cancel(task)
    if isinstance(waits_for, asyncio.Future) and not isinstance(waits_for, asyncio.Task):
        _cancel(waits_for)


class _Walk:
    """Forgets suspended frames that die with a run: awaited ones, and those in objects that nobody else holds.

    An object is entered once as many references to it were met as it has; so what others hold as well is never looked into.
    """

    def __init__(self, coroutines: list[Any]) -> None:
        self._met: dict[int, list[Any]] = {}
        """Id → the object and the references met, -1 once it was entered."""
        self._to_visit: list[Any] = []
        for coroutine in coroutines:
            self._enter([coroutine, 0])

    def run(self) -> None:
        while self._to_visit and len(self._met) < _WALK_MAX:
            for entry in self._referents(self._to_visit.pop()):
                if entry[1] >= 0 and (isinstance(entry[0], _SUSPENDABLE) or sys.getrefcount(entry[0]) - _OURS == entry[1]):
                    self._enter(entry)

    def _referents(self, visited: Any) -> list[list[Any]]:
        """Count the references of `visited`. The list that `gc` makes holds some too; it is gone when this returns."""
        touched: list[list[Any]] = []
        for found in gc.get_referents(visited):
            if gc.is_tracked(found) and not isinstance(found, _NO_ENTRY):
                entry = self._met.setdefault(id(found), [found, 0])
                if entry[1] >= 0:
                    entry[1] += 1
                    touched.append(entry)
        return touched

    def _enter(self, entry: list[Any]) -> None:
        found = entry[0]
        entry[1] = -1
        self._met[id(found)] = entry
        self._to_visit.append(found)
        if isinstance(found, _SUSPENDABLE):
            forget(found)


_quiet_lock: Final = threading.Lock()


@contextmanager
def _quiet() -> Generator[None, None, None]:
    """Errors that finalizers of this thread raise meanwhile go nowhere; those of other threads are reported as ever."""
    thread = threading.get_ident()
    with _quiet_lock:
        reported = sys.unraisablehook

        def report(unraisable: "sys.UnraisableHookArgs") -> None:
            if threading.get_ident() != thread:
                reported(unraisable)

        sys.unraisablehook = report
        try:
            yield
        finally:
            sys.unraisablehook = reported
