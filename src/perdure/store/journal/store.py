"""The embedded store: one group, one append, one sync. Puts writer, index, visibility and recovery together.

Nothing is visible to reads before its group is durable. After a failed write this object refuses all further ones: whether the bytes
are on disk is then unknown, and only opening anew can tell.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import Final

from perdure.core.errors import Unavailable
from perdure.core.transition import Transition
from perdure.ports import Chance, Clock, CommitResult, DiskFull, Files, Lease, Record, RunFilter, RunPage, Wake
from perdure.store.errors import JournalCorrupt, StoreFailed
from perdure.store.journal.format import BadLine, parse, run_of, segment_name
from perdure.store.journal.index import LineIndex, Place
from perdure.store.journal.recovery import Recovery, recover
from perdure.store.journal.segments import SegmentWriter
from perdure.store.leases import Leases
from perdure.store.records import COMMITTED, draft, record_of
from perdure.store.visibility import Visibility

SEGMENT_BYTES_MAX: Final = 64 * 1024 * 1024

_log: Final = logging.getLogger(__name__)


class JournalStore:
    """`ports.Store` on the files of one directory.

    A segment that has reached `segment_bytes_max` is followed by a new one before the next group; a group is never divided.
    """

    def __init__(self, files: Files, clock: Clock, chance: Chance, *, segment_bytes_max: int = SEGMENT_BYTES_MAX) -> None:
        self._files = files
        self._clock = clock
        self._chance = chance
        self._segment_bytes_max = segment_bytes_max
        self._turn = asyncio.Lock()
        self._lock: Wake | None = None
        self._writer: SegmentWriter | None = None
        self._failure: BaseException | None = None
        self._index = LineIndex()
        self._visibility = Visibility()
        self._leases = Leases()
        self._recovery = Recovery()

    @property
    def recovery(self) -> Recovery:
        """What opening found."""
        return self._recovery

    async def open(self) -> None:
        """Take the lock and read the journal.

        Raises `Unavailable` when another process (or store) holds the directory or it cannot be used, `JournalCorrupt` for damage,
        `JournalMismatch` for a journal this version must not touch. After an exception nothing is held and nothing was changed.
        """
        if self._lock is not None or self._writer is not None:
            raise RuntimeError("a JournalStore is opened once")
        lock = self._files.lock()
        self._index, self._visibility = LineIndex(), Visibility()  # an earlier attempt may have read half a journal
        try:
            end, self._recovery = recover(self._files, self._clock, self._keep)
        except OSError as error:
            lock.cancel()
            raise Unavailable(f"the journal cannot be opened: {error}") from error
        except BaseException:
            lock.cancel()
            raise
        self._clock.not_before(self._recovery.newest)
        self._lock = lock
        self._leases = Leases(floor=end.link.seq)  # a lease of an earlier process is below it, whatever it wrote
        self._writer = SegmentWriter(
            self._files,
            store=end.store or self._chance.token(),
            first=end.first,
            number=end.number,
            lines=end.lines,
            link=end.link,
            footed=end.footed,
            bytes_max=self._segment_bytes_max,
        )

    async def close(self) -> None:
        """Write the footer (unless a write failed before), let go of files and lock. Idempotent."""
        async with self._turn:
            writer, lock, self._lock = self._writer, self._lock, None
            if writer is None or lock is None:
                return
            try:
                if self._failure is None:
                    await writer.finish()
            except (DiskFull, OSError) as error:
                _log.warning("journal: stopped without a footer: %s", error)
            finally:
                self._failure = self._failure or StoreFailed("the store is closed")
                writer.close()
                lock.cancel()

    async def acquire(self, node: str, shards: Sequence[int]) -> Lease:
        return self._leases.acquire(node, shards)

    async def commit(self, lease: Lease, batch: Sequence[Transition]) -> Sequence[CommitResult]:
        """Write a batch as one group.

        Raises `DiskFull` when nothing was written for want of room; `StoreFailed` after this object has failed or was closed.
        """
        async with self._turn:
            writer = self._usable()
            drafts = draft(self._leases, lease, batch)
            kept = [transition for transition, written in zip(batch, drafts, strict=True) if isinstance(written, bytes)]
            if kept:
                await self._write(writer, kept, [written for written in drafts if isinstance(written, bytes)])
            return [COMMITTED if isinstance(written, bytes) else written for written in drafts]

    async def _write(self, writer: SegmentWriter, transitions: list[Transition], texts: list[bytes]) -> None:
        bodies = [(run_of(transition), text) for transition, text in zip(transitions, texts, strict=True)]
        try:
            segment, offset, lines = await writer.append(bodies)
        except DiskFull:
            raise
        except BaseException as error:
            self._failure = error
            if isinstance(error, OSError):
                raise StoreFailed(f"the journal could not be written: {error}") from error
            raise
        for transition, line in zip(transitions, lines, strict=True):
            self._keep(transition, segment, offset, len(line))
            offset += len(line)

    def _usable(self) -> SegmentWriter:
        if self._failure is not None:
            raise StoreFailed(f"the store takes no writes any more: {self._failure}") from self._failure
        if self._writer is None:
            raise StoreFailed("the store is not open")
        return self._writer

    def _keep(self, transition: Transition, segment: int, offset: int, length: int) -> None:
        self._index.add((transition.namespace, transition.workflow_id), segment, offset, length)
        self._visibility.apply(transition)

    def may_hold(self, namespace: str, workflow_id: str) -> bool:
        return self._index.holds((namespace, workflow_id))

    async def load(self, namespace: str, workflow_id: str) -> Sequence[Transition]:
        """Raises `JournalCorrupt` when a line is no longer what was written."""
        return tuple(self._read(self._index.places((namespace, workflow_id))))

    def _read(self, places: Iterator[Place]) -> Iterator[Transition]:
        for place in places:
            name = segment_name(place.segment)
            text = self._files.read(name, place.offset, place.length)
            try:
                line = parse(text.removesuffix(b"\n"))
            except BadLine as bad:
                raise JournalCorrupt(
                    f"the line at byte {place.offset} of {name} has changed since it was written: {bad}",
                    segment=name,
                    offset=place.offset,
                ) from bad
            assert line.t is not None
            yield line.t

    async def open_workflows(self, shards: Sequence[int]) -> Sequence[tuple[str, str]]:
        return self._visibility.open_workflows(shards)

    async def record(self, namespace: str, workflow_id: str, run_id: str = "") -> Record | None:
        """Raises `JournalCorrupt` when a line is no longer what was written."""
        row = self._visibility.row(namespace, workflow_id, run_id)
        if row is None:
            return None
        return record_of(row, self._read(self._index.places((namespace, workflow_id), row.first, row.last)))

    async def runs(self, filter: RunFilter, limit: int, cursor: str = "") -> RunPage:
        return self._visibility.page(filter, limit, cursor)

    async def count(self, filter: RunFilter) -> int:
        return self._visibility.count(filter)
