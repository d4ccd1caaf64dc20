"""What a node tells about itself, as values: the figures of `ports.Overview`, and one item of its news.

All of it is of this life of the node, but for what is open. Units stand at the end of a name; nothing here depends on how many runs there are.
"""

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from perdure.core.tasks import Kind


class Open(Struct, frozen=True, kw_only=True):
    """Runs that are not closed, by status. `parked` are those of them that are not in memory, because they only wait."""

    running: int
    paused: int
    quarantined: int
    parked: int

    @property
    def runs(self) -> int:
        return self.running + self.paused + self.quarantined


class Durations(Struct, frozen=True, kw_only=True):
    """Nearest-rank percentiles of the latest `samples` measured; 0 before there is one."""

    samples: int = 0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    max_ms: float = 0.0


class Disk(Struct, frozen=True, kw_only=True):
    """Where a node keeps its journal: bytes of it, segments, room left (None: it cannot be told), transitions its index has yet to write."""

    journal_bytes: int = 0
    segments: int = 0
    free_bytes: int | None = None
    index_behind: int = 0


class Stats(Struct, frozen=True, kw_only=True):
    """A node as a whole, now. Rates are those of the last minute."""

    node: str
    version: str
    now: datetime
    uptime_s: float
    open: Open
    started: int
    """Runs that began since this node did: continued, retried and reset ones too."""
    closed: dict[str, int]
    """Runs that closed since this node began, by status."""
    starts_per_s: float
    closes_per_s: float
    commits: int
    """Transitions committed."""
    syncs: int
    """Groups they were written in, one sync to disk each."""
    commits_per_sync: float
    events: int
    """Events written."""
    attempts_failed: int
    signals: int
    sync_ms: Durations
    """How long writing a group took, its sync included."""
    mailbox: int
    """Requests and writes that wait for a group."""
    outbox: int
    """Messages from run to run that are on their way."""
    timers: int
    """Wakes that are set, for runs in memory."""
    queued: int
    """Tasks that wait for a worker, in all queues."""
    queries_waiting: int
    workers: int
    repaired: int
    """Tasks, wakes and messages the sweeper had to bring again."""
    disk: Disk
    refused: dict[str, dict[str, int]] = {}
    """New starts that were refused, by origin and then by reason. Origins beyond a hundred are `other`."""


class Histogram(Struct, frozen=True, kw_only=True):
    """How many values were at most each bound, not counting those at most the bound before; one more count than bounds."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float


class Counters(Struct, frozen=True, kw_only=True):
    """What only goes up in this life of a node, in more detail than `Stats` tells it. Types of workflow are bounded in number."""

    started: dict[str, int]
    """Runs by workflow type."""
    closed: dict[tuple[str, str], int]
    """Runs by workflow type and status."""
    sync_s: Histogram
    group: Histogram
    """Transitions in a group."""
    news: int
    """Items of news told."""
    refused: dict[tuple[str, str], int] = {}
    """New starts by origin and reason."""


class QueueFigures(Struct, frozen=True, kw_only=True):
    """One line of a task queue: tasks of one kind that wait for a worker, and who takes them."""

    queue: str
    kind: Kind
    waiting: int
    oldest_s: float
    """How long the first in line has waited; 0 when none waits, or it is not wanted any more."""
    delivered: int
    """Tasks handed to workers since this node began."""
    dropped: int
    """Tasks that found no room; the sweeper brings them again."""
    workers: int
    wait_p99_s: float | None = None
    """99th percentile of how long the tasks claimed in the last three seconds had waited; 0 when none was, null when that is not measured."""


class WorkerFigures(Struct, frozen=True, kw_only=True):
    """One worker that is connected."""

    worker: str
    build_id: str
    queues: tuple[str, ...]
    slots: int
    """Activities it takes at once."""
    in_hand: int
    """Of its slots, those taken: by activities that run, or that are on their way to it."""
    remote: bool
    peer: str
    """Where it connects from; empty for one of this process."""
    connected_at: datetime
    heard_at: datetime
    """Its last message or beat: one that has nothing to do says nothing. Of a worker of this process, now."""


class Component(Struct, frozen=True, kw_only=True):
    """One part of a node: `degraded` still does its work, `failed` does not."""

    name: str
    status: Literal["ok", "degraded", "failed"] = "ok"
    details: str = ""


class NodeFigures(Struct, frozen=True, kw_only=True):
    node: str
    incarnation: str
    version: str
    started_at: datetime
    shards: int
    stopping: bool


class ShardFigures(Struct, frozen=True, kw_only=True):
    """One shard: who owns it, the fencing number of its writes, and what of it is in memory."""

    shard: int
    node: str
    range_id: int
    open_in_memory: int


class Line(Struct, frozen=True, kw_only=True):
    """One line of the broker, as it is now; `first` is the task that goes next."""

    queue: str
    kind: Kind
    waiting: int
    delivered: int
    dropped: int
    subscribers: int
    first: Any = None


class NewsItem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened here and is durable, for those who watch. `id` names it to whoever wants to go on behind it."""

    id: str
    kind: str
    """`run.started`, say: see the table in `engine.telling`."""
    time: datetime
    namespace: str = ""
    workflow_id: str = ""
    run_id: str = ""
    workflow_type: str = ""
    details: dict[str, Any] = {}
