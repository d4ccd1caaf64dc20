"""Bringing a reset the history it begins from, which no state holds. Between reading an open run's history and deciding there is no pause."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec.structs import replace

from perdure.core.requests import AnyRequest, ResetWorkflow
from perdure.engine.live import LiveWorkflow
from perdure.ports import Answer, Store

Key = tuple[str, str]


class Owner(Protocol):
    """The owner of the workflow id's shard."""

    def find(self, key: Key) -> LiveWorkflow | None: ...

    async def load(self, key: Key) -> LiveWorkflow: ...

    def submit(self, live: LiveWorkflow, request: AnyRequest, answer: Answer | None) -> None: ...


async def bring(
    owner: Owner, store: Store, settled: Callable[[], Awaitable[None]], request: ResetWorkflow, answer: Answer
) -> None:
    """Submit `request` with the history of the run it names: from memory while that is open, else from the store."""
    key = (request.namespace, request.workflow_id)
    while True:
        live = await owner.load(key)
        run = live.state.run
        wanted = request.run_id or (run.run_id if run is not None else "")
        if run is None:
            history = []
        elif run.run_id == wanted and run.is_open and live.history is not None:
            history = live.history
        elif live.uncommitted:
            await settled()  # a store shows only what is durable
            continue
        else:
            record = await store.record(*key, wanted)
            if owner.find(key) is not live or live.state.run is not run:
                continue  # another run has begun meanwhile
            history = list(record.events) if record is not None else []
        owner.submit(live, replace(request, run_id=wanted, events=tuple(history)), answer)
        return
