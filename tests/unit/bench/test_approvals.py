"""The bound of a rate, named from what was counted."""

import msgspec
import pytest

from perdure.bench.approvals import main
from perdure.bench.approvals_figures import Drain
from perdure.core.errors import InvalidArgument

QUIET = Drain(
    runs=1_000,
    seconds=10.0,
    commits=2_000,
    syncs=20,
    writing_seconds=1.0,
    server_cpu_s=2.0,
    worker_cpu_s=1.0,
    client_cpu_s=1.0,
)


@pytest.mark.parametrize(
    ("counted", "named"),
    [
        ({"server_cpu_s": 9.5}, "CPU of the server: busy 95%"),
        ({"worker_cpu_s": 9.0}, "CPU of the worker: busy 90%"),
        ({"client_cpu_s": 9.0}, "CPU of the client: busy 90%"),
        ({"writing_seconds": 9.9}, "syncs to disk: busy 99%"),
        ({"server_cpu_s": 8.0, "worker_cpu_s": 6.0, "client_cpu_s": 5.0}, "the machine's 2 cores together: busy 95%"),
        ({"server_waited_s": 4.0}, "other processes of this machine: the server works 20% of the time and waits 40%"),
        ({}, "parts that wait for each other: the busiest is CPU of the server, 20%"),
    ],
)
@pytest.mark.rule("F23")
def test_the_bound_is_what_was_busy(counted: dict[str, float], named: str) -> None:
    """One part that works all the time, the cores together, other processes; and where nothing is busy it says so."""
    assert msgspec.structs.replace(QUIET, **counted).bound(2).startswith(named)


def test_figures_follow_from_the_counts() -> None:
    """Rate, and commits in a sync."""
    assert (QUIET.per_s, QUIET.commits_per_sync) == (100.0, 100.0)


def test_too_few_runs_are_refused() -> None:
    """Some are signalled alone, and there must be others left."""
    with pytest.raises(InvalidArgument, match="400"):
        main(runs=[100])
