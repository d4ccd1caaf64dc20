"""Law `woken`: looks at every open run for what should have moved and did not, and moves it. Finds nothing when all is well."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

from perdure.core.machine.claims import workflow_task
from perdure.core.machine.wakes import tasks_of, wakes_of
from perdure.core.requests import AnyRequest
from perdure.core.tasks import Task
from perdure.engine.live import LiveWorkflow
from perdure.engine.relay import Relay
from perdure.ports import Broker, Clock

log = logging.getLogger(__name__)

PERIOD_US: Final = 5_000_000
FIRST_US: Final = 2_000_000
"""The first sweep comes early, for what is wrong from the start."""
LATE_US: Final = 1_000_000
"""A wake this much overdue was lost."""
CHUNK: Final = 500
"""Runs looked at before others get a turn."""


class Sweeper:
    """Sweeps every `PERIOD_US`. `repaired` counts tasks, wakes and messages it had to bring again."""

    def __init__(
        self,
        clock: Clock,
        broker: Broker,
        relay: Relay,
        workflows: Callable[[], Iterable[LiveWorkflow]],
        bring: Callable[[AnyRequest | Task], None],
        bring_overdue: Callable[[AnyRequest | Task], None],
        offer: Callable[[LiveWorkflow], None],
        is_handed: Callable[[Task], bool],
    ) -> None:
        """`offer` offers a run anew, `is_handed` says that a task is with a worker in another process and looked after."""
        self._clock = clock
        self._broker = broker
        self._relay = relay
        self._workflows = workflows
        self._bring = bring
        self._bring_overdue = bring_overdue
        self._offer = offer
        self._is_handed = is_handed
        self._task: asyncio.Task[None] | None = None
        self._unserved: set[str] = set()
        self._waiting: set[tuple[str, int, int]] = set()
        """Tasks that were with nobody at the last sweep. One that still is was lost; another may just be on its way."""
        self.repaired = 0

    async def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="perdure sweeper")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        pause = FIRST_US
        while True:
            await self._clock.sleep(pause)
            pause = PERIOD_US
            try:
                await self.sweep()
            except Exception:
                log.exception("a sweep failed; the next one comes in %d s", PERIOD_US // 1_000_000)

    async def sweep(self) -> None:
        """Look at every open run once."""
        due: defaultdict[tuple[str, str], list[Task]] = defaultdict(list)
        for number, live in enumerate(self._workflows(), 1):
            self._look(live, due)
            if number % CHUNK == 0:
                await asyncio.sleep(0)
        for (queue, kind), tasks in due.items():
            if kind == "workflow":
                self._look_at_workers(queue, len(tasks))
            # A line as long as it should be holds them; a shorter one has lost some, and claims sort out what comes twice.
            if self._broker.depth(queue, kind) < len(tasks):  # type: ignore[arg-type]
                for task in tasks:
                    if _name(task) in self._waiting:
                        self.repaired += 1
                        self._bring(task)
        self._waiting = {_name(task) for tasks in due.values() for task in tasks}

    def _look_at_workers(self, queue: str, waiting: int) -> None:
        """Say once that a queue has work and nobody to do it."""
        if self._broker.served(queue, "workflow"):
            self._unserved.discard(queue)
        elif queue not in self._unserved:
            self._unserved.add(queue)
            log.warning(
                "%d workflows wait on queue %r and no worker serves it: register workflows with the node, or start a worker",
                waiting,
                queue,
            )

    def _look(self, live: LiveWorkflow, due: defaultdict[tuple[str, str], list[Task]]) -> None:
        now = self._clock.now()
        if live.uncommitted or live.held is not None:
            return
        for task in tasks_of(live.state, now):
            if (task.command or self._is_offered(live)) and not self._is_handed(task):
                due[(task.queue, task.kind)].append(task)
        run = live.state.run
        waits = live.updates is not None and run is not None and run.claim is None and not run.wants_decision
        if run is not None and waits and live.wants_worker and self._is_offered(live):
            task = workflow_task(live.state, run)
            due[(task.queue, task.kind)].append(task)
        for instant, target in wakes_of(live.state):
            if instant < now - LATE_US and not isinstance(target, Task):
                self.repaired += 1
                self._bring_overdue(target)
        state, run = live.state, live.state.run
        if state.outgoing is not None or (run is not None and (run.children is not None or run.externals is not None)):
            for delivery in self._relay.missing(state):
                self.repaired += 1
                self._relay.send(delivery)

    def _is_offered(self, live: LiveWorkflow) -> bool:
        """True when the run's workflow task should be with somebody; one that no worker here can take is kept back until one comes."""
        if live.offered_at:
            return True
        self._offer(live)
        self.repaired += bool(live.offered_at)
        return False


def _name(task: Task) -> tuple[str, int, int]:
    return task.run_id, task.command, task.attempt
