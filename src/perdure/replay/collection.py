"""The garbage collector may strike inside any activation, on any thread, and run finalizers of anything in the process.

While it does, no workflow is running as far as those finalizers can see: the thread has no running loop, and whatever they try on the
loop of a run is refused. Reference counting needs no such care: what one run drops, it drops at the same place on every replay.
"""

import gc
from asyncio.events import _get_running_loop, _set_running_loop
from threading import get_ident
from typing import Any, Final

from perdure.replay.activation import ACTIVE

COLLECTING: Final[list[int]] = []
"""Holds the thread that is collecting, while it is. Collections do not nest and there is one collector a process."""

_interrupted: Final[list[Any]] = []


def install() -> None:
    """Watch the collector from now on. Idempotent."""
    if _on_collection not in gc.callbacks:
        gc.callbacks.append(_on_collection)


def collecting_here() -> bool:
    """True in a finalizer that the collector runs on this thread. Test `COLLECTING` first, it is cheaper."""
    return get_ident() in COLLECTING


def _on_collection(phase: str, _info: dict[str, int]) -> None:
    if phase == "start":
        COLLECTING.append(get_ident())
        loop: Any = _get_running_loop() if ACTIVE else None
        if loop is not None and loop in ACTIVE:
            _interrupted.append(loop)
            _set_running_loop(None)
    else:
        COLLECTING.clear()
        if _interrupted:
            _set_running_loop(_interrupted.pop())
