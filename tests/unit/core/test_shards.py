"""Which shard an id belongs to never changes, and when a node comes or goes only its own share of shards moves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.shards import SHARDS, rendezvous_owner, shard_of

GOLDEN = [
    ("default", "order-42", 23),
    ("default", "a", 56),
    ("shop", "order-42", 56),
    ("default", "Bestellung-ü", 29),
    ("default", "x" * 255, 54),
    ("a", "b", 35),
]
"""Computed once with an independent blake2b (`b2sum -l 64`); stores remember where ids lie, so these are for ever."""

NODES = ["node1", "node2", "node3", "node4"]


def owners(nodes: list[str]) -> list[str | None]:
    return [rendezvous_owner(shard, nodes) for shard in range(SHARDS)]


@pytest.mark.rule("O11")
@pytest.mark.parametrize(("namespace", "workflow_id", "shard"), GOLDEN)
def test_golden_vectors(namespace: str, workflow_id: str, shard: int) -> None:
    """An id's shard is the one it always had."""
    assert shard_of(namespace, workflow_id) == shard


def test_namespace_and_id_do_not_run_together() -> None:
    """`a` + `bc` is another place than `ab` + `c`: the two are told apart before hashing."""
    assert {shard_of("a" * n, "b" * (40 - n)) for n in range(1, 40)} != {shard_of("a", "b" * 39)}
    assert shard_of("a", "bc") != shard_of("ab", "c")


@given(st.text(), st.text())
def test_every_id_has_a_shard(namespace: str, workflow_id: str) -> None:
    """Any text lies in 0 … 63."""
    assert 0 <= shard_of(namespace, workflow_id) < SHARDS


def test_ids_spread_evenly() -> None:
    """6,400 ids: every shard holds between half and twice its share."""
    counts = [0] * SHARDS
    for number in range(6_400):
        counts[shard_of("default", f"order-{number}")] += 1
    assert 50 <= min(counts) <= max(counts) <= 200


@pytest.mark.rule("O12")
def test_a_node_that_comes_takes_only_its_share() -> None:
    """3 → 4 nodes: what moves goes to the new node, and it is about a quarter."""
    before, after = owners(NODES[:3]), owners(NODES)
    moved = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert {new for _, new in moved} == {"node4"}
    assert 8 <= len(moved) <= 26


@pytest.mark.rule("O12")
@pytest.mark.parametrize("leaver", NODES)
def test_a_node_that_goes_gives_up_only_its_share(leaver: str) -> None:
    """4 → 3 nodes: only the leaver's shards move, and not all to one heir."""
    before, after = owners(NODES), owners([node for node in NODES if node != leaver])
    assert all(old == leaver for old, new in zip(before, after, strict=True) if old != new)
    assert len({new for old, new in zip(before, after, strict=True) if old == leaver}) > 1


@given(st.lists(st.text(min_size=1), min_size=1, unique=True), st.randoms())
def test_order_of_the_list_does_not_matter(nodes: list[str], random: object) -> None:
    """Every node comes to the same answer, however it lists the others."""
    shuffled = list(nodes)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert owners(nodes)[:8] == owners(shuffled)[:8]


def test_without_nodes_nobody_owns() -> None:
    """No node: no owner, and no error."""
    assert rendezvous_owner(0, []) is None
