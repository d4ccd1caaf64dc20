"""Telling a real Ctrl-C from a KeyboardInterrupt that user code raised: the one must end the process, the other is only a failure.

A signal handler runs between two bytecodes of whatever code the main thread is in, so both come out of the same call. What tells them
apart is where the exception began: in the handler's own frame when the handler is Python code (as `asyncio.run` sets one, which cancels
the main task first and raises at the second Ctrl-C only), and at any instruction but `raise` when it is the interpreter's default one.
"""

import signal
from dis import opmap
from functools import partial
from threading import current_thread, main_thread
from types import CodeType, TracebackType
from typing import Any, Final

_RAISE: Final = opmap["RAISE_VARARGS"]


def is_interrupt(error: BaseException) -> bool:
    """True when somebody pressed Ctrl-C; false for what code raised by itself, and for anything but a KeyboardInterrupt."""
    if not isinstance(error, KeyboardInterrupt) or current_thread() is not main_thread():
        return False
    handler = signal.getsignal(signal.SIGINT)
    began = _innermost(error.__traceback__)
    if handler is signal.default_int_handler:
        return began is None or began.tb_frame.f_code.co_code[began.tb_lasti] != _RAISE
    return began is not None and began.tb_frame.f_code is _code(handler)


def _innermost(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback


def _code(handler: Any) -> CodeType | None:
    while isinstance(handler, partial):
        handler = handler.func
    return getattr(handler, "__code__", None)
