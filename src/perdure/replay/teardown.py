"""Evicting a run: let go of its suspended coroutines without running another line of the user's code.

CPython resumes a suspended frame with GeneratorExit when it is freed, so that `finally` blocks run – for a run that is only put aside,
that would be wrong at a random moment. The interpreter finalizes an object at most once and keeps a bit for it beside the object; with
the bit set, freeing a frame just drops what it holds. There is no API to set it, so `forget` does, on interpreters whose layout is known
and was probed at import (`FORGETS`). Elsewhere `finally` blocks do run, but on a closed loop with every guard up: commands, tasks and
I/O are refused, errors go nowhere.

What the walk does not reach (objects the user's code also keeps in module state, or in reference cycles) dies later in that same
harmless way, outside every activation.
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
_OWNED: Final = 3 if sys.version_info < (3, 14) else 2
"""References to an object with one owner, as counted below: the owner, the list of referents, the loop variable (borrowed by 3.14)."""


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
        _forget_all(coroutines)
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
    _build_anew(task, _ENDED, loop=loop, name=task.get_name())
    task._log_destroy_pending = False
    _cancel(task)
    if isinstance(waits_for, asyncio.Future) and not isinstance(waits_for, asyncio.Task):
        _cancel(waits_for)


def _forget_all(coroutines: list[Any]) -> None:
    """Forget `coroutines` and every suspended frame they own: awaited ones, and those held only by objects held only by them."""
    for coroutine in coroutines:
        if isinstance(coroutine, _SUSPENDABLE):
            forget(coroutine)
    to_visit = list(coroutines)
    seen = {id(coroutine) for coroutine in coroutines}
    while to_visit and len(seen) < _WALK_MAX:
        for found in gc.get_referents(to_visit.pop()):
            if id(found) in seen or isinstance(found, _NO_ENTRY):
                continue
            if isinstance(found, _SUSPENDABLE):
                forget(found)
            elif sys.getrefcount(found) > _OWNED + 1 or not gc.is_tracked(found):
                continue
            seen.add(id(found))
            to_visit.append(found)


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
