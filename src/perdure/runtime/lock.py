"""The lock on a data directory: `fcntl.lockf` on a file, gone with the process that holds it, never inherited by a child.

The kernel drops such a lock when the process closes *any* descriptor of the file, and lets a process lock twice. So nobody else may open
the file, and a table of what this process holds is asked before it is touched.
"""

import contextlib
import errno
import fcntl
import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Final

from perdure.core.errors import Unavailable

_held: Final[dict[tuple[int, int], int]] = {}
"""Locked files (device, inode) and the process that locked them: a forked child finds its parent's number and holds nothing."""
_held_guard: Final = Lock()


class DirectoryLock:
    """A lock that is held from construction until `cancel`. Raises `Unavailable` naming the process that holds it."""

    def __init__(self, path: Path, *, on_release: Callable[[], None]) -> None:
        self._on_release = on_release
        with _held_guard:
            self._descriptor = _acquire(path)
            self._key = _identity(os.fstat(self._descriptor))
            _held[self._key] = os.getpid()

    def cancel(self) -> None:
        """Give the lock back. Idempotent."""
        with _held_guard:
            if self._descriptor < 0:
                return
            if _held.get(self._key) == os.getpid():
                del _held[self._key]
            os.close(self._descriptor)
            self._descriptor = -1
        self._on_release()


def _acquire(path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        if _held.get(_identity(path.stat())) == os.getpid():
            raise Unavailable(f"{path.parent} is in use by this very process (pid {os.getpid()})")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _lock(descriptor, path)
    except BaseException:
        os.close(descriptor)
        raise
    _sign(descriptor)
    return descriptor


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in {errno.EACCES, errno.EAGAIN}:
            raise
        raise Unavailable(
            f"{path.parent} is in use by another process (pid {_holder(descriptor)}): stop that one, or name another directory"
        ) from error
    if _identity(os.fstat(descriptor)) != _identity(path.stat()):
        raise Unavailable(f"{path} was replaced while it was being locked")


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _holder(descriptor: int) -> object:
    try:
        return json.loads(os.pread(descriptor, 1024, 0))["pid"]
    except (ValueError, KeyError, TypeError):
        return "unknown"


def _sign(descriptor: int) -> None:
    """Write down who holds the lock. For people only, so a full disk is no reason to fail."""
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "nonce": secrets.token_hex(8)}).encode(), 0)
