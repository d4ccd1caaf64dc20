"""Group commit with zero added delay: whatever queued while the last flush was in flight goes into the next.

One commit is in flight at a time, in order. What a transition promises (replies, tasks, wakes) is let go by its callback, after its
commit and never before. If it is not known that a commit succeeded, nothing after it may be written: the committer is fenced.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from perdure.core.errors import PerdureError, ResourceExhausted, Unavailable
from perdure.core.transition import Transition
from perdure.ports import Lease, Store

log = logging.getLogger(__name__)

GROUP_MAX: Final = 2_000
"""Transitions in one group; more wait for the next."""

Done = Callable[[BaseException | None], None]
"""Called once, after the commit (None) or when it is known or feared that it failed."""


class Committer:
    """Commits transitions of many workflow ids in groups. `commits` and `transitions` count what was written."""

    def __init__(self, store: Store, lease: Lease, on_fenced: Callable[[BaseException], None]) -> None:
        self._store = store
        self._lease = lease
        self._on_fenced = on_fenced
        self._queue: list[tuple[Transition | None, Done]] = []
        self._wake: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self.fault: BaseException | None = None
        self.groups = 0
        self.transitions = 0

    async def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="perdure committer")

    async def stop(self) -> None:
        """Write what is queued, then stop."""
        self._stopping = True
        self._kick()
        if self._task is not None:
            await self._task

    def append(self, transition: Transition | None, done: Done) -> None:
        """Queue a transition; `None` is a barrier: `done` comes when everything queued before is durable."""
        if self.fault is not None or self._stopping and self._task is not None and self._task.done():
            done(_unavailable(self.fault))
            return
        self._queue.append((transition, done))
        if self._wake is not None:
            self._kick()

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
            batch = self._queue[:GROUP_MAX]
            del self._queue[:GROUP_MAX]
            await self._commit(batch)

    async def _commit(self, batch: list[tuple[Transition | None, Done]]) -> None:
        transitions = [transition for transition, _ in batch if transition is not None]
        try:
            results = await self._store.commit(self._lease, transitions) if transitions else ()
        except ResourceExhausted as full:
            # Known not to be written. What queued behind may build on it, so it goes too; callers hear why and state is reloaded.
            behind, self._queue = self._queue, []
            _release([*batch, *behind], full)
            return
        except asyncio.CancelledError:
            self._fence(batch, Unavailable("the engine stopped before the write was known to be durable"))
            raise
        except BaseException as error:
            self._fence(batch, error)
            return
        self.groups += 1
        self.transitions += len(transitions)
        verdicts = iter(results)
        for transition, done in batch:
            verdict = next(verdicts) if transition is not None else None
            refused = None if verdict is None or verdict.ok else PerdureError(verdict.reason)
            _call(done, refused)

    def _fence(self, batch: list[tuple[Transition | None, Done]], error: BaseException) -> None:
        log.critical("a write is not known to be durable; nothing more is written here: %s", error)
        self.fault = error
        behind, self._queue = self._queue, []
        _release([*batch, *behind], _unavailable(error))
        self._on_fenced(error)


def _unavailable(fault: BaseException | None) -> Unavailable:
    return Unavailable(f"nothing more can be written here: {fault}" if fault is not None else "the engine has stopped")


def _release(entries: list[tuple[Transition | None, Done]], error: BaseException) -> None:
    for _, done in entries:
        _call(done, error)


def _call(done: Done, error: BaseException | None) -> None:
    try:
        done(error)
    except Exception:
        log.exception("a commit's callback failed")
