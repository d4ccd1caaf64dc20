"""The workloads' places: a seed picks them by number."""

from perdure.testing.workloads import WORKLOADS

IN_ORDER = [
    "orders",
    "racing signals",
    "steady sender",
    "fan-out",
    "timeouts",
    "heartbeats",
    "stopping",
    "deploys",
    "duplicates",
    "bounds",
    "interruptions",
    "juggling",
    "endings",
    "updates",
]


def test_every_workload_keeps_its_place():
    """A seed that once failed must do the same again: new workloads go to the end, none moves or goes."""
    assert [workload.name for workload in WORKLOADS][: len(IN_ORDER)] == IN_ORDER
