"""Runs that only wait: let go of from memory, written down with their next wake-up, and taken up when that comes.

A *parked* run is open, has nothing under way and nothing to decide; all that is known of it is written. The store remembers that it is
parked and when it wakes; any request to it loads it as it would load a closed one. So memory and start-up cost what is going on, not
what waits. Law `woken` holds for parked runs by the store's word: the earliest wake of all is set on the clock, and asked for again with each look.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol

from perdure.core.machine.messages import deliveries_of
from perdure.core.machine.wakes import wakes_of
from perdure.core.state import RunState
from perdure.engine.live import LiveWorkflow
from perdure.ports import Clock, Store, Wake

log = logging.getLogger(__name__)

PERIOD_US: Final = 1_000_000
CROWDED_US: Final = 250_000
"""The next look comes sooner while there are more than are kept."""
AHEAD_US: Final = 60_000_000
"""A run that wakes sooner than this stays."""
EARLY_US: Final = 2_000_000
"""So long before its wake-up a parked run is taken up, so that its timer is set in time."""
WRITES_MAX: Final = 5_000
"""Runs written down in one look for being parked in a later one."""
CHUNK: Final = 500
"""Runs looked at before others get a turn."""

Key = tuple[str, str]


class Owner(Protocol):
    """The owner of a workflow id's shard."""

    def write_down(self, live: LiveWorkflow) -> None: ...

    def let_go(self, live: LiveWorkflow) -> None: ...


class Parking:
    """Looks now and then for runs to park, while more than `kept` open ones are in memory.

    `take_up` loads a workflow id and sets its timers; `is_wanted` says that somebody waits for an answer of its code.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        kept: int,
        workflows: Callable[[], Iterable[LiveWorkflow]],
        owner_of: Callable[[Key], Owner],
        take_up: Callable[[Key], Awaitable[None]],
        is_wanted: Callable[[Key], bool],
    ) -> None:
        self._store = store
        self._clock = clock
        self._kept = kept
        self._workflows = workflows
        self._owner_of = owner_of
        self._take_up = take_up
        self._is_wanted = is_wanted
        self._period_us, self._ahead_us, self._early_us = PERIOD_US, AHEAD_US, EARLY_US
        self._task: asyncio.Task[None] | None = None
        self._rousing: asyncio.Task[None] | None = None
        self._next = 0
        """The earliest wake-up of a parked run; 0 = none wakes by itself."""
        self._wake: Wake | None = None
        self.parked = 0
        """How often a run was parked."""

    def hurry(self, period_us: int) -> None:
        """Look so often, keep none, and park also what wakes soon: for tests that want it to happen all the time."""
        self._kept = 0
        self._period_us, self._ahead_us, self._early_us = period_us, 2 * period_us, period_us

    # --------------------------------------------------------------------------------------------------------------- life

    async def start(self) -> None:
        """Take up what has woken while nobody was there."""
        await self.rouse()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="perdure parking")

    async def stop(self) -> None:
        self._cancel_wake()
        tasks = [task for task in (self._task, self._rousing) if task is not None]
        self._task = self._rousing = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        pause = self._period_us
        while True:
            await self._clock.sleep(pause)
            pause = self._period_us
            try:
                if await self.look():
                    pause = min(pause, CROWDED_US)
                if self._next:
                    await self.rouse()
            except Exception:
                log.exception("looking for runs to park failed; the next look comes in %g s", self._period_us / 1_000_000)

    # ------------------------------------------------------------------------------------------------------------ parking

    async def look(self) -> bool:
        """Look at every open run once: park what has not moved since the last look, write down what would be lost with it.

        True when more are left in memory than are kept.
        """
        lives = list(self._workflows())
        excess, writes = len(lives) - self._kept, WRITES_MAX
        for number, live in enumerate(lives, 1):
            if excess <= 0:
                return False
            if self._has_rested(live):
                if is_written_down(live):
                    excess -= self._park(live)
                elif writes:
                    writes -= 1
                    self._owner_of(_key_of(live)).write_down(live)
            if number % CHUNK == 0:
                await asyncio.sleep(0)
        return excess > 0

    def _has_rested(self, live: LiveWorkflow) -> bool:
        run = live.state.run
        reached = run.length + run.notes if run is not None else 0
        moved, live.looked_at = live.looked_at != reached, reached
        return not moved and can_rest(live) and not self._is_wanted(_key_of(live))

    def _park(self, live: LiveWorkflow) -> bool:
        wake_at = wake_of(live)
        if wake_at and wake_at < self._clock.now() + self._ahead_us:
            return False
        self._remember(live, wake_at)
        self._owner_of(_key_of(live)).let_go(live)
        return True

    def _remember(self, live: LiveWorkflow, wake_at: int) -> None:
        self._store.park(*_key_of(live), wake_at)
        self.parked += 1
        if wake_at and (not self._next or wake_at < self._next):
            self._set(wake_at)

    def leave(self) -> None:
        """The node stops and everything is written: the next one need not load what only waits."""
        for live in self._workflows():
            if can_rest(live) and is_written_down(live):
                self._store.park(*_key_of(live), wake_of(live))

    # ------------------------------------------------------------------------------------------------------------- waking

    async def rouse(self) -> None:
        """Take up every parked run whose wake-up has come or is near, and set the clock for the next."""
        while True:
            keys, following = await self._store.waking(self._clock.now() + self._early_us)
            for key in keys:
                await self._take_up(key)
            if not keys or following > self._clock.now() + self._early_us or not following:
                break
        self._set(following)

    def _set(self, instant: int) -> None:
        self._cancel_wake()
        self._next = instant
        if instant:
            self._wake = self._clock.call_at(max(instant - self._early_us, self._clock.now()), self._due)

    def _due(self) -> None:
        self._wake = None
        if self._rousing is None or self._rousing.done():
            self._rousing = asyncio.get_running_loop().create_task(self._roused(), name="perdure rousing")

    async def _roused(self) -> None:
        try:
            await self.rouse()
        except Exception:
            log.exception("taking up runs whose time has come failed; the next look tries again")

    def _cancel_wake(self) -> None:
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None


def can_rest(live: LiveWorkflow) -> bool:
    """True when nothing but a request or a timer can move the run, and nobody waits for it here."""
    run = live.state.run
    return (
        run is not None
        and run.closing is None
        and live.is_idle
        and live.damage is None
        and not live.offered_at
        and run.claim is None
        and not run.activities
        and not _may_be_offered(run)
        and not deliveries_of(live.state, asking=True)
    )


def _may_be_offered(run: RunState) -> bool:
    """A worker may take it up without a request to it; or its parent looks after it."""
    return bool(
        run.wants_decision
        or run.quarantine is not None
        or run.failed_builds
        or run.refused_builds
        or run.owed
        or run.updates
        or run.started.parent is not None
    )


def is_written_down(live: LiveWorkflow) -> bool:
    """True when loading the run would give all there is of it."""
    run = live.state.run
    return run is not None and run.seen <= run.covered and not run.unnoted


def wake_of(live: LiveWorkflow) -> int:
    """The earliest instant at which something is due; 0 = never."""
    return min((instant for instant, _ in wakes_of(live.state)), default=0)


def _key_of(live: LiveWorkflow) -> Key:
    return live.state.namespace, live.state.workflow_id
