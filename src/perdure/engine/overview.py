"""Figures of a node, read off counters: what `GET /api/v1/stats` and its neighbours answer. Costs the same for any number of runs.

Implements `ports.Overview`. It changes nothing and waits for nothing.
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from msgspec.structs import replace

from perdure.core.overview import (
    Component,
    Counters,
    Disk,
    Line,
    NodeFigures,
    Open,
    QueueFigures,
    ShardFigures,
    Stats,
    WorkerFigures,
)
from perdure.core.shards import SHARDS
from perdure.core.tasks import Task
from perdure.engine.admission import Admission
from perdure.engine.committer import Committer
from perdure.engine.live import LiveWorkflow
from perdure.engine.news import moment
from perdure.engine.owner import ShardOwner
from perdure.engine.queries import Queries
from perdure.engine.queue_waits import waiting_since
from perdure.engine.relay import Relay
from perdure.engine.roster import Roster
from perdure.engine.sweeper import Sweeper
from perdure.engine.tally import Tally
from perdure.engine.timers import TimerQueue
from perdure.ports import Broker, Clock

STUCK_US: Final = 5 * 1_000_000
"""A group that takes longer than this to be written is a disk that does not answer."""
LITTLE_BYTES: Final = 256 * 1024 * 1024
"""With less room than this on the disk, and it is time to make some."""
BEHIND: Final = 40_000
"""An index so many transitions behind is about to hold up commits."""


class Engine(Protocol):
    """The engine, as far as its figures lie there."""

    committer: Committer
    timers: TimerQueue
    relay: Relay
    sweeper: Sweeper
    queries: Queries
    tally: Tally
    roster: Roster
    admission: Admission | None
    incarnation: str
    fault: BaseException | None

    @property
    def owners(self) -> Iterable[ShardOwner]: ...

    @property
    def loading(self) -> int:
        """Requests whose workflow id is being loaded."""
        ...

    @property
    def is_over(self) -> bool: ...

    def find(self, namespace: str, workflow_id: str) -> LiveWorkflow | None: ...


def nothing_known() -> Disk:
    """Of a store without a disk."""
    return Disk()


class EngineOverview:
    """`node` is its name, `version` that of the package, `disk` what its store holds on the disk, `range_ids` the fencing numbers."""

    def __init__(
        self, engine: Engine, broker: Broker, clock: Clock, *, node: str, version: str, disk: Callable[[], Disk] = nothing_known
    ) -> None:
        self._engine = engine
        self._broker = broker
        self._clock = clock
        self._node = node
        self._version = version
        self._disk = disk
        self.range_ids: dict[int, int] = {}

    def stats(self) -> Stats:
        """See `ports.Overview.stats`."""
        engine, tally, now = self._engine, self._engine.tally, self._clock.now()
        starts, closes = tally.rates()
        closed: dict[str, int] = {}
        for (_, status), count in tally.closed.items():
            closed[status] = closed.get(status, 0) + count
        return Stats(
            node=self._node,
            version=self._version,
            now=moment(now),
            uptime_s=(now - tally.began) / 1_000_000,
            open=self.open(),
            started=tally.starts,
            closed=closed,
            starts_per_s=round(starts, 3),
            closes_per_s=round(closes, 3),
            commits=tally.commits,
            syncs=tally.syncs,
            commits_per_sync=round(tally.commits / tally.syncs, 3) if tally.syncs else 0.0,
            events=tally.events,
            attempts_failed=tally.attempts_failed,
            signals=tally.signals,
            sync_ms=tally.durations(),
            mailbox=engine.committer.depth + engine.loading,
            outbox=engine.relay.depth,
            timers=len(engine.timers),
            queued=sum(line.waiting for line in self._broker.lines()),
            queries_waiting=len(engine.queries.waiting),
            workers=len(engine.roster),
            repaired=engine.sweeper.repaired,
            disk=self._disk(),
            refused=engine.admission.refused if engine.admission is not None else {},
        )

    def counters(self) -> Counters:
        """See `ports.Overview.counters`."""
        counters, admission = self._engine.tally.counters(), self._engine.admission
        return counters if admission is None else replace(counters, refused=admission.counts())

    def open(self) -> Open:
        """Runs that are not closed."""
        tally = self._engine.tally
        quarantined, paused = tally.quarantined, tally.paused
        in_memory = sum(len(owner.open) for owner in self._engine.owners)
        return Open(
            running=max(0, tally.open - quarantined - paused),
            paused=paused,
            quarantined=quarantined,
            parked=max(0, tally.open - in_memory),
        )

    def queues(self) -> list[QueueFigures]:
        """See `ports.Overview.queues`."""
        return [self._queue(line) for line in self._broker.lines()]

    def _queue(self, line: Line) -> QueueFigures:
        return QueueFigures(
            queue=line.queue,
            kind=line.kind,
            waiting=line.waiting,
            oldest_s=self._waited(line.first) / 1_000_000 if line.first is not None else 0.0,
            delivered=line.delivered,
            dropped=line.dropped,
            workers=line.subscribers,
            wait_p99_s=self._p99_of(line),
        )

    def _p99_of(self, line: Line) -> float | None:
        admission = self._engine.admission
        return None if admission is None else admission.p99_of(line.queue, line.kind, self._clock.now())

    def _waited(self, task: Task) -> int:
        """How long a task has waited, as its run knows it; 0 for one that is not wanted any more."""
        live = self._engine.find(task.namespace, task.workflow_id)
        since = waiting_since(live, task.run_id, task.command, task.attempt)
        return max(0, self._clock.now() - since) if since else 0

    def workers(self) -> list[WorkerFigures]:
        """See `ports.Overview.workers`."""
        return self._engine.roster.figures()

    def shards(self) -> list[ShardFigures]:
        """See `ports.Overview.shards`."""
        return [
            ShardFigures(
                shard=owner.shard,
                node=self._node,
                range_id=self.range_ids.get(owner.shard, 0),
                open_in_memory=len(owner.open),
            )
            for owner in self._engine.owners
        ]

    def components(self) -> list[Component]:
        """See `ports.Overview.components`."""
        disk = self._disk()
        return [self._journal(), _room(disk), _index(disk)]

    def _journal(self) -> Component:
        """Whether what is decided is also written down: it fails when a group never gets done."""
        fault, since = self._engine.fault, self._engine.committer.writing_since
        if fault is not None:
            return Component(
                name="journal", status="failed", details="a write failed: nothing more is written; restart the node"
            )
        waited = self._clock.now() - since if since else 0
        if waited > STUCK_US:
            return Component(
                name="journal", status="failed", details=f"a write has taken {waited / 1_000_000:.0f} s and is not done"
            )
        return Component(name="journal")

    def node(self) -> NodeFigures:
        """See `ports.Overview.node`."""
        engine = self._engine
        return NodeFigures(
            node=self._node,
            incarnation=engine.incarnation[:8],
            version=self._version,
            started_at=moment(engine.tally.began),
            shards=SHARDS,
            stopping=engine.is_over,
        )


def _room(disk: Disk) -> Component:
    if disk.free_bytes is not None and disk.free_bytes < LITTLE_BYTES:
        return Component(name="disk", status="degraded", details=f"{disk.free_bytes // 2**20} MiB are free")
    return Component(name="disk")


def _index(disk: Disk) -> Component:
    if disk.index_behind > BEHIND:
        return Component(name="index", status="degraded", details=f"{disk.index_behind} transitions behind the journal")
    return Component(name="index")
