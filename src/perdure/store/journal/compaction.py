"""Getting rid of lines nobody wants any more: old segments are copied without them, and then dropped.

Oldest segment first, always: of a run whose lines are partly gone the last ones are there, its closing among them, so that it can never be
taken for an open one. What is wanted is the index's to say. A crash at any point leaves a segment that is whole: the old file stays
until the index is known to look into the new one.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from msgspec import Struct

from perdure.ports import Files
from perdure.store.index.index import Index
from perdure.store.index.upkeep import Copied, Line
from perdure.store.journal.format import (
    BadLine,
    Body,
    Following,
    Link,
    body_of,
    following_key,
    parse,
    run_of,
    segment_name,
)
from perdure.store.journal.recovery import segments_of, superseded
from perdure.store.journal.rewriting import Rewriting, first_line, write_anew

DEAD_SHARE: Final = 0.5
"""So large a share of the bytes of all segments but the newest must be unwanted before any is written anew."""
READ_BYTES: Final = 64 * 1024
"""So much is copied before others get a turn."""

_log: Final = logging.getLogger(__name__)


class Compacted(Struct, kw_only=True):
    """What was done: runs dropped, segments written anew, bytes they had and have."""

    runs: int = 0
    segments: int = 0
    bytes_before: int = 0
    bytes_after: int = 0


class Compaction:
    """One pass over the segments of a journal. `expired`: runs that had closed by this instant are dropped from the index already."""

    def __init__(self, files: Files, index: Index, expired: int, done: Compacted) -> None:
        self._files = files
        self._index = index
        self._expired = expired
        self._done = done

    async def run(self, share: float, progress: Callable[[int], None]) -> None:
        """Write every segment anew that holds unwanted lines, if they make up `share` of all. Raises `DiskFull`, `sqlite3.Error`."""
        if superseded(self._files):
            return  # the index did not follow the last time: what lines it wants of which file is not certain until the next start
        keys = segments_of(self._files)[:-1]
        sizes = {key: self._files.size(segment_name(key)) for key in keys}
        wanted = await self._index.wanted()
        total, kept = sum(sizes.values()), sum(wanted.get(key, 0) for key in keys)
        if not total or total - kept < share * total:
            return
        for key in keys:
            lines = await self._index.lines(key)
            if not await self._compact(key, lines, sizes[key]):
                return
            progress(sizes[key])

    async def _compact(self, key: int, lines: Sequence[Line], size: int) -> bool:
        """One segment; False when it cannot be read and so neither may those behind it be written anew."""
        plan = self._plan(key)
        if plan is None:
            return False
        offsets = [line.offset for line in lines]
        count = self._count(key)
        if count < 0:
            return False
        if count == len(offsets):
            return True  # everything in it is wanted
        try:
            written = await write_anew(self._files, plan, self._bodies(key, offsets))
        except BadLine as bad:
            _log.warning("journal %s is damaged and is not written anew: %s", segment_name(key), bad)
            return False
        copied = [
            Copied(plan.key, offset, length, line.workflow, line.number)
            for line, (offset, length) in zip(lines, written.places, strict=True)
        ]
        await self._index.move(copied)
        self._files.remove(segment_name(key))
        self._done.segments += 1
        self._done.bytes_before += size
        self._done.bytes_after += self._files.size(segment_name(plan.key))
        return True

    def _plan(self, key: int) -> Rewriting | None:
        keys = segments_of(self._files)
        own, after = first_line(self._files, key), first_line(self._files, keys[keys.index(key) + 1])
        if own is None or own.head is None or after is None:
            return None
        return Rewriting(
            key=following_key(key),
            before=Link(own.seq - 1, own.grp, *own.prev),
            store=own.head.store,
            first=own.head.first,
            lost=own.head.lost,
            next=Following(seq=after.seq - 1, run=after.prev[0], crc=after.prev[1]),
            expired=max(own.head.expired, self._expired),
        )

    def _count(self, key: int) -> int:
        """How many transitions a segment holds, wanted or not: its footer says how many lines."""
        name = segment_name(key)
        size = self._files.size(name)
        end = self._files.read(name, max(0, size - READ_BYTES), READ_BYTES).rstrip(b"\0")
        try:
            foot = parse(end[:-1].rpartition(b"\n")[2] if end.endswith(b"\n") else b"").foot
        except BadLine:
            return -1
        return foot.lines - 2 if foot is not None else -1

    async def _bodies(self, key: int, offsets: Sequence[int]) -> AsyncIterator[Body]:
        """The wanted lines, read in pieces between which others get their turn. Raises `BadLine`."""
        name = segment_name(key)
        data, begin = b"", 0
        for offset in offsets:
            end = data.find(b"\n", offset - begin) if begin <= offset < begin + len(data) else -1
            length = READ_BYTES
            while end < 0:
                await asyncio.sleep(0)
                begin, data = offset, self._files.read(name, offset, length)
                end = data.find(b"\n")
                if end < 0 and len(data) < length:
                    raise BadLine(f"the line at byte {offset} does not end")
                length *= 4
            text = data[offset - begin : end]
            transition = parse(text).t
            if transition is None:
                raise BadLine(f"there is no transition at byte {offset}")
            yield run_of(transition), body_of(text)
