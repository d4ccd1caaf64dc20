"""Reading the Python stack of an activation: which line of the user's code asked, and whether trusted machinery asked for it.

Frames are read only after something was refused, never on the way of code that behaves.
"""

import functools
import linecache
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

_STDLIB: Final = str(Path(os.__file__).parent) + os.sep
_MACHINERY: Final = (
    "<frozen ",
    *(str(Path(__file__).parents[1] / package) + os.sep for package in ("replay", "sdk", "worker")),
)
_INSTALLED: Final = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")

# An import runs a module's own top level, once a process: what it does belongs to the process, not to the run that came first.
_IMPORT_MACHINERY: Final = "<frozen importlib"
_LOGGING: Final = str(Path(logging.__file__).parent) + os.sep
_REPORTING: Final = frozenset(
    {
        linecache.getline.__code__.co_filename,
        traceback.print_exc.__code__.co_filename,
        warnings.showwarning.__code__.co_filename,
    }
)

SOURCE_CHARS_MAX: Final = 80
"""So much of the user's line is quoted."""

BOUNDARIES: Final[set[CodeType]] = set()
"""Code objects at which an activation begins: frames further out are the worker's."""


@functools.cache
def _layer(filename: str) -> int:
    """How much a file is the user's: 0 machinery, 1 an installed library, 2 the user's own."""
    if filename.startswith(_MACHINERY):
        return 0
    if any(part in filename for part in _INSTALLED):
        return 1
    return 0 if filename.startswith(_STDLIB) else 2


@functools.cache
def _is_import(filename: str) -> bool:
    return filename.startswith(_IMPORT_MACHINERY) or filename.endswith(f"{os.sep}zipimport.py")


@functools.cache
def _is_reporting(filename: str) -> bool:
    return filename in _REPORTING or filename.startswith(_LOGGING)


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the user's own code from `frame` outwards within the activation, else of any library, else any."""
    start = frame
    library: FrameType | None = None
    while frame is not None and frame.f_code not in BOUNDARIES:
        layer = _layer(frame.f_code.co_filename)
        if layer == 2:
            return frame
        if layer == 1 and library is None:
            library = frame
        frame = frame.f_back
    return library or start


def user_frames(frames: Sequence[FrameType]) -> list[FrameType]:
    """Those of the user's own code; without any, those of installed libraries."""
    for layer in (2, 1):
        found = [frame for frame in frames if _layer(frame.f_code.co_filename) == layer]
        if found:
            return found
    return []


def suspended_line(coroutine: Any) -> str:
    """`file:line: source` of the user's innermost line at which a suspended coroutine waits."""
    found: FrameType | None = None
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        if found is None or _layer(frame.f_code.co_filename) >= _layer(found.f_code.co_filename):
            found = frame
        coroutine = coroutine.cr_await
    return user_line(found) if found is not None else "?"


def user_line(frame: FrameType | None = None) -> str:
    """`file:line: source` of `user_frame`, the source as far as it can be read; without a frame, of the caller."""
    found = user_frame(frame or sys._getframe(1))
    if found is None:
        return "?"
    place = f"{found.f_code.co_filename}:{found.f_lineno}"
    source = source_of(found.f_code.co_filename, found.f_lineno)
    return f"{place}: {source}" if source else place


def source_of(filename: str, number: int) -> str:
    """That line on its own, cut to `SOURCE_CHARS_MAX`. The guards let `linecache` read; it never raises for a file it cannot read."""
    line = linecache.getline(filename, number).strip()
    return line if len(line) <= SOURCE_CHARS_MAX else line[: SOURCE_CHARS_MAX - 1] + "…"


def within_import(frame: FrameType | None) -> bool:
    """True when this activation is, at `frame`, importing a module."""
    return _any_file(frame, imports=True, reporting=False)


def within_trusted(frame: FrameType | None) -> bool:
    """True when imports, logging, warnings or traceback formatting asked: they read files and write logs, never the run's state."""
    return _any_file(frame, imports=True, reporting=True)


def timezone_file(asked: tuple[object, ...]) -> bool:
    """True for a file of the time zone database: whichever library reads it, it is as good as code, and read once a process."""
    path = asked[0] if asked else None
    return isinstance(path, str) and f"{os.sep}zoneinfo{os.sep}" in path


def _any_file(frame: FrameType | None, *, imports: bool, reporting: bool) -> bool:
    while frame is not None and frame.f_code not in BOUNDARIES:
        filename = frame.f_code.co_filename
        if (imports and _is_import(filename)) or (reporting and _is_reporting(filename)):
            return True
        frame = frame.f_back
    return False
