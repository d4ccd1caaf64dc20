"""Writing a segment anew, without lines that are not to be kept: beside the old one, synced, then put in its place all at once.

A crash leaves the old segment or the new one. Lines keep their contents and order; they are numbered and chained afresh from what stands
before the segment, and the header says what the next segment's header repeats, so that the chain holds over both.
"""

from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import Final

from msgspec import Struct

from perdure.core.shards import SHARDS
from perdure.ports import AppendFile, Files
from perdure.store.journal.fault import Fault
from perdure.store.journal.format import (
    FORMAT,
    KIND_FOOT,
    KIND_HEAD,
    KIND_TRANSITION,
    BadLine,
    Body,
    Following,
    Foot,
    Head,
    Line,
    Link,
    control,
    frame,
    number_of,
    parse,
    segment_name,
)

WRITE_BYTES: Final = 256 * 1024
"""So much is gathered for one append."""
HEAD_BYTES: Final = 1 << 20
"""No header is longer."""


class Rewriting(Struct, frozen=True, kw_only=True):
    """The frame of a segment that is written anew, to the file of `key`.

    `next` is None for the newest: then its own footer is what is repeated.
    """

    key: int
    before: Link
    store: str
    first: int
    lost: tuple[Fault, ...] = ()
    next: Following | None = None
    expired: int = 0

    @property
    def name(self) -> str:
        """The file it is written to before it takes its place; no segment by its name, so it is passed over."""
        return f"{segment_name(self.key)}.new"

    @property
    def head(self) -> Head:
        return Head(
            format=FORMAT,
            shards=SHARDS,
            store=self.store,
            first=self.first,
            lost=self.lost,
            next=self.next,
            expired=self.expired,
        )


class Written(Struct, frozen=True, kw_only=True):
    """Where the lines of a segment that was written anew lie, transitions only: the byte each begins at, and its length."""

    places: list[tuple[int, int]]


async def write_anew(files: Files, plan: Rewriting, bodies: AsyncIterable[Body]) -> Written:
    """Write the segment and put it in its place. Raises `DiskFull` with everything as it was."""
    files.remove(plan.name)
    file = files.open_append(plan.name)
    writing = _Writing(file, plan)
    try:
        await writing.add(KIND_HEAD, control(plan.head))
        async for body in bodies:
            await writing.add(KIND_TRANSITION, body)
        reason = "roll" if plan.next is not None else "stop"
        await writing.add(KIND_FOOT, control(Foot(reason=reason, lines=writing.lines + 1)))
        await writing.flush()
    except BaseException:
        file.close()
        files.remove(plan.name)
        raise
    file.close()
    files.replace(segment_name(plan.key), plan.name)
    return Written(places=writing.places)


class _Writing:
    """The file that a segment is written anew to. Each line is a group of its own."""

    def __init__(self, file: AppendFile, plan: Rewriting) -> None:
        self._file = file
        self._number = number_of(plan.key)
        self._link = plan.before
        self._pieces: list[bytes] = []
        self._waiting = 0
        self._end = 0
        self.lines = 0
        self.places: list[tuple[int, int]] = []

    async def add(self, kind: bytes, body: Body) -> None:
        (line,), self._link = frame(self._link, self._number, kind, [body])
        if kind == KIND_TRANSITION:
            self.places.append((self._end, len(line)))
        self.lines += 1
        self._end += len(line)
        self._pieces.append(line)
        self._waiting += len(line)
        if self._waiting >= WRITE_BYTES:
            await self.flush()

    async def flush(self) -> None:
        if self._pieces:
            data, self._pieces, self._waiting = b"".join(self._pieces), [], 0
            await self._file.append(data)


def first_line(files: Files, key: int, limit: int = HEAD_BYTES) -> Line | None:
    """The first line of a segment, if it is whole and has no more than `limit` bytes."""
    text, newline, _ = files.read(segment_name(key), 0, limit).partition(b"\n")
    try:
        return parse(text) if newline else None
    except BadLine:
        return None


async def once_for_all(bodies: Iterable[Body]) -> AsyncIterator[Body]:
    """Bodies that are there already."""
    for body in bodies:
        yield body
