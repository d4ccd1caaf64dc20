"""Which shard a workflow id belongs to, and which node should own a shard. Arithmetic only; golden vectors are in the tests."""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

SHARDS: Final = 64
"""Fixed for the life of a store, which remembers it; another count refuses to start."""


def shard_of(namespace: str, workflow_id: str) -> int:
    """The shard (0 … 63) of a workflow id: blake2b over namespace, NUL, id; 8 bytes, big-endian, modulo the count."""
    digest = blake2b(f"{namespace}\0{workflow_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % SHARDS


def rendezvous_owner(shard: int, nodes: Iterable[str]) -> str | None:
    """The node that should own a shard (highest random weight; Thaler and Ravishankar 1998), or None when there is no node.

    When a node comes or goes only its own share moves.
    """

    def weight(node: str) -> tuple[int, str]:
        digest = blake2b(f"{shard}\0{node}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big"), node

    return max(nodes, key=weight, default=None)
