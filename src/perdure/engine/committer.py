"""Group commit with zero added delay: whatever queued while the last flush was in flight goes into the next.

One commit is in flight at a time, in order. What a transition promises (replies, tasks, wakes) is let go by its callback, after its
commit and never before. If it is not known that a commit succeeded, nothing after it may be written: the committer is fenced.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from perdure.core.errors import PerdureError, ResourceExhausted, Unavailable
from perdure.core.transition import Transition
from perdure.engine.pending import PendingWrite, Unwritable, WriteLost
from perdure.engine.tally import Tally
from perdure.ports import Clock, CommitResult, Lease, Store

log = logging.getLogger(__name__)

GROUP_MAX: Final = 2_000
"""Transitions in one group; more wait for the next."""


class Entry(Protocol):
    """One thing in the commit queue. Called once: after the commit with None, or with why it failed or may have.

    `transition` None makes it a barrier: called when everything queued before is durable. `is_void` says at the last moment that it
    builds on a write that failed, and must not be written.
    """

    @property
    def transition(self) -> Transition | None: ...

    @property
    def is_void(self) -> bool: ...

    def __call__(self, error: BaseException | None, /) -> None: ...


class Committer:
    """Commits transitions of many workflow ids in groups. `commits` and `transitions` count what was written."""

    def __init__(
        self,
        store: Store,
        lease: Lease,
        on_fenced: Callable[[BaseException], None],
        clock: Clock | None = None,
        tally: Tally | None = None,
    ) -> None:
        self._store = store
        self._lease = lease
        self._on_fenced = on_fenced
        self._clock = clock
        self._tally = tally
        self._queue: list[Entry] = []
        self._wake: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self.fault: BaseException | None = None
        self.writing_since = 0
        """When the group in flight was handed to the store; 0 = none is."""
        self.groups = 0
        self.transitions = 0

    async def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="perdure committer")

    async def stop(self) -> None:
        """Write what is queued, then stop. Idempotent; whoever gives up waiting leaves the write that is under way alone."""
        self._stopping = True
        self._kick()
        if self._task is not None:
            await asyncio.wait([self._task])

    def append(self, entry: Entry) -> None:
        """Queue an entry behind everything queued before."""
        if self.fault is not None or (self._task is not None and self._task.done()):
            _call(entry, _unavailable(self.fault))
            return
        self._queue.append(entry)
        if self._wake is not None:
            self._kick()

    @property
    def depth(self) -> int:
        """Writes and barriers that wait for the next group."""
        return len(self._queue)

    @property
    def busy(self) -> bool:
        """True while anything is queued or being written."""
        return bool(self._queue) or self._wake is None

    def _kick(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self._queue:
                if self._stopping:
                    return
                self._wake = loop.create_future()
                await self._wake
                self._wake = None
                continue
            batch, self._queue = self._queue, []
            if len(batch) > GROUP_MAX:
                self._queue = batch[GROUP_MAX:]
                del batch[GROUP_MAX:]
            await self._commit(batch)

    async def _commit(self, batch: list[Entry]) -> None:
        entries = [entry for entry in batch if not entry.is_void]
        if len(entries) < len(batch):
            _release([entry for entry in batch if entry.is_void], Unavailable("the write it depended on failed"))
        transitions = [entry.transition for entry in entries if entry.transition is not None]
        if self._clock is not None and transitions:
            self.writing_since = self._clock.now()
        try:
            results = await self._store.commit(self._lease, transitions) if transitions else ()
            ended = self._clock.now() if self._clock is not None else 0
        except ResourceExhausted as full:
            # Known not to be written. What queued behind may build on it, so it goes too; callers hear why and state is reloaded.
            behind, self._queue = self._queue, []
            self.writing_since = 0
            _release([*entries, *behind], full)
            return
        except asyncio.CancelledError:
            self._fence(entries, Unavailable("the engine stopped before the write was known to be durable"))
            raise
        except BaseException as error:  # noqa: BLE001 – whatever it is, it is not known whether the batch was written
            self._fence(entries, error)
            return
        self.groups += 1
        self.transitions += len(transitions)
        tally = self._tally
        if tally is not None and transitions:
            tally.group_written(len(transitions), self.writing_since, ended)
        self.writing_since = 0
        verdicts = iter(results)
        for entry in entries:
            verdict = next(verdicts) if entry.transition is not None else None
            if tally is not None and verdict is not None and verdict.ok:
                _count(tally, entry)
            _call(entry, None if verdict is None or verdict.ok else _refusal(verdict))

    def _fence(self, batch: list[Entry], error: BaseException) -> None:
        log.critical("a write is not known to be durable; nothing more is written here: %s", error)
        self.fault = error
        behind, self._queue = self._queue, []
        _release([*batch, *behind], _unavailable(error))
        self._on_fenced(error)


def _refusal(verdict: CommitResult) -> PerdureError:
    if verdict.unwritable:
        return Unwritable(verdict.reason.removeprefix("refused: "))
    return WriteLost(f"the write was not made: {verdict.reason}")


def _unavailable(fault: BaseException | None) -> Unavailable:
    return Unavailable(f"nothing more can be written here: {fault}" if fault is not None else "the engine has stopped")


def _count(tally: Tally, entry: Entry) -> None:
    """Before anyone hears of it: whoever is answered finds it counted."""
    try:
        if isinstance(entry, PendingWrite):
            tally.take(entry.transition, entry)
    except Exception:
        log.exception("a commit was not counted")


def _release(entries: list[Entry], error: BaseException) -> None:
    for entry in entries:
        _call(entry, error)


def _call(entry: Entry, error: BaseException | None) -> None:
    try:
        entry(error)
    except Exception:
        log.exception("a commit's callback failed")
