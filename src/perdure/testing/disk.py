"""A disk in memory that can lose power: what was synced stays, of what was not a torn part may, and faults come when they are armed.

The journal runs on it unchanged. One seed decides everything; no thread, no real file, no real time.
"""

import errno
import random
from collections.abc import Sequence
from typing import Final, Literal

from perdure.core.errors import Unavailable
from perdure.ports import Clock, DiskFull

SECTOR: Final = 512
"""What a disk writes whole or not at all."""

Fault = Literal["full", "write", "sync"]
"""No room · an error while writing · an error while syncing, after which the bytes may be there or not."""


class SimulatedFiles:
    """`ports.Files` of one simulated machine. `sync_us` bounds how long an append takes (both 0: it takes no time at all)."""

    def __init__(self, seed: random.Random, clock: Clock | None = None, *, sync_us: tuple[int, int] = (0, 0)) -> None:
        self._random = seed
        self._clock = clock
        self._sync_us = sync_us
        self._contents: dict[str, _Contents] = {}
        self._lock: _Lock | None = None
        self._faults: list[tuple[int, Fault]] = []
        self.power = 0
        """How often the power came back: what was opened before belongs to a dead process."""
        self.syncs = 0
        """Appends that became durable."""

    def names(self, folder: str) -> Sequence[str]:
        return sorted(name for name in self._contents if name.rpartition("/")[0] == folder)

    def size(self, name: str) -> int:
        return len(self._find(name).written)

    def read(self, name: str, offset: int, length: int) -> bytes:
        return bytes(self._find(name).written[offset : offset + length])

    def truncate(self, name: str, size: int) -> None:
        contents = self._find(name)
        del contents.written[size:]
        contents.durable = contents.end = min(contents.durable, size)
        contents.length = min(contents.length, size)

    def open_append(self, name: str, *, room: int = 0) -> "SimulatedFile":
        return SimulatedFile(self, self._contents.setdefault(name, _Contents()), name, room)

    def replace(self, name: str, by: str) -> None:
        self._contents[name] = self._find(by)
        del self._contents[by]

    def remove(self, name: str) -> None:
        self._contents.pop(name, None)

    def free(self) -> None:
        """It cannot be told: it is full when that is armed."""

    def lock(self) -> "_Lock":
        if self._lock is not None:
            raise Unavailable("the directory is in use by another process (pid 1)")
        self._lock = _Lock(self)
        return self._lock

    def crash(self) -> None:
        """Cut the power and bring it back: the lock is free, files hold what was synced and perhaps a part of the rest."""
        self.power += 1
        self._lock = None
        for contents in self._contents.values():
            self._tear(contents)

    def arm(self, fault: Fault, after: int = 0) -> None:
        """Let the append fail that comes after so many others, counted from now."""
        self._faults.append((after, fault))

    def disarm(self) -> None:
        """No fault that was armed happens any more."""
        self._faults = []

    def damage(self, name: str, offset: int, data: bytes) -> None:
        """Change bytes that are there, as no crash would."""
        self._find(name).written[offset : offset + len(data)] = data

    async def delay(self) -> None:
        low, high = self._sync_us
        if self._clock is not None and high:
            await self._clock.sleep(self._random.randint(low, high))

    def next_fault(self) -> Fault | None:
        """The fault due at this append, if any."""
        due: Fault | None = next((fault for after, fault in self._faults if after == 0), None)
        self._faults = [(after - 1, fault) for after, fault in self._faults if after > 0]
        return due

    def short(self, data: bytes) -> bytes:
        """As much of a write as got through before it failed."""
        return data[: self._random.randrange(len(data))]

    def release(self, lock: "_Lock") -> None:
        if self._lock is lock:
            self._lock = None

    def _find(self, name: str) -> "_Contents":
        contents = self._contents.get(name)
        if contents is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", name)
        return contents

    def _tear(self, contents: "_Contents") -> None:
        """Keep a part of what was not synced: where the file grew any prefix, and sectors of it may hold zeros, because disks write
        them in any order; in room that was there before any sectors of it, the file as long as it was or is.
        """
        durable, end = contents.durable, contents.end
        if end > durable and contents.length > durable:
            self._zero_sectors(contents, end, self._random.choice((0.0, 0.3, 1.0)))
            if len(contents.written) > contents.length and self._random.random() < 0.5:
                del contents.written[contents.length :]
        elif end > durable:
            kept = durable + self._random.randint(0, end - durable)
            if kept < end or self._random.random() < 0.5:
                del contents.written[kept:]
            if self._random.random() < 0.5:
                self._zero_sectors(contents, kept, 0.3)
        contents.durable = contents.end = contents.length = len(contents.written)

    def _zero_sectors(self, contents: "_Contents", end: int, share: float) -> None:
        start = contents.durable
        while start < end:
            stop = min(end, start + SECTOR - start % SECTOR)
            if self._random.random() < share:
                contents.written[start:stop] = bytes(stop - start)
            start = stop


class SimulatedFile:
    """`ports.AppendFile` of a `SimulatedFiles`."""

    def __init__(self, files: SimulatedFiles, contents: "_Contents", name: str, room: int) -> None:
        self._room = room
        self._files = files
        self._contents = contents
        self._name = name
        self._power = files.power
        self._failure = ""

    @property
    def size(self) -> int:
        return self._contents.durable

    async def append(self, data: bytes) -> None:
        self._check()
        fault = self._files.next_fault()
        if fault == "full":
            await self._files.delay()
            self._check()
            raise DiskFull("no room to write")
        self._failure = "an append was abandoned"  # until it ends well
        self._put(self._files.short(data) if fault == "write" else data)
        await self._files.delay()
        if self._files.power != self._power:
            raise OSError(errno.EIO, "the power was cut", self._name)
        if fault is not None:
            self._failure = f"a {fault} failed"
            raise OSError(errno.EIO, self._failure, self._name)
        self._contents.durable = self._contents.end
        self._contents.length = len(self._contents.written)
        self._files.syncs += 1
        self._failure = ""

    def _put(self, data: bytes) -> None:
        contents = self._contents
        contents.end = contents.durable + len(data)
        missing = contents.end - len(contents.written)
        if missing > 0:
            contents.written += bytes(missing + self._room)
        contents.written[contents.durable : contents.end] = data

    def close(self) -> None:
        if not self._failure and self._files.power == self._power:
            del self._contents.written[self._contents.durable :]
            self._contents.length = self._contents.durable
        self._failure = self._failure or "it is closed"

    def _check(self) -> None:
        if self._files.power != self._power:
            raise OSError(errno.EIO, "the process that opened it is dead", self._name)
        if self._failure:
            raise OSError(errno.EIO, f"not written to any more: {self._failure}", self._name)


class _Contents:
    """One file: what reads see; how much of it is durable data; where data ends; how long the file is durably, room included."""

    __slots__ = ("durable", "end", "length", "written")

    def __init__(self) -> None:
        self.written = bytearray()
        self.durable = 0
        self.end = 0
        self.length = 0


class _Lock:
    def __init__(self, files: SimulatedFiles) -> None:
        self._files = files

    def cancel(self) -> None:
        self._files.release(self)
