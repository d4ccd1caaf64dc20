"""Async generators dropped before their end, on a thread where a workflow's loop and the worker's own take turns.

Hooks belong to the thread and are slow to set, so while an outer loop runs they are replaced once by `AsyncgenHooks`, which hands the
outer loop what is its own. A generator is marked as a run's at its first step, in the only writable place that lives until its
finalizer: its qualified name.
"""

import sys
from asyncio.events import _get_running_loop
from collections.abc import Callable
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, Any, TypeAlias

from perdure.replay.activation import ACTIVE

if TYPE_CHECKING:
    from perdure.replay.loop import WorkflowLoop

AnyAsyncgen: TypeAlias = AsyncGeneratorType[Any, Any]


class _OwnedName(str):
    """A qualified name that knows the loop of the run whose generator bears it."""

    __slots__ = ("loop",)
    loop: "WorkflowLoop"


class AsyncgenHooks:
    """The hooks of one thread; callable as the finalizer. `firstiter` and `finalizer` are those found in place."""

    __slots__ = ("finalizer", "firstiter")

    def __init__(
        self, firstiter: Callable[[AnyAsyncgen], object] | None, finalizer: Callable[[AnyAsyncgen], object] | None
    ) -> None:
        self.firstiter = firstiter
        self.finalizer = finalizer

    def begin(self, asyncgen: AnyAsyncgen) -> None:
        """The first step of a generator."""
        loop: Any = _get_running_loop()
        if loop in ACTIVE:
            name = _OwnedName(asyncgen.__qualname__)
            name.loop = loop
            asyncgen.__qualname__ = name
        elif self.firstiter is not None:
            self.firstiter(asyncgen)

    def __call__(self, asyncgen: AnyAsyncgen) -> None:
        """It was dropped."""
        name = asyncgen.__qualname__
        if isinstance(name, _OwnedName):
            name.loop.finalize_asyncgen(asyncgen)
        elif self.finalizer is not None:
            self.finalizer(asyncgen)


def hook() -> Any:
    """Make this thread's hooks ours. Returns what `sys.set_asyncgen_hooks` needs to put back afterwards, or None for nothing.

    Nothing is put back while an outer loop runs: that loop sets its hooks when it starts and takes them away when it ends.
    """
    hooks = sys.get_asyncgen_hooks()
    finalizer: Any = hooks.finalizer
    if type(finalizer) is AsyncgenHooks:
        return None
    ours: Any = AsyncgenHooks(hooks.firstiter, finalizer)
    sys.set_asyncgen_hooks(firstiter=ours.begin, finalizer=ours)
    return None if finalizer is not None else hooks
