"""A book: an append-only file of JSON lines that survives the death of its writer at any instant.

What `append` returned for is on disk. A last line cut short by a crash is removed when the book is opened again. One writer a book.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

Line: TypeAlias = Mapping[str, Any]


class Book:
    """Open or make the book at `path`; `lines` holds what was in it."""

    def __init__(self, path: Path) -> None:
        whole, torn = _split(path.read_bytes() if path.exists() else b"")
        self.lines: list[dict[str, Any]] = [json.loads(line) for line in whole.splitlines()]
        self._file = path.open("ab")
        if torn:
            self._file.truncate(len(whole))
        self._sync()
        _sync_directory(path.parent)

    def append(self, *lines: Line) -> None:
        """Write the lines and wait until they are on disk. All or, after a crash, a first part of them is there."""
        self._file.write(b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines))
        self._sync()

    def close(self) -> None:
        self._file.close()

    def _sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())


def _split(content: bytes) -> tuple[bytes, bytes]:
    """The whole lines, and what is left of one that was cut short."""
    end = content.rfind(b"\n") + 1
    return content[:end], content[end:]


def _sync_directory(path: Path) -> None:
    """Make the book's name as durable as its lines."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
