"""Offers: what changes for runs when workers come, vanish, or do nothing with what they were handed.

Knows who takes tasks (`takers`) and what is on its way to workers elsewhere (`handed`). Decides nothing about a run: it has its owner offer
a task anew, or lets go of a claim whose worker was cut off.
"""

from collections.abc import Iterable
from typing import Protocol

from msgspec.structs import replace

from perdure.core.machine.wakes import tasks_of
from perdure.core.requests import AnyRequest, ReleaseWorkflow
from perdure.core.state import WorkflowState
from perdure.core.tasks import Task
from perdure.engine.handed import Handed
from perdure.engine.live import LiveWorkflow
from perdure.engine.owner import Key, ShardOwner
from perdure.engine.takers import Takers
from perdure.ports import Answer, Clock


class House(Protocol):
    """The engine, as far as offers need it."""

    @property
    def is_over(self) -> bool: ...

    def owner(self, key: Key) -> ShardOwner: ...

    def live_workflows(self) -> Iterable[LiveWorkflow]: ...

    def route(self, request: AnyRequest, answer: Answer | None) -> None: ...


class Offers:
    """One for all shards of a process."""

    def __init__(self, clock: Clock, house: House) -> None:
        self._clock = clock
        self._house = house
        self.takers = Takers(clock, self._gone)
        self.handed = Handed(clock, self._is_unclaimed, self._again)

    def make(self, live: LiveWorkflow) -> None:
        """Offer a run to whoever can take it."""
        self._house.owner((live.state.namespace, live.state.workflow_id)).offer(live)

    def came(self, queue: str) -> None:
        """A worker with other code has come: what nobody could run before may run now."""
        for live in self._house.live_workflows():
            run = live.state.run
            if run is None or run.started.queue != queue or not live.wants_worker or run.claim is not None:
                continue
            if run.failed_builds or run.refused_builds or not live.offered_at:
                live.offered_at = 0
                self.make(live)

    def why_nobody(self, state: WorkflowState) -> tuple[str, ...]:
        """Why none of the workers that are here moves the run."""
        run, takers, now = state.run, self.takers, self._clock.now()
        if run is None or run.closing is not None:
            return ()
        names = {activity.event.id: activity.event.name for activity in run.activities.values()}
        whys = (takers.why_none(task, names.get(task.command, run.started.workflow_type), run) for task in tasks_of(state, now))
        return tuple(dict.fromkeys(why for why in whys if why))

    def _gone(self, worker: str, lost: bool) -> None:
        """A worker takes no tasks any more. If it was cut off, what it was handed goes to others, and so do the runs it was deciding."""
        if self._house.is_over or not lost:
            return
        self.handed.gone(worker)
        for live in self._house.live_workflows():
            run = live.state.run
            if run is not None and run.claim is not None and run.claim.worker == worker:
                claim = run.claim
                head = {"namespace": live.state.namespace, "workflow_id": live.state.workflow_id, "run_id": run.run_id}
                self._house.route(ReleaseWorkflow(**head, token=claim.token, build_id=claim.build_id, why="draining"), None)

    def _is_unclaimed(self, task: Task) -> bool:
        """True while a task that was handed out waits for its claim."""
        key = (task.namespace, task.workflow_id)
        live = self._house.owner(key).open.get(key)
        run = live.state.run if live is not None else None
        if self._house.is_over or live is None or run is None or run.run_id != task.run_id:
            return False
        if not task.command:
            return run.claim is None and bool(live.offered_at)
        activity = run.activities.get(task.command)
        return activity is not None and activity.claim is None and activity.attempt == task.attempt

    def _again(self, task: Task, worker: str) -> None:
        """A task was handed to a worker that did nothing with it."""
        key = (task.namespace, task.workflow_id)
        owner = self._house.owner(key)
        live = owner.open[key]
        if task.command:
            owner.offer_activity(live, replace(task, sticky="", avoid=()), worker)
        else:
            live.offered_at = 0
            owner.offer(live, worker)
