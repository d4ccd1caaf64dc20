"""The reference store: transitions in a dict. Short enough to check by eye; every other store must behave as this one does.

Keeps nothing over a restart and copies nothing, so it is for tests and the simulation's model, not for work that must survive.
"""

from collections.abc import Sequence

from perdure.core.codec import Unwritable, encode_transition
from perdure.core.transition import Transition
from perdure.ports import CommitResult, Lease, Record, RunFilter, RunPage
from perdure.store.leases import Leases
from perdure.store.records import COMMITTED, FENCED, record_of, refused
from perdure.store.visibility import Visibility


class MemoryStore:
    """`ports.Store` without a disk."""

    def __init__(self) -> None:
        self._transitions: dict[tuple[str, str], list[Transition]] = {}
        self._visibility = Visibility()
        self._leases = Leases()

    async def open(self) -> None:
        """Nothing to do: what was committed to this object is still there."""

    async def close(self) -> None:
        """Nothing to do."""

    async def acquire(self, node: str, shards: Sequence[int]) -> Lease:
        return self._leases.acquire(node, shards)

    async def commit(self, lease: Lease, batch: Sequence[Transition]) -> Sequence[CommitResult]:
        results: list[CommitResult] = []
        broken: set[tuple[str, str]] = set()
        for transition in batch:
            result = self._judge(lease, transition, broken)
            results.append(result)
            if result.ok:
                self._keep(transition)
        return results

    def _judge(self, lease: Lease, transition: Transition, broken: set[tuple[str, str]]) -> CommitResult:
        key = (transition.namespace, transition.workflow_id)
        if not self._leases.allows(lease, *key):
            return FENCED
        if key in broken:
            return refused("follows a transition that was refused")
        try:
            encode_transition(transition)
        except Unwritable as error:
            broken.add(key)
            return refused(str(error))
        return COMMITTED

    def _keep(self, transition: Transition) -> None:
        self._transitions.setdefault((transition.namespace, transition.workflow_id), []).append(transition)
        self._visibility.apply(transition)

    async def load(self, namespace: str, workflow_id: str) -> Sequence[Transition]:
        return tuple(self._transitions.get((namespace, workflow_id), ()))

    async def open_workflows(self, shards: Sequence[int]) -> Sequence[tuple[str, str]]:
        return self._visibility.open_workflows(shards)

    async def record(self, namespace: str, workflow_id: str, run_id: str = "") -> Record | None:
        row = self._visibility.row(namespace, workflow_id, run_id)
        if row is None:
            return None
        return record_of(row, self._transitions[namespace, workflow_id][row.first : row.last + 1])

    async def runs(self, filter: RunFilter, limit: int, cursor: str = "") -> RunPage:
        return self._visibility.page(filter, limit, cursor)

    async def count(self, filter: RunFilter) -> int:
        return self._visibility.count(filter)
