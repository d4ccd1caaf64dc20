"""Waiting for how something ends: runs and updates. Nothing is told before it is durable, and nobody polls.

A waiter stands in the workflow id's own memory (`LiveWorkflow.waiters`, `.updates`); whoever applies an end wakes it after the commit.
"""

import asyncio
from typing import Protocol

from perdure.core.description import result_of
from perdure.core.errors import NotFound
from perdure.core.machine.targets import not_found
from perdure.core.machine.updates import standing
from perdure.core.replies import RunResult, UpdateResult
from perdure.core.state import WorkflowState, is_closing
from perdure.engine.live import LiveWorkflow
from perdure.engine.owner import Key, ShardOwner, error_of
from perdure.engine.pending import WriteLost
from perdure.engine.updates import Updates, cut_off
from perdure.ports import Record, Store, TaskKind, closing_of


class House(Protocol):
    """What a wait needs of the engine it stands in."""

    @property
    def store(self) -> Store: ...

    @property
    def is_over(self) -> bool:
        """True when nothing more is going to be written here."""
        ...

    def owner(self, key: Key) -> ShardOwner: ...

    def why_nobody(self, state: WorkflowState) -> tuple[str, ...]:
        """Why none of the workers that are here moves the run."""
        ...

    def is_served(self, queue: str, kind: TaskKind) -> bool:
        """True when somebody takes tasks of a queue."""
        ...

    def check_running(self) -> None:
        """Raises `Unavailable`."""
        ...

    async def settled(self) -> None:
        """Everything queued so far is durable."""
        ...

    async def record(self, namespace: str, workflow_id: str, run_id: str = "") -> Record: ...


class Ends:
    """Ends of runs and updates, for those who wait for them."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def of_run(self, namespace: str, workflow_id: str, run_id: str = "", *, follow: bool = True) -> RunResult:
        """The end of a run, and with `follow` of every run it went on as; see `ports.Frontend.result`."""
        key = (namespace, workflow_id)
        while True:
            self._house.check_running()
            live = self._house.owner(key).open.get(key)
            run = live.state.run if live is not None else None
            try:
                if live is not None and run is not None and (not run_id or run_id == run.started.run_id):
                    found = await self._wait(live, run.started.run_id)
                else:
                    found = await self._of_run(namespace, workflow_id, run_id)
            except WriteLost:
                if self._house.is_over:
                    raise
                continue
            if not follow or not found.next_run_id:
                return found
            run_id = found.next_run_id

    async def _of_run(self, namespace: str, workflow_id: str, run_id: str) -> RunResult:
        owner = self._house.owner((namespace, workflow_id))
        while True:
            live = await owner.load((namespace, workflow_id))
            run = live.state.run
            if run is None:
                raise error_of(not_found(live.state, run_id))
            wanted = run_id or run.run_id
            if wanted == run.run_id and run.closing is not None:
                if not live.uncommitted:
                    return result_of(wanted, run.closing)
                await self._house.settled()  # its end, or only a note behind that: nobody would wake a waiter
                continue
            if wanted == run.run_id:
                return await self._wait(live, wanted)
            record = await self._house.store.record(namespace, workflow_id, wanted)
            last = closing_of(record) if record is not None else None
            if last is not None:
                return result_of(wanted, last)
            if not live.uncommitted:
                raise error_of(not_found(live.state, wanted))
            await self._house.settled()

    async def _wait(self, live: LiveWorkflow, run_id: str) -> RunResult:
        self._house.check_running()  # it may have stopped while the run was loaded, and nobody would wake this waiter
        if live.damage is not None:
            raise live.damage  # it never goes on: nobody can tell how it would have ended
        waiter: asyncio.Future[RunResult] = asyncio.get_running_loop().create_future()
        waiters = live.waiters.setdefault(run_id, [])
        waiters.append(waiter)
        try:
            return await waiter
        finally:
            if waiter in waiters:
                waiters.remove(waiter)
            if not waiters:
                live.waiters.pop(run_id, None)

    async def of_update(self, namespace: str, workflow_id: str, run_id: str, update_id: str) -> UpdateResult:
        """The end of an accepted update; see `ports.Frontend.update_result`."""
        owner, key = self._house.owner((namespace, workflow_id)), (namespace, workflow_id)
        while True:
            live = await owner.load(key)
            run, known = live.state.run, live.state.update_ids.get(update_id)
            if run is not None and run.run_id == run_id and known is not None and known.command in (run.updates or ()):
                try:
                    return await self._update_ends(live, run_id, update_id)
                except WriteLost:
                    if self._house.is_over:
                        raise
                    continue
            if live.uncommitted:
                await self._house.settled()
                continue
            warm = live.history if run is not None and run.run_id == run_id else None
            events = warm or (await self._house.record(namespace, workflow_id, run_id)).events
            found = standing(run_id, update_id, events)
            if found is None:
                raise NotFound(f"run {run_id} of workflow {workflow_id!r} has accepted no update {update_id!r}")
            if found.status != "accepted":
                return found
            if is_closing(events[-1]):
                raise cut_off(run_id)

    async def _update_ends(self, live: LiveWorkflow, run_id: str, update_id: str) -> UpdateResult:
        self._house.check_running()
        waiter: asyncio.Future[UpdateResult] = asyncio.get_running_loop().create_future()
        updates = live.updates = live.updates or Updates()
        updates.await_end(run_id, update_id, waiter)
        try:
            return await waiter
        finally:
            updates.give_up(run_id, update_id, waiter)
            if live.updates is updates and updates.is_empty:
                live.updates = None
