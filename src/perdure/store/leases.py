"""Who may write to which shard: the range_ids of a store that lives in one process."""

from collections.abc import Iterable

from perdure.core.shards import SHARDS, shard_of
from perdure.ports import Lease


class Leases:
    """The newest range_id of each shard. `floor` is below every number given out here and not below any given out before."""

    def __init__(self, floor: int = 0) -> None:
        self._range_ids: dict[int, int] = dict.fromkeys(range(SHARDS), floor)
        self._whole: Lease | None = None

    def acquire(self, node: str, shards: Iterable[int]) -> Lease:
        """A lease on `shards`; every older lease on one of them is fenced from now on."""
        taken = {shard: self._range_ids[shard] + 1 for shard in shards}
        self._range_ids.update(taken)
        lease = Lease(node=node, range_ids=taken)
        self._whole = lease if len(taken) == SHARDS else None
        return lease

    def allows(self, lease: Lease, namespace: str, workflow_id: str) -> bool:
        """True when `lease` is the newest on the shard of that workflow id."""
        if lease is self._whole:
            return True  # newest on every shard: no need to find out which one it is
        shard = shard_of(namespace, workflow_id)
        return lease.range_ids.get(shard) == self._range_ids[shard]
