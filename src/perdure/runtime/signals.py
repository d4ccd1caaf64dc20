"""Signals that a process heeds on its loop, and that a child which user code forks does not heed in its place.

asyncio's handler writes the number of a signal into a socket that such a child shares. Without this a SIGTERM meant for the child, as when a
`multiprocessing.Pool` ends, leaves the child alone and stops the process that forked it.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from typing import Any, Final

_heeded: Final[set[int]] = set()


class _Forking(threading.local):
    mask: set[signal.Signals] | None = None
    """What the thread that forks held back before, while it holds back what is heeded."""


_forking: Final = _Forking()


def heed(number: int, told: Callable[..., Any], *args: Any) -> None:
    """From now on have the running loop call `told(*args)` for signal `number`. Needs the main thread."""
    asyncio.get_running_loop().add_signal_handler(number, told, *args)
    _heeded.add(number)


def heed_no_more(number: int) -> None:
    """Leave the signal to its default again."""
    _heeded.discard(number)
    asyncio.get_running_loop().remove_signal_handler(number)


def _hold_back() -> None:
    """Before a fork: a signal that reaches the child at once waits until that has its own ways."""
    if _heeded:
        _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _heeded)  # type: ignore[assignment]


def _let_go() -> None:
    mask, _forking.mask = _forking.mask, None
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _forget() -> None:
    """In the child, where no loop runs: signals do what they do to any process."""
    if _heeded:
        signal.set_wakeup_fd(-1)
        for number in _heeded:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        _heeded.clear()
    _let_go()


os.register_at_fork(before=_hold_back, after_in_parent=_let_go, after_in_child=_forget)
