"""Tracebacks as text, and text as tracebacks.

A failure carries each exception's traceback as the text Python prints. When the exception is raised again elsewhere, that text becomes real
traceback entries with the same files, lines and names, below the frames that raise it here: it is printed, logged and travels on like any
other. No code of the text is run, no file named in it is opened here.
"""

import inspect
import re
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, FunctionType, TracebackType
from typing import Any, Final, cast

TRACEBACK_CHARS_MAX: Final = 16 * 1024
FRAMES_MAX: Final = 50
"""The innermost ones."""

_OURS: Final = str(Path(__file__).parent.parent) + "/"
_FRAME: Final = re.compile(r'^  File "(.*)", line (\d+), in (.*)$', re.MULTILINE)


_LEFT_OUT: Final[list[None]] = []
"""As long as it holds anything, no traceback is written down. Process-wide: activities and workflows run in contexts of their own."""


@contextmanager
def left_out() -> Generator[None]:
    """Inside, failures carry no traceback text: for simulations, whose bytes must not depend on where the source lies."""
    _LEFT_OUT.append(None)
    try:
        yield
    finally:
        _LEFT_OUT.pop()


def traceback_text(first: TracebackType | None) -> str:
    """What Python would print of this traceback, without perdure's own frames when there are others."""
    if first is None or _LEFT_OUT:
        return ""
    entries = list(traceback.walk_tb(first))
    theirs = [entry for entry in entries if not entry[0].f_code.co_filename.startswith(_OURS)]
    summary = traceback.StackSummary.extract(iter((theirs or entries)[-FRAMES_MAX:]))
    text = "".join(summary.format())
    if len(text) > TRACEBACK_CHARS_MAX:
        tail = text[-TRACEBACK_CHARS_MAX:]
        text = tail[max(0, tail.find("\n  File ") + 1) :]
    return "Traceback (most recent call last):\n" + text


def traceback_from(text: str) -> TracebackType | None:
    """Traceback entries for the frames that stand in `text`; None when there are none."""
    entry: TracebackType | None = None
    for filename, line, name in reversed(_FRAME.findall(text)[-FRAMES_MAX:]):
        number = min(int(line), 2**31 - 1) if len(line) < 12 else 1
        entry = TracebackType(entry, _frame(filename, number, name), -1, number)
    return entry


def _this_frame() -> FrameType:
    frame = inspect.currentframe()
    assert frame is not None
    return frame


def _frame(filename: str, line: int, name: str) -> FrameType:
    """A finished frame that says it is of that file, line and function, with nothing in it."""
    code = _this_frame.__code__.replace(
        co_filename=filename.replace("\0", ""), co_name=name, co_qualname=name, co_firstlineno=max(1, line)
    )
    finish: Any = FunctionType(code, {"inspect": inspect, "__name__": "__perdure_remote__"})
    return cast("FrameType", finish())
