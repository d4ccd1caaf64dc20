"""The reference store: transitions in a dict. Short enough to check by eye; every other store must behave as this one does.

Keeps nothing over a restart and copies nothing, so it is for tests and the simulation's model, not for work that must survive.
"""

from collections.abc import Sequence

from perdure.core.transition import Transition
from perdure.ports import Census, CommitResult, DamagedRun, Lease, Record, RunFilter, RunPage
from perdure.store.leases import Leases
from perdure.store.records import COMMITTED, draft, record_of
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
        drafts = draft(self._leases, lease, batch)
        for transition, written in zip(batch, drafts, strict=True):
            if isinstance(written, bytes):
                self._keep(transition)
        return [COMMITTED if isinstance(written, bytes) else written for written in drafts]

    def _keep(self, transition: Transition) -> None:
        self._transitions.setdefault((transition.namespace, transition.workflow_id), []).append(transition)
        self._visibility.apply(transition)

    def may_hold(self, namespace: str, workflow_id: str) -> bool:
        return (namespace, workflow_id) in self._transitions

    async def load(self, namespace: str, workflow_id: str) -> Sequence[Transition]:
        return tuple(self._transitions.get((namespace, workflow_id), ()))

    async def open_workflows(self, shards: Sequence[int]) -> Sequence[tuple[str, str]]:
        return self._visibility.open_workflows(shards)

    def park(self, namespace: str, workflow_id: str, wake_at: int) -> None:
        self._visibility.park((namespace, workflow_id), wake_at)

    async def waking(self, until: int) -> tuple[Sequence[tuple[str, str]], int]:
        return self._visibility.waking(until)

    async def record(self, namespace: str, workflow_id: str, run_id: str = "") -> Record | None:
        row = self._visibility.row(namespace, workflow_id, run_id)
        if row is None:
            return None
        return record_of(row, self._transitions[namespace, workflow_id][row.first : row.last + 1])

    def damaged(self) -> Sequence[DamagedRun]:
        return ()

    async def runs(self, filter: RunFilter, limit: int, cursor: str = "") -> RunPage:
        return self._visibility.page(filter, limit, cursor)

    async def count(self, filter: RunFilter) -> int:
        return self._visibility.count(filter)

    async def census(self) -> Census:
        return self._visibility.census()
