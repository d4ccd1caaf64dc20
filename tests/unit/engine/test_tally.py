"""Counting what was committed: rates over a minute, percentiles of the latest groups, names that are bounded."""

from perdure.core.events import Completed, Started
from perdure.core.transition import RunChange, Transition
from perdure.engine.news import NewsRing
from perdure.engine.tally import LATEST, OTHER, TYPES_MAX, Tally
from perdure.ports import Census
from perdure.testing.virtual_clock import VirtualClock

START = 1_700_000_000_000_000


class Write:
    """As much of a pending write as counting needs."""

    before = None

    def name_of(self, run_id: str, command: int) -> str:
        raise AssertionError((run_id, command))


def started(n: int, type: str = "order") -> Transition:
    event = Started(id=1, time=1, workflow_type=type, queue="q", run_id=f"r{n}", seed=1)
    return Transition(workflow_id=f"w{n}", runs=(RunChange(run_id=f"r{n}", events=(event,)),))


def closed(n: int) -> Transition:
    event = Completed(id=2, time=2, at=1, based_on=1)
    return Transition(workflow_id=f"w{n}", runs=(RunChange(run_id=f"r{n}", events=(event,)),))


def group(tally: Tally, *transitions: Transition, took: int = 1_000) -> None:
    now = tally._clock.now()
    tally.group_written(len(transitions), now - took, now)
    for transition in transitions:
        tally.take(transition, Write())  # type: ignore[arg-type]


def tally() -> tuple[Tally, VirtualClock]:
    clock = VirtualClock(START)
    news = NewsRing(clock, 10)
    news.begin()
    made = Tally(clock, news)
    made.begin(Census(open=10, paused=("r1", "r2"), quarantined=("r2", "r3")))
    return made, clock


def test_what_was_open_before_counts_on() -> None:
    """A run is paused or quarantined, never both; a close takes it out of either."""
    made, _ = tally()
    assert (made.open, made.paused, made.quarantined) == (10, 1, 2)
    group(made, closed(2), started(20))
    assert (made.open, made.paused, made.quarantined) == (10, 1, 1)
    group(made, closed(1), closed(3))
    assert (made.open, made.paused, made.quarantined) == (8, 0, 0)


def test_rates_are_those_of_the_last_minute() -> None:
    """Sixty starts in the last minute are one a second; what was before it does not count, and silence is zero."""
    made, clock = tally()
    clock.jump(clock.now() + 600_000_000)
    for n in range(120):
        group(made, started(n))
        clock.jump(clock.now() + 1_000_000)
    assert made.rates() == (59 / 60, 0.0)  # the start exactly a minute ago is out
    clock.jump(clock.now() + 60_000_000)
    assert made.rates() == (0.0, 0.0)


def test_a_young_node_divides_by_its_age() -> None:
    """Ten starts in five seconds are two a second; in the first second they count as one second's."""
    made, clock = tally()
    group(made, *(started(n) for n in range(4)))
    assert made.rates() == (4.0, 0.0)
    clock.jump(clock.now() + 5_000_000)
    group(made, *(started(n) for n in range(4, 10)))
    assert made.rates() == (2.0, 0.0)


def test_percentiles_are_those_of_the_latest_groups() -> None:
    """Only so many are kept, and every figure is one that was measured."""
    made, _ = tally()
    for _ in range(LATEST):
        group(made, started(0), took=9_000)
    for n in range(LATEST):
        group(made, started(n), took=1_000 if n else 5_000)
    told = made.durations()
    assert (told.samples, told.p50_ms, told.max_ms) == (LATEST, 1.0, 5.0)
    assert sum(made.sync_s.counts) == 2 * LATEST
    assert made.commits == made.syncs == 2 * LATEST


def test_names_of_types_are_bounded() -> None:
    """However many types there are, so many are counted by name and the rest together; nothing is lost of the sum."""
    made, _ = tally()
    group(made, *(started(n, f"type-{n}") for n in range(TYPES_MAX + 50)))
    assert len(made.started) == TYPES_MAX + 1
    assert made.started[OTHER] == 50
    assert sum(made.started.values()) == made.starts == TYPES_MAX + 50
