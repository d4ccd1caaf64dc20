"""The embedded store: one group, one append, one sync. Puts writer, index and recovery together.

Nothing is visible to reads before its group is durable. After a failed write this object refuses all further ones: whether the bytes
are on disk is then unknown, and only opening anew can tell.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from perdure.core.errors import HistoryDamaged, PerdureError, Unavailable
from perdure.core.events import ChildRequested
from perdure.core.overview import Disk
from perdure.core.shards import SHARDS, shard_of
from perdure.core.transition import RunChange, Transition
from perdure.ports import (
    Census,
    Chance,
    Clock,
    CommitResult,
    DamagedRun,
    DiskFull,
    Files,
    Lease,
    Record,
    RunFilter,
    RunPage,
    Wake,
)
from perdure.store.errors import StoreFailed
from perdure.store.index.index import Index
from perdure.store.index.item import Place
from perdure.store.index.position import Position
from perdure.store.index.upkeep import RunKey
from perdure.store.journal.compaction import DEAD_SHARE, Compacted, Compaction
from perdure.store.journal.damaged import DamagedRuns, as_far_as_whole, only_begun, reason_of, without, words_of
from perdure.store.journal.expected import Expected
from perdure.store.journal.fault import Fault, RunName
from perdure.store.journal.format import BadLine, number_of, parse, run_of, segment_name
from perdure.store.journal.reader import lines_of
from perdure.store.journal.recovery import Recovery, is_of, is_of_another, recover, segments_of, superseded, unfinished
from perdure.store.journal.segments import SegmentWriter
from perdure.store.leases import Leases
from perdure.store.records import COMMITTED, draft, record_of

SEGMENT_BYTES_MAX: Final = 64 * 1024 * 1024
ROOM_BYTES: Final = 4 * 1024 * 1024
"""So much is set aside behind the last line at a time, and given back at a clean stop and when a segment is full."""

FIRST_COMPACTION_US: Final = 60 * 1_000_000
COMPACTION_US: Final = 600 * 1_000_000
"""How long after opening, and how often from then on, it is looked whether there is anything to compact."""

DISK_LOOK_US: Final = 5 * 1_000_000
"""So old may be what is told of the disk."""

_log: Final = logging.getLogger(__name__)


class JournalStore:
    """`ports.Store` on the files of one directory.

    A segment that has reached `segment_bytes_max` is followed by a new one before the next group; a group is never divided. Without an
    `index` on a file one in memory is made, for which every opening reads the whole journal. `retention`: so many microseconds after
    they closed runs are dropped, while it is open (0: they are kept).
    """

    def __init__(
        self,
        files: Files,
        clock: Clock,
        chance: Chance,
        *,
        segment_bytes_max: int = SEGMENT_BYTES_MAX,
        room_bytes: int = ROOM_BYTES,
        index: Index | None = None,
        retention: int = 0,
    ) -> None:
        self._files = files
        self._clock = clock
        self._chance = chance
        self._segment_bytes_max = segment_bytes_max
        self._room_bytes = room_bytes
        self._retention = retention
        self._turn = asyncio.Lock()
        self._house = asyncio.Lock()
        """One compaction at a time."""
        self._keeper: asyncio.Task[None] | None = None
        self._childless: set[RunKey] = set()
        """Runs past their keep time that were looked through for children just now."""
        self._lock: Wake | None = None
        self._writer: SegmentWriter | None = None
        self._failure: BaseException | None = None
        self._index = index if index is not None else Index()
        self._leases = Leases()
        self._recovery = Recovery()
        self._damaged = DamagedRuns()
        self._mended: dict[tuple[int, int], Transition] = {}
        self._disk, self._looked_at = Disk(), -DISK_LOOK_US
        self._keys: dict[int, int] = {}
        """The key of each segment that was read, by its number."""

    @property
    def recovery(self) -> Recovery:
        """What opening found."""
        return self._recovery

    async def open(self) -> None:
        """Take the lock and read the journal.

        Damaged runs are named in the log and by `damaged()`; the others go on. Raises `Unavailable` when another process (or store)
        holds the directory or it cannot be used, `JournalCorrupt` when whole segments are missing or belong to another journal,
        `JournalMismatch` for a journal this version must not touch. After an exception nothing is held and nothing was changed.
        """
        if self._lock is not None or self._writer is not None:
            raise RuntimeError("a JournalStore is opened once")
        lock = self._files.lock()
        try:
            self._writer = self._opened()
        except OSError as error:
            self._index.let_go()
            lock.cancel()
            raise Unavailable(f"the journal cannot be opened: {error}") from error
        except BaseException:
            self._index.let_go()
            lock.cancel()
            raise
        self._clock.not_before(self._recovery.newest)
        self._lock = lock
        if self._retention:
            keeping = self._keep_house(self._retention)
            self._keeper = asyncio.get_running_loop().create_task(keeping, name="perdure compaction")

    def _opened(self) -> SegmentWriter:
        """Read what the index does not know yet, or everything when it is of no use."""
        try:
            return self._read_on(self._index.open())
        except sqlite3.Error as error:
            self._index.forsake(error)
            return self._read_on(None)

    def _read_on(self, since: Position | None) -> SegmentWriter:
        if since is not None and not is_of(self._files, since):
            self._index.clear()
            if is_of_another(self._files, since):
                self._index.disown()
            since = None
        old = superseded(self._files)
        if since is not None and old:  # a crash came between writing a segment anew and noting where its lines lie
            self._index.clear()
            since = None
        opened = recover(self._files, self._clock, self._keep, again=self._index.clear, who_wrote=self._who_wrote, since=since)
        if opened.expired:
            damaged = {(run.namespace, run.workflow_id, run.run_id) for fault in opened.report.faults for run in fault.runs}
            self._index.expire_again(opened.expired, damaged)
        self._leases = Leases(
            floor=opened.end.link.seq
        )  # above any lease of an earlier process under which something was written
        self._mended, self._keys = opened.mended, opened.keys
        self._damaged = DamagedRuns()
        self._set_aside(opened.report.faults)
        writer = SegmentWriter(
            self._files, opened.end, store=self._chance.token(), bytes_max=self._segment_bytes_max, room=self._room_bytes
        )
        self._index.settle(writer.position, self._whole_lines)
        for name in (*old, *unfinished(self._files)):
            self._files.remove(name)
        self._recovery = replace(opened.report, newest=max(opened.report.newest, self._index.newest))
        return writer

    def _who_wrote(self, segment: int, offset: int) -> RunName | None:
        found = self._index.who_wrote(segment, offset)
        if found is None or not found.run_ids:
            return None
        return RunName(namespace=found.namespace, workflow_id=found.workflow_id, run_id=found.run_ids[0])

    def _whole_lines(self, until: Position) -> Iterator[tuple[Transition, Place]]:
        """Every transition of the journal up to a position, for an index that has to be made anew while it is used."""
        for key in segments_of(self._files):
            offset = 0
            for text, _ in lines_of(self._files, segment_name(key)):
                if (number_of(key), offset) >= (until.segment, until.end):
                    return
                place = Place(key, offset, len(text) + 1)
                transition = self._transition_at(place, text)
                if transition is not None:
                    yield transition, place
                offset += len(text) + 1

    def _transition_at(self, place: Place, text: bytes) -> Transition | None:
        try:
            return parse(text).t
        except BadLine:
            return self._mended.get((place.segment, place.offset))

    def _set_aside(self, faults: Sequence[Fault]) -> None:
        """Keep every run of whose history something is lost from going on, and say so."""
        for fault in faults:
            if not fault.kept:
                _log.error("journal: %s", words_of(fault))
            for run in fault.runs:
                self._set_run_aside(fault, run)

    def _set_run_aside(self, fault: Fault, run: RunName) -> None:
        key = (run.namespace, run.workflow_id)
        rows = self._index.rows(key)
        if all(row.closed_at and row.run_id != run.run_id for row in rows):  # else it is there, or another one is current
            self._hold_place(fault, run)
        self._damaged.add(run, reason_of(fault))
        self._index.mark_damaged(key, run.run_id)
        row = self._index.row(key, run.run_id)
        if row is None or not row.closed_at:
            ids = {"workflow_id": run.workflow_id, "run_id": run.run_id}
            _log.error(
                "journal: run %s of workflow %r is quarantined: %s", run.run_id, run.workflow_id, reason_of(fault), extra=ids
            )

    def _hold_place(self, fault: Fault, run: RunName) -> None:
        """Give a run of which no line is whole a place in listings, and its workflow id one that must be cleared before it is used."""
        if run.workflow_id:
            nothing = Transition(workflow_id=run.workflow_id, namespace=run.namespace, runs=(RunChange(run_id=run.run_id),))
            self._keep(nothing, self._keys.get(fault.segment, fault.segment), fault.offset, fault.length)

    # ------------------------------------------------------------------------------------------------------- keeping house

    async def compact(
        self, retention: int, *, share: float = DEAD_SHARE, progress: Callable[[int], None] = lambda _: None
    ) -> Compacted:
        """Drop runs that closed more than `retention` microseconds ago, and write old segments anew without their lines.

        That is done when unwanted lines are `share` of all old segments' bytes or more; reads and commits go on meanwhile. `progress`
        is told the bytes of each segment that is done. Raises `DiskFull` with everything as it was.
        """
        async with self._house:
            self._usable()
            before = self._clock.now() - retention
            spared = {(run.namespace, run.workflow_id, run.run_id) for run in self._damaged.all()}
            spared |= await self._parents(before)
            done = Compacted(runs=await self._index.expire(before, spared))
            self._childless.clear()
            if any(not fault.kept for fault in self._recovery.faults):
                return done  # until it is repaired no damaged byte is dropped
            await Compaction(self._files, self._index, before, done).run(share, progress)
            return done

    async def _parents(self, before: int) -> set[RunKey]:
        """Earlier runs of open chains that asked for children: whoever closes the chain must know of them."""
        for key in await self._index.forebears(before):
            if key not in self._childless:
                record = await self.record(*key)
                await asyncio.sleep(0)
                if record is None or not any(isinstance(event, ChildRequested) for event in record.events):
                    self._childless.add(key)
        return {key for key in await self._index.forebears(before) if key not in self._childless}

    async def _keep_house(self, retention: int) -> None:
        wait = FIRST_COMPACTION_US
        while True:
            await self._clock.sleep(wait)
            wait = COMPACTION_US
            try:
                done = await self.compact(retention)
            except (PerdureError, OSError, sqlite3.Error) as error:
                _log.warning("journal: dropping what is past its keep time was put off: %s", error)
                continue
            if done.segments:
                _log.info(
                    "journal: %d segments written anew without what is past its keep time: %d bytes became %d",
                    done.segments,
                    done.bytes_before,
                    done.bytes_after,
                )

    async def _stop_keeping_house(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait([keeper])

    async def close(self) -> None:
        """Write the footer (unless a write failed before), let go of files and lock. Idempotent."""
        await self._stop_keeping_house()
        async with self._house, self._turn:
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
                try:
                    await self._index.close(writer.position)
                finally:
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
                await self._index.room()
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
        self._index.reach(writer.position)

    def _usable(self) -> SegmentWriter:
        if self._failure is not None:
            raise StoreFailed(f"the store takes no writes any more: {self._failure}") from self._failure
        if self._writer is None:
            raise StoreFailed("the store is not open")
        return self._writer

    def _keep(self, transition: Transition, segment: int, offset: int, length: int) -> None:
        self._index.add(transition, segment, offset, length)

    def may_hold(self, namespace: str, workflow_id: str) -> bool:
        return self._index.holds((namespace, workflow_id))

    async def load(self, namespace: str, workflow_id: str) -> Sequence[Transition]:
        """See `ports.Store`. Lines that are no longer what was written are found here too."""
        return await self._index.ask(lambda: self._load(namespace, workflow_id))

    def _load(self, namespace: str, workflow_id: str) -> Sequence[Transition]:
        whole = [found for found in self._read(namespace, workflow_id) if found is not None]
        damaged = self._damaged.of(namespace, workflow_id)
        if not damaged:
            return tuple(only_begun(whole))
        last = self._index.row((namespace, workflow_id))
        if last is not None and last.run_id in damaged:
            raise HistoryDamaged(
                f"run {last.run_id} of workflow {workflow_id!r} is quarantined: {damaged[last.run_id]}", run_id=last.run_id
            )
        return tuple(only_begun(rest for found in whole if (rest := without(found, damaged)) is not None))

    def _read(self, namespace: str, workflow_id: str, first: int = 0, last: int | None = None) -> Iterator[Transition | None]:
        """Transitions number `first` to `last` of a workflow id; None in the place of one that is damaged."""
        expected = Expected(namespace, workflow_id)
        for number, place in enumerate(self._index.places((namespace, workflow_id), first, last), first):
            found: Transition | None = None
            try:
                found = expected.own(self._line_at(place))
                expected.follow(found)
            except BadLine as bad:
                self._rotten(namespace, workflow_id, number, place, bad)
            yield found

    def _line_at(self, place: Place) -> Transition | None:
        """What stands there; None when it is no transition. Raises `BadLine`."""
        try:
            text = self._files.read(segment_name(place.segment), place.offset, place.length)
        except FileNotFoundError:
            text = b""
        try:
            return parse(text.removesuffix(b"\n")).t
        except BadLine:
            mended = self._mended.get((place.segment, place.offset))
            if mended is None:
                raise
            return mended

    def _rotten(self, namespace: str, workflow_id: str, number: int, place: Place, bad: BadLine) -> None:
        """A line that was whole when it was written or first read is so no more: its runs are damaged from now on.

        Or the index is wrong. The next start reads everything, and knows.
        """
        if self._writer is not None:
            self._writer.doubt()
            self._index.reach(self._writer.position)
        fault = Fault(segment=place.segment, offset=place.offset, length=place.length, why=str(bad))
        for row in self._index.rows((namespace, workflow_id)):
            if row.first <= number <= row.last and row.run_id not in self._damaged.of(namespace, workflow_id):
                run = RunName(namespace=namespace, workflow_id=workflow_id, run_id=row.run_id)
                self._damaged.add(run, reason_of(fault))
                self._index.mark_damaged((namespace, workflow_id), row.run_id, end_lost=number == row.last)
                ids = {"workflow_id": workflow_id, "run_id": row.run_id}
                _log.error(
                    "journal: run %s of workflow %r is quarantined: %s", row.run_id, workflow_id, reason_of(fault), extra=ids
                )

    def damaged(self) -> Sequence[DamagedRun]:
        return self._damaged.all()

    async def open_workflows(self, shards: Sequence[int]) -> Sequence[tuple[str, str]]:
        keys = await self._index.restless()
        wanted = set(shards)
        return keys if len(wanted) == SHARDS else [key for key in keys if shard_of(*key) in wanted]

    def park(self, namespace: str, workflow_id: str, wake_at: int) -> None:
        self._index.park((namespace, workflow_id), wake_at)

    async def waking(self, until: int) -> tuple[Sequence[tuple[str, str]], int]:
        return await self._index.waking(until)

    async def record(self, namespace: str, workflow_id: str, run_id: str = "") -> Record | None:
        return await self._index.ask(lambda: self._record(namespace, workflow_id, run_id))

    def _record(self, namespace: str, workflow_id: str, run_id: str) -> Record | None:
        row = self._index.row((namespace, workflow_id), run_id)
        if row is None:
            return None
        found = list(self._read(namespace, workflow_id, row.first, row.last))
        reason = self._damaged.of(namespace, workflow_id).get(row.run_id)
        record = record_of(row, (transition for transition in found if transition is not None))
        return record if reason is None else as_far_as_whole(record, reason)

    async def runs(self, filter: RunFilter, limit: int, cursor: str = "") -> RunPage:
        return await self._index.page(filter, limit, cursor)

    async def count(self, filter: RunFilter) -> int:
        return await self._index.count(filter)

    async def census(self) -> Census:
        return await self._index.census()

    def disk(self) -> Disk:
        """What it holds on the disk, looked up anew at most every `DISK_LOOK_US`."""
        now, writer = self._clock.now(), self._writer
        if writer is not None and self._lock is not None and now >= self._looked_at + DISK_LOOK_US:
            self._looked_at = now
            newest = writer.position
            keys = segments_of(self._files)
            whole = sum(self._files.size(segment_name(key)) for key in keys if number_of(key) != newest.segment)
            self._disk = Disk(journal_bytes=whole + newest.end, segments=len(keys), free_bytes=self._files.free())
        return replace(self._disk, index_behind=self._index.behind)
