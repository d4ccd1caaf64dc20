"""The fold of runs for listings, where the conformance suite does not reach."""

import random

from hypothesis import given
from hypothesis import strategies as st

from perdure.core.events import Completed, Started
from perdure.core.notes import Resumed
from perdure.core.transition import RunChange, Transition
from perdure.ports import RunFilter
from perdure.store.visibility import Visibility


def started(workflow: str, run: str, time: int) -> Transition:
    event = Started(id=1, time=time, workflow_type="t", queue="q", run_id=run, seed=1)
    return Transition(workflow_id=workflow, runs=(RunChange(run_id=run, events=(event,)),))


def test_a_note_on_a_closed_run_does_not_open_it() -> None:
    """Status after the close is that of the close."""
    visibility = Visibility()
    visibility.apply(started("a", "r", 1))
    end = Completed(id=2, time=2, at=1, based_on=1)
    note = RunChange(run_id="r", notes=(Resumed(id=1, time=3),))
    visibility.apply(Transition(workflow_id="a", runs=(RunChange(run_id="r", events=(end,)),)))
    visibility.apply(Transition(workflow_id="a", runs=(note,)))
    row = visibility.row("default", "a")
    assert row is not None
    assert (row.status, row.closed_at, row.first, row.last) == ("completed", 2, 0, 2)
    assert visibility.open_workflows(range(64)) == []


def test_a_transition_without_runs_counts_as_one() -> None:
    """Outbox entries alone change no run, but take a place among the id's transitions."""
    visibility = Visibility()
    visibility.apply(Transition(workflow_id="a"))
    assert visibility.row("default", "a") is None
    assert visibility.open_workflows(range(64)) == []
    visibility.apply(started("a", "r", 1))
    row = visibility.row("default", "a")
    assert row is not None
    assert row.first == 1


@given(times=st.lists(st.integers(0, 5), max_size=12), limit=st.integers(1, 4), seed=st.integers(0, 99))
def test_pages_hold_every_run_once_in_order(times, limit, seed) -> None:
    """Whatever the order of starts and however many ties: pages together are the sorted list."""
    visibility = Visibility()
    runs = [(time, f"r{number:02}") for number, time in enumerate(times)]
    random.Random(seed).shuffle(runs)
    for time, run in runs:
        visibility.apply(started(f"w{run}", run, time))
    seen, cursor = [], ""
    while True:
        page = visibility.page(RunFilter(), limit, cursor)
        seen += [(item.started_at, item.run_id) for item in page.items]
        cursor = page.cursor
        if not cursor:
            break
        assert len(page.items) == limit
    assert seen == sorted(runs, reverse=True)
