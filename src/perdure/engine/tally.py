"""Counts what was committed, and tells the news of it. The one place that looks at every transition after its commit.

Nothing is ever scanned: what is open was counted once, at start-up, and goes up and down from there. Runs that are paused or quarantined
are held by run id, because a run's closing event does not say how it stood before; there are few.
"""

from collections import deque
from typing import TYPE_CHECKING, Any, Final, cast

from perdure.core.events import Reset, SignalReceived, Started
from perdure.core.notes import AttemptFailed, Paused, Quarantined, Resumed
from perdure.core.overview import Counters, Durations, Histogram
from perdure.core.transition import RunChange, Transition
from perdure.engine.news import NewsRing
from perdure.engine.telling import CLOSED, TOLD
from perdure.ports import Census, Clock

if TYPE_CHECKING:
    from perdure.engine.pending import PendingWrite

MINUTE_US: Final = 60 * 1_000_000
LATEST: Final = 512
"""Groups whose time is kept, for percentiles."""
TYPES_MAX: Final = 100
"""Workflow types counted by name; others are counted as `OTHER`."""
OTHER: Final = "other"

SYNC_BOUNDS_S: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
GROUP_BOUNDS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000)


class Measured:
    """Counts of values by bounds, the last of what is above all of them."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.total += value
        for number, bound in enumerate(self.bounds):
            if value <= bound:
                self.counts[number] += 1
                return
        self.counts[-1] += 1

    def told(self) -> Histogram:
        return Histogram(bounds=self.bounds, counts=tuple(self.counts), total=self.total)


class Tally:
    """What happened since this life of the node began, and what is open."""

    def __init__(self, clock: Clock, news: NewsRing) -> None:
        self._clock = clock
        self._news = news
        self.began = clock.now()
        self.open = 0
        self._paused: set[str] = set()
        self._quarantined: set[str] = set()
        self.syncs = 0
        self.commits = 0
        self.events = 0
        self.signals = 0
        self.attempts_failed = 0
        self.starts = 0
        self.closes = 0
        self._types: set[str] = set()
        self.started: dict[str, int] = {}
        """By workflow type."""
        self.closed: dict[tuple[str, str], int] = {}
        """By workflow type and status."""
        self.sync_s = Measured(SYNC_BOUNDS_S)
        self.group = Measured(GROUP_BOUNDS)
        self._latest: deque[int] = deque(maxlen=LATEST)
        self._durations: Durations | None = Durations()
        """None when there are newer ones than it tells of."""
        self._seconds: deque[tuple[int, int, int]] = deque(maxlen=61)
        """Instant, starts and closes at the first group of each second in which something was written."""

    def begin(self, census: Census) -> None:
        """A life of the node begins with these runs open."""
        self.began = self._clock.now()
        self.open = census.open
        self._paused, self._quarantined = set(census.paused), set(census.quarantined)

    # ------------------------------------------------------------------------------------------------------------- reading

    @property
    def quarantined(self) -> int:
        return len(self._quarantined)

    @property
    def paused(self) -> int:
        """Those that are only that."""
        return len(self._paused - self._quarantined) if self._quarantined else len(self._paused)

    def rates(self) -> tuple[float, float]:
        """Starts and closes a second, over the last minute."""
        now = self._clock.now()
        seconds = self._seconds
        while seconds and seconds[0][0] <= now - MINUTE_US:
            seconds.popleft()
        if not seconds:
            return 0.0, 0.0
        span = max(1.0, min(MINUTE_US, now - self.began) / 1_000_000)
        _, starts, closes = seconds[0]
        return (self.starts - starts) / span, (self.closes - closes) / span

    def durations(self) -> Durations:
        """How long the latest groups took."""
        if self._durations is None:
            ordered = sorted(self._latest)
            count = len(ordered)

            def at(share: float) -> float:
                return ordered[min(count - 1, int(share * count))] / 1_000

            self._durations = Durations(samples=count, p50_ms=at(0.5), p99_ms=at(0.99), max_ms=ordered[-1] / 1_000)
        return self._durations

    def counters(self) -> Counters:
        """See `ports.Overview.counters`."""
        return Counters(
            started=dict(self.started),
            closed=dict(self.closed),
            sync_s=self.sync_s.told(),
            group=self.group.told(),
            news=self._news.last,
        )

    # ------------------------------------------------------------------------------------------------------------ counting

    def group_written(self, transitions: int, began: int, ended: int) -> None:
        """A group is durable; what was in it is told next."""
        self.syncs += 1
        self.commits += transitions
        self._latest.append(ended - began)
        self._durations = None
        self.sync_s.add((ended - began) / 1_000_000)
        self.group.add(transitions)
        seconds = self._seconds
        if not seconds or ended - seconds[-1][0] >= 1_000_000:
            seconds.append((ended, self.starts, self.closes))

    def take(self, transition: Transition, write: "PendingWrite") -> None:
        """A transition is durable."""
        for change in transition.runs:
            events = change.events
            if events:
                self.events += len(events)
                if type(events[0]) is Started:
                    self._begun(transition, change, write)
                else:
                    for event in events:
                        if type(event) in TOLD:
                            self._tell(transition, change, event, write, "")
            for note in change.notes:
                if type(note) in TOLD:
                    self._tell(transition, change, note, write, "")

    def _begun(self, transition: Transition, change: RunChange, write: "PendingWrite") -> None:
        """A run's first events. Those before a reset are copies of what happened to another run."""
        started: Any = change.events[0]
        workflow_type = started.workflow_type
        self._tell(transition, change, started, write, workflow_type)
        if started.paused:
            self._paused.add(change.run_id)
        events = change.events
        for number in range(len(events) - 1, 0, -1):
            if type(events[number]) is Reset:
                events = events[number:]
                break
        for event in events[1:]:
            if type(event) in TOLD:
                self._tell(transition, change, event, write, workflow_type)

    def _tell(self, transition: Transition, change: RunChange, entry: Any, write: "PendingWrite", workflow_type: str) -> None:
        entry_type = cast("type[object]", type(entry))
        kind, saying = TOLD[entry_type]
        name = ""
        if not workflow_type and write.before is not None:
            workflow_type = write.before.started.workflow_type
        run_id = change.run_id
        if entry_type is Started:
            self.open += 1
            self.starts += 1
            counted = self._counted(workflow_type)
            self.started[counted] = self.started.get(counted, 0) + 1
        elif entry_type in CLOSED:
            self._closed(run_id, workflow_type, CLOSED[entry_type])
        elif entry_type is SignalReceived:
            self.signals += 1
        elif entry_type is AttemptFailed:
            self.attempts_failed += 1
            name = write.name_of(run_id, entry.command)
        else:
            self._stands(run_id, entry)
        self._news.tell(
            (entry.time, kind, transition.namespace, transition.workflow_id, run_id, workflow_type, saying(entry, name))
        )

    def _closed(self, run_id: str, workflow_type: str, status: str) -> None:
        self.open -= 1
        self.closes += 1
        self._paused.discard(run_id)
        self._quarantined.discard(run_id)
        key = (self._counted(workflow_type), status)
        self.closed[key] = self.closed.get(key, 0) + 1

    def _stands(self, run_id: str, note: Any) -> None:
        """The same fold as that of a listing's row."""
        if isinstance(note, Quarantined):
            self._quarantined.add(run_id)
        elif isinstance(note, Paused):
            self._paused.add(run_id)
        elif isinstance(note, Resumed):
            self._quarantined.discard(run_id)
            if not note.by_build:
                self._paused.discard(run_id)

    def damaged(self, run_id: str) -> None:
        """Part of an open run's history turned out to be lost."""
        self._quarantined.add(run_id)

    def _counted(self, workflow_type: str) -> str:
        """The name a type is counted under."""
        if workflow_type in self._types:
            return workflow_type
        if len(self._types) >= TYPES_MAX:
            return OTHER
        self._types.add(workflow_type)
        return workflow_type
