"""Writing: groups of lines onto the newest segment, and the change to the next one.

One writer, one call at a time. What is remembered of the journal's end changes only when the bytes are durable, so a call that ended
in `DiskFull` left nothing behind and can be made again; after any other exception this object must not be used.
"""

from collections.abc import Sequence

from perdure.core.shards import SHARDS
from perdure.ports import AppendFile, Files
from perdure.store.index.position import Position
from perdure.store.journal.format import (
    FORMAT,
    FORMAT_PLAIN,
    KIND_FOOT,
    KIND_HEAD,
    KIND_TRANSITION,
    Body,
    Foot,
    Head,
    control,
    frame,
    segment_name,
)
from perdure.store.journal.recovery import JournalEnd


class SegmentWriter:
    """The journal's end, as `end` says it was found. `store` is the id that a journal without one gets."""

    def __init__(self, files: Files, end: JournalEnd, *, store: str, bytes_max: int, room: int = 0) -> None:
        self._files = files
        self._store = end.store or store
        self._first = end.first
        self._number = end.number
        self._lines = end.lines
        self._link = end.link
        self._footed = end.footed
        self._lost = end.lost
        self._unended = end.unended
        self._bytes_max = bytes_max
        self._room_bytes = min(room, bytes_max)
        self._begin, self._end = end.begin, end.end
        self._whole = end.whole
        self._file: AppendFile | None = None

    @property
    def position(self) -> Position:
        """Where the journal ends: behind the line that was written last."""
        link = self._link
        return Position(
            store=self._store,
            first=self._first,
            segment=self._number,
            begin=self._begin,
            end=self._end,
            lines=self._lines,
            seq=link.seq,
            grp=link.grp,
            run=link.run,
            crc=link.crc,
            footed=self._footed,
            whole=self._whole,
        )

    def doubt(self) -> None:
        """What was read somewhere is not what was written: from now on positions say that everything must be read at the next start."""
        self._whole = False

    async def append(self, bodies: Sequence[Body]) -> tuple[int, int, list[bytes]]:
        """Write one group of transitions and make it durable; says in which segment and from which byte on its lines lie."""
        file = await self._room()
        offset = file.size + self._unended
        return self._number, offset, await self._write(file, KIND_TRANSITION, bodies)

    async def finish(self) -> None:
        """Write the footer of a clean stop, unless there is nothing since the last one."""
        if self._lines and not self._footed and not self._lost:
            await self._foot(self._file or self._open(), "stop")

    def close(self) -> None:
        """Let go of the file. Idempotent."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> AppendFile:
        self._file = self._files.open_append(segment_name(self._number), room=self._room_bytes)
        return self._file

    async def _room(self) -> AppendFile:
        """The segment to write to: the newest, or its successor when it is full. Every step can be taken up again after `DiskFull`."""
        file = self._file or self._open()
        if self._lost and (self._lines or file.size):
            file = self._leave(file)
        elif file.size >= self._bytes_max:
            file = await self._next(file)
        if not self._lines:
            await self._head(file)
        return file

    async def _head(self, file: AppendFile) -> None:
        known = FORMAT if self._lost else FORMAT_PLAIN
        head = Head(format=known, shards=SHARDS, store=self._store, first=self._first, lost=self._lost)
        await self._write(file, KIND_HEAD, [control(head)])
        self._lost = ()

    def _leave(self, file: AppendFile) -> AppendFile:
        """Go on in the next segment, behind bytes that are damaged and stay as they are: the header says whose they were."""
        following = self._files.open_append(segment_name(self._number + 1), room=self._room_bytes)
        file.close()
        self._file = following
        self._number, self._lines, self._footed = self._number + 1, 0, ""
        return following

    async def _next(self, file: AppendFile) -> AppendFile:
        """The successor is made before the footer that promises it: wherever a segment ends in that footer, there must be another."""
        following = self._files.open_append(segment_name(self._number + 1), room=self._room_bytes)
        try:
            await self._foot(file, "roll")
        except BaseException:
            following.close()
            raise
        file.close()
        self._file = following
        self._number, self._lines, self._footed = self._number + 1, 0, ""
        return following

    async def _foot(self, file: AppendFile, reason: str) -> None:
        await self._write(file, KIND_FOOT, [control(Foot(reason=reason, lines=self._lines + 1))])
        self._footed = reason

    async def _write(self, file: AppendFile, kind: bytes, bodies: Sequence[Body]) -> list[bytes]:
        lines, link = frame(self._link, self._number, kind, bodies)
        group = b"\n" * self._unended + b"".join(lines)
        end = file.size + len(group)
        await file.append(group)
        self._begin, self._end = end - len(lines[-1]), end
        self._unended = False
        self._link = link
        self._lines += len(lines)
        self._footed = ""
        return lines
