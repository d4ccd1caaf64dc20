"""The node's metrics in Prometheus' words: read off the counters when they are asked for, registered nowhere else.

Every metric stands in `METRICS`, with its help, in the order of the page about them. Labels are bounded: workflow types are counted by name
up to a hundred, queues up to `QUEUES_MAX` here; what is beyond is `other`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from perdure.core.overview import Counters, Histogram, QueueFigures, Stats
from perdure.ports import Overview
from perdure.server.request_tally import RequestTally

QUEUES_MAX: Final = 100
"""Task queues told by name."""
OTHER: Final = "other"

Labels = tuple[str, ...]
Samples = Mapping[Labels, float]


class Look(NamedTuple):
    """All that a scrape is made of."""

    stats: Stats
    counters: Counters
    queues: tuple[QueueFigures, ...]
    requests: RequestTally
    readers: tuple[int, int]
    """Open, and dropped."""
    lag_s: float


@dataclass(frozen=True, slots=True)
class Known:
    """One metric: what it is called, what it says, by which labels, and where it is read."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: Labels
    read: Callable[[Look], Any]


def _one(read: Callable[[Look], float]) -> Callable[[Look], Samples]:
    return lambda look: {(): read(look)}


def _by_queue(read: Callable[[QueueFigures], float], *, fold: Callable[[float, float], float] = float.__add__) -> Any:
    def samples(look: Look) -> Samples:
        named = {line.queue for line in look.queues[: 2 * QUEUES_MAX]}
        found: dict[Labels, float] = {}
        for line in look.queues:
            key = (line.queue if line.queue in named else OTHER, line.kind)
            found[key] = fold(found[key], float(read(line))) if key in found else float(read(line))
        return found

    return samples


def _measured(queues: tuple[QueueFigures, ...]) -> tuple[QueueFigures, ...]:
    return tuple(line for line in queues if line.wait_p99_s is not None)


METRICS: Final[tuple[Known, ...]] = (
    Known(
        "perdure_build_info", "gauge", "Always 1; the version is its label.", ("version",), lambda k: {(k.stats.version,): 1}
    ),
    Known("perdure_uptime_seconds", "gauge", "Since this life of the node began.", (), _one(lambda k: k.stats.uptime_s)),
    Known(
        "perdure_runs_open",
        "gauge",
        "Runs that are not closed, by status.",
        ("status",),
        lambda k: {(status,): getattr(k.stats.open, status) for status in ("running", "paused", "quarantined")},
    ),
    Known("perdure_runs_parked", "gauge", "Open runs that are not in memory.", (), _one(lambda k: k.stats.open.parked)),
    Known(
        "perdure_runs_started_total",
        "counter",
        "Runs that began, continued and retried ones too.",
        ("workflow_type",),
        lambda k: {(name,): count for name, count in k.counters.started.items()},
    ),
    Known(
        "perdure_starts_refused_total",
        "counter",
        "New starts that admission refused.",
        ("origin", "reason"),
        lambda k: k.counters.refused,
    ),
    Known(
        "perdure_runs_closed_total", "counter", "Runs that closed.", ("workflow_type", "status"), lambda k: k.counters.closed
    ),
    Known(
        "perdure_activity_attempts_failed_total",
        "counter",
        "Attempts of activities that failed, were lost or timed out.",
        (),
        _one(lambda k: k.stats.attempts_failed),
    ),
    Known("perdure_signals_received_total", "counter", "Signals taken.", (), _one(lambda k: k.stats.signals)),
    Known("perdure_events_written_total", "counter", "Events written to histories.", (), _one(lambda k: k.stats.events)),
    Known("perdure_commits_total", "counter", "Transitions committed.", (), _one(lambda k: k.stats.commits)),
    Known(
        "perdure_sync_seconds",
        "histogram",
        "Time to write a group of transitions and sync it to disk; its count is that of the syncs.",
        (),
        lambda k: {(): k.counters.sync_s},
    ),
    Known("perdure_group_transitions", "histogram", "Transitions in a group.", (), lambda k: {(): k.counters.group}),
    Known("perdure_mailbox_depth", "gauge", "Requests and writes that wait for a group.", (), _one(lambda k: k.stats.mailbox)),
    Known("perdure_outbox_depth", "gauge", "Messages between runs that are on their way.", (), _one(lambda k: k.stats.outbox)),
    Known("perdure_timers", "gauge", "Wakes that are set, for runs in memory.", (), _one(lambda k: k.stats.timers)),
    Known("perdure_queries_waiting", "gauge", "Queries that wait for an answer.", (), _one(lambda k: k.stats.queries_waiting)),
    Known(
        "perdure_sweeper_repairs_total",
        "counter",
        "Tasks, wakes and messages that had to be brought again.",
        (),
        _one(lambda k: k.stats.repaired),
    ),
    Known("perdure_tasks_waiting", "gauge", "Tasks that wait for a worker.", ("queue", "kind"), _by_queue(lambda q: q.waiting)),
    Known(
        "perdure_tasks_oldest_seconds",
        "gauge",
        "How long the first task of a line has waited.",
        ("queue", "kind"),
        _by_queue(lambda q: q.oldest_s, fold=max),
    ),
    Known(
        "perdure_tasks_wait_p99_seconds",
        "gauge",
        "How long tasks claimed lately had waited, where admission heeds that.",
        ("queue", "kind"),
        lambda k: _by_queue(lambda q: q.wait_p99_s or 0.0, fold=max)(k._replace(queues=_measured(k.queues))),
    ),
    Known(
        "perdure_tasks_delivered_total",
        "counter",
        "Tasks handed to workers.",
        ("queue", "kind"),
        _by_queue(lambda q: q.delivered),
    ),
    Known(
        "perdure_tasks_dropped_total",
        "counter",
        "Tasks a full line had no room for; they are brought again.",
        ("queue", "kind"),
        _by_queue(lambda q: q.dropped),
    ),
    Known("perdure_workers", "gauge", "Workers that are connected.", (), _one(lambda k: k.stats.workers)),
    Known("perdure_journal_bytes", "gauge", "Bytes of the journal.", (), _one(lambda k: k.stats.disk.journal_bytes)),
    Known(
        "perdure_disk_free_bytes",
        "gauge",
        "Room on the journal's disk.",
        (),
        lambda k: {} if k.stats.disk.free_bytes is None else {(): k.stats.disk.free_bytes},
    ),
    Known(
        "perdure_index_behind",
        "gauge",
        "Transitions the index has yet to write.",
        (),
        _one(lambda k: k.stats.disk.index_behind),
    ),
    Known(
        "perdure_loop_lag_seconds", "gauge", "How long the event loop took for a turn just now.", (), _one(lambda k: k.lag_s)
    ),
    Known("perdure_news_told_total", "counter", "Events told to the stream, read or not.", (), _one(lambda k: k.counters.news)),
    Known("perdure_news_readers", "gauge", "Readers of the event stream.", (), _one(lambda k: k.readers[0])),
    Known("perdure_news_readers_dropped_total", "counter", "Readers that were too slow.", (), _one(lambda k: k.readers[1])),
    Known(
        "perdure_http_requests_total",
        "counter",
        "HTTP requests answered, by route and class of status; without a route: no such path.",
        ("method", "route", "status"),
        lambda k: k.requests.counts(),
    ),
    Known(
        "perdure_http_request_seconds",
        "histogram",
        "Time to answer, waits of long polls and streams included.",
        ("route",),
        lambda k: {(path,): times for path, times in k.requests.times().items()},
    ),
)
"""Every metric there is."""


class NodeCollector(Collector):
    """Makes the families of one scrape."""

    def __init__(self, look: Callable[[], Look]) -> None:
        self._look = look

    def collect(self) -> Iterator[Metric]:
        """See `prometheus_client`."""
        look = self._look()
        for known in METRICS:
            yield _family(known, known.read(look))

    def describe(self) -> Iterable[Metric]:
        """Nothing is read to be registered."""
        return ()


def _family(known: Known, samples: Mapping[Labels, Any]) -> Metric:
    if known.kind == "histogram":
        histogram = HistogramMetricFamily(known.name, known.help, labels=known.labels)
        for labels, found in samples.items():
            histogram.add_metric(labels, _buckets(found), found.total)
        return histogram
    family = (CounterMetricFamily if known.kind == "counter" else GaugeMetricFamily)(
        known.name, known.help, labels=known.labels
    )
    for labels, value in samples.items():
        family.add_metric(labels, value)
    return family


def _buckets(found: Histogram) -> list[tuple[str, float]]:
    """Prometheus counts each value in every bucket it fits."""
    buckets: list[tuple[str, float]] = []
    count = 0
    for bound, more in zip((*map(str, map(float, found.bounds)), "+Inf"), found.counts, strict=True):
        count += more
        buckets.append((bound, count))
    return buckets


class Metrics:
    """The text of one node. `readers` says how many read its news, and how many were dropped."""

    def __init__(self, overview: Overview, requests: RequestTally, readers: Callable[[], tuple[int, int]]) -> None:
        self._overview = overview
        self._requests = requests
        self._readers = readers
        self._lag_s = 0.0
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(NodeCollector(self._look))

    def text(self, lag_s: float) -> bytes:
        """As of now, in Prometheus' text format."""
        self._lag_s = lag_s
        return generate_latest(self._registry)

    def _look(self) -> Look:
        overview = self._overview
        queues = tuple(overview.queues())
        return Look(overview.stats(), overview.counters(), queues, self._requests, self._readers(), self._lag_s)
