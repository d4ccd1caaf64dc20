"""How far a long command has come: a bar on standard error, on terminals only."""

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from perdure.ports import AppendFile, Files, Wake


class Bar:
    """One bar. Used as a context manager, so that it is gone at the end, whatever the end."""

    def __init__(self, what: str, total: int) -> None:
        self._bar = None
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress

            self._bar = Progress(console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(what, total=total)

    def advance(self, by: int = 1) -> None:
        """So much more is done."""
        if self._bar is not None:
            self._bar.advance(self._task, by)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()


class Watched:
    """`ports.Files` whose reading moves a bar."""

    def __init__(self, files: Files, bar: Bar) -> None:
        self._files = files
        self._bar = bar

    def names(self, folder: str) -> Sequence[str]:
        return self._files.names(folder)

    def size(self, name: str) -> int:
        return self._files.size(name)

    def read(self, name: str, offset: int, length: int) -> bytes:
        data = self._files.read(name, offset, length)
        self._bar.advance(len(data))
        return data

    def truncate(self, name: str, size: int) -> None:
        self._files.truncate(name, size)

    def open_append(self, name: str, *, room: int = 0) -> AppendFile:
        return self._files.open_append(name, room=room)

    def replace(self, name: str, by: str) -> None:
        self._files.replace(name, by)

    def remove(self, name: str) -> None:
        self._files.remove(name)

    def free(self) -> int | None:
        return self._files.free()

    def lock(self) -> Wake:
        return self._files.lock()
