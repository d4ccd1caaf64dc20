"""The real disk: files below one directory, appended to and synced, and the lock that makes a directory one process's own.

A failed sync is final: the kernel may have dropped the pages it could not write, so a second sync that succeeds proves nothing.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
from collections import OrderedDict
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from time import perf_counter
from typing import Final

from perdure.core.errors import Unavailable
from perdure.ports import DiskFull
from perdure.runtime.lock import DirectoryLock

INLINE_BELOW: Final = 8192
INLINE_S_MAX: Final = 0.000_5
"""Appends run on the loop's thread only while the disk answers this fast."""
READERS_MAX: Final = 64

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FULL_SYNC: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)  # macOS, where fsync does not reach the medium


class LocalFiles:
    """`ports.Files` below `directory`, which is made when it is locked or written to.

    `inline_below`: appends of fewer bytes are made on the loop's own thread when nothing else is ready to run there and the last sync
    was fast; it saves the way to the writing thread and back. 0 switches that off.
    """

    def __init__(self, directory: Path, *, inline_below: int = INLINE_BELOW) -> None:
        self._directory = directory
        self._inline_below = inline_below
        self._readers: OrderedDict[str, int] = OrderedDict()

    def names(self, folder: str) -> list[str]:
        try:
            with os.scandir(self._directory / folder) as entries:
                return sorted(f"{folder}/{entry.name}" for entry in entries if entry.is_file())
        except FileNotFoundError:
            return []

    def size(self, name: str) -> int:
        return (self._directory / name).stat().st_size

    def read(self, name: str, offset: int, length: int) -> bytes:
        descriptor = self._reader(name)
        data = os.pread(descriptor, length, offset)
        while len(data) < length:  # a read may be short long before the end: at a signal, or past 2 GiB
            more = os.pread(descriptor, length - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data

    def truncate(self, name: str, size: int) -> None:
        descriptor = os.open(self._directory / name, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.ftruncate(descriptor, size)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def open_append(self, name: str, *, room: int = 0) -> "LocalFile":
        path = self._directory / name
        try:
            make_directory(path.parent)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise _translated(error) from error
        try:
            if not os.fstat(descriptor).st_size:  # new, or made by a process that did not get to the next line
                sync_directory(path.parent)
            return LocalFile(descriptor, name, inline_below=self._inline_below, room=room)
        except BaseException:
            os.close(descriptor)
            raise

    def replace(self, name: str, by: str) -> None:
        self._close_reader(name)
        self._close_reader(by)
        (self._directory / by).replace(self._directory / name)
        sync_directory((self._directory / name).parent)

    def remove(self, name: str) -> None:
        self._close_reader(name)
        path = self._directory / name
        if path.exists():
            path.unlink()
            sync_directory(path.parent)

    def free(self) -> int | None:
        try:
            found = os.statvfs(self._directory)
        except OSError:
            return None
        return found.f_bavail * found.f_frsize

    def lock(self) -> DirectoryLock:
        """Raises `Unavailable` when somebody holds the directory, or when it cannot be made or locked: the message names what is amiss."""
        try:
            make_directory(self._directory)
            return DirectoryLock(self._directory / "lock", on_release=self._close_readers)
        except OSError as error:
            raise Unavailable(f"{self._directory} cannot be used as a data directory: {error}") from error

    def _reader(self, name: str) -> int:
        descriptor = self._readers.get(name)
        if descriptor is None:
            descriptor = self._readers[name] = os.open(self._directory / name, os.O_RDONLY | os.O_CLOEXEC)
            if len(self._readers) > READERS_MAX:
                os.close(self._readers.popitem(last=False)[1])
        else:
            self._readers.move_to_end(name)
        return descriptor

    def _close_reader(self, name: str) -> None:
        descriptor = self._readers.pop(name, None)
        if descriptor is not None:
            os.close(descriptor)

    def _close_readers(self) -> None:
        while self._readers:
            os.close(self._readers.popitem()[1])


_Order = tuple[bytes, "asyncio.Future[None]", asyncio.AbstractEventLoop]


class LocalFile:
    """`ports.AppendFile`. Writes and syncs in a thread of its own, or, if small and the loop is idle, on the loop's thread."""

    def __init__(self, descriptor: int, name: str, *, inline_below: int = 0, room: int = 0) -> None:
        self._descriptor = descriptor
        self._name = name
        self._inline_below = inline_below
        self._size = self._reserved = os.fstat(descriptor).st_size
        self._room = room
        self._failure = ""
        self._took_s = 0.0
        self._orders: SimpleQueue[_Order | None] = SimpleQueue()
        self._thread: Thread | None = None

    @property
    def size(self) -> int:
        return self._size

    async def append(self, data: bytes) -> None:
        if self._failure:
            raise OSError(errno.EIO, f"{self._name} is not written to any more: {self._failure}")
        loop = asyncio.get_running_loop()
        if len(data) < self._inline_below and self._took_s < INLINE_S_MAX and _is_idle(loop):
            self._write(data)
            return
        if self._thread is None:
            self._thread = Thread(target=self._serve, name=f"perdure-append-{self._name}", daemon=True)
            self._thread.start()
        done: asyncio.Future[None] = loop.create_future()
        self._orders.put((data, done, loop))
        try:
            await done
        except asyncio.CancelledError:
            self._failure = "an append was abandoned, and nobody knows how it ended"
            raise

    def close(self) -> None:
        if self._thread is not None:
            self._orders.put(None)
            self._thread.join()
            self._thread = None
        if self._descriptor >= 0:
            if self._reserved > self._size and not self._failure:
                with contextlib.suppress(OSError):  # what is left of the room hurts nobody
                    os.ftruncate(self._descriptor, self._size)
            os.close(self._descriptor)
            self._descriptor = -1
            self._failure = self._failure or "it is closed"

    def _serve(self) -> None:
        """The writing thread: one order after the other."""
        while (order := self._orders.get()) is not None:
            data, done, loop = order
            error: Exception | None = None
            try:
                self._write(data)
            except Exception as caught:  # noqa: BLE001  whatever it is, it belongs to the one who waits
                error = caught
            try:
                loop.call_soon_threadsafe(_settle, done, error)
            except RuntimeError:
                return  # the loop is closed: nobody waits any more

    def _write(self, data: bytes) -> None:
        began = perf_counter()
        try:
            self._put(data)
        except OSError as error:
            self._cut_back()
            if error.errno not in _NO_ROOM:
                self._failure = f"a write failed ({error})"
            raise _translated(error) from error
        try:
            sync(self._descriptor)
        except OSError as error:
            self._failure = f"a sync failed ({error})"
            raise
        if not os.fstat(self._descriptor).st_nlink:
            self._failure = "it was deleted"
            raise OSError(errno.ENOENT, f"{self._name} was deleted while it was written to; what it held is lost")
        self._size += len(data)
        self._took_s = perf_counter() - began

    def _put(self, data: bytes) -> None:
        offset = self._size
        if self._room and offset + len(data) > self._reserved:
            self._reserve(offset + len(data))
        written = os.pwrite(self._descriptor, data, offset)
        if written < len(data):
            rest = memoryview(data)
            while written < len(data):
                written += os.pwrite(self._descriptor, rest[written:], offset + written)

    def _reserve(self, end: int) -> None:
        """Set room aside from the end of the file on. Becomes durable with the append that needs it."""
        try:
            os.posix_fallocate(self._descriptor, self._size, end - self._size + self._room)
            self._reserved = end + self._room
        except (OSError, AttributeError):  # no room for so much, a file system that cannot, or a platform without
            if os.fstat(self._descriptor).st_size > self._size:
                os.ftruncate(self._descriptor, self._size)
            self._room = 0

    def _cut_back(self) -> None:
        """Take away what a failed write left, durably: nothing may stand behind the next append when that one is torn."""
        self._reserved = self._size
        try:
            os.ftruncate(self._descriptor, self._size)
            sync(self._descriptor)
        except OSError as error:
            self._failure = f"what a failed write left could not be cut back ({error})"
            raise


def sync(descriptor: int) -> None:
    """Make the bytes of a file durable, and of its metadata what is needed to find them."""
    if _FULL_SYNC is not None:
        fcntl.fcntl(descriptor, _FULL_SYNC)
    else:
        os.fdatasync(descriptor)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path) -> None:
    """Make a directory and those above it, durably."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(exist_ok=True)
    sync_directory(path.parent)


def _translated(error: OSError) -> Exception:
    if error.errno in _NO_ROOM:
        return DiskFull(f"no room to write: {error.strerror}")
    return error


def _is_idle(loop: asyncio.AbstractEventLoop) -> bool:
    """True when nothing is waiting for a turn on this loop, as far as it can be told (uvloop does not tell)."""
    ready = getattr(loop, "_ready", None)
    return ready is not None and not ready


def _settle(done: "asyncio.Future[None]", error: Exception | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
