"""A worker: takes tasks of its queues, runs workflow code and activities, and leaves in an orderly way."""

import asyncio
import logging
import os
from collections import deque
from typing import Any, Final

from perdure.core.replies import ActivityClaim, NotWanted
from perdure.core.requests import ClaimActivity, ReleaseActivity
from perdure.core.tasks import CancelNotice, Task
from perdure.ports import Chance, Frontend, Subscription
from perdure.replay.watchdog import BlockedLoop, Watchdog
from perdure.sdk.coded import has_codec
from perdure.sdk.encoding import MARK, any_encoded
from perdure.sdk.registry import Registry
from perdure.worker.answering import Answering
from perdure.worker.attempts import Attempt, Attempts, Fact
from perdure.worker.decider import Decider
from perdure.worker.sessions import CACHED_BYTES_MAX, Sessions
from perdure.worker.slots import Slots

log = logging.getLogger(__name__)

WORKFLOW_CREDITS: Final = 1 << 60
"""Workflow tasks are run as they come; they need no slot, and no credit is ever given back."""
GRACE_S: Final = 30.0
"""So long may running activities take to end when a worker is asked to stop, unless another time is given."""


class TaskWorker:
    """Serves `queues` until stopped. `max_activities` bounds what runs at once, `max_processes` how much of it in child processes (0: as
    many as there are processors), `max_cached_runs` the runs held warm and `max_cached_bytes` what they may weigh together."""

    def __init__(
        self,
        frontend: Frontend,
        chance: Chance,
        registry: Registry,
        queues: tuple[str, ...],
        *,
        incarnation: str = "",
        max_activities: int = 100,
        max_processes: int = 0,
        max_cached_runs: int = 10_000,
        max_cached_bytes: int = CACHED_BYTES_MAX,
        blocked_after: float = 2.0,
    ) -> None:
        token = chance.token()
        self.name = f"w-{token[:12]}"
        self._secret = token[12:]
        """What this worker's tokens begin with: its name is no secret, and whoever knows a token may use its claim."""
        self._frontend = frontend
        self._registry = registry
        self._queues = queues
        self._incarnation = incarnation
        self._attempts = Attempts(
            frontend, max_activities, max_processes or _processors(), self._attempt_ended, registry.interceptors
        )
        self._sessions = Sessions(max_cached_runs, max_cached_bytes)
        self._blocked_after = blocked_after
        self._watchdog = Watchdog(blocked_after, _report_blocked)
        self._slots = Slots(max_activities, self._grant, self._enter)
        self._serial = 0
        self._inbox: deque[Task] = deque()
        self._scheduled = False
        self._workflow_lines: list[Subscription] = []
        self._activity_lines: list[Subscription] = []
        self._unknown: set[str] = set()
        self._unread: set[str] = set()
        self._decodes = has_codec(frontend)
        self._started = False
        self._stopped = False
        self._stop: asyncio.Task[None] | None = None
        self.answering = Answering(frontend, registry, self.name, lambda: self._sessions, self._watchdog.this_thread())
        self.decider = Decider(
            frontend,
            chance,
            registry,
            self.name,
            self._secret,
            incarnation,
            queues,
            self._sessions,
            self._slots.reserve,
            self._run,
            self._slots.free,
            self._watchdog.this_thread(),
            self.answering,
        )

    @property
    def busy(self) -> bool:
        """True while a task is being taken or an activity runs."""
        return bool(self._inbox) or len(self._attempts) > 0

    @property
    def running_activities(self) -> int:
        """Attempts that run now."""
        return len(self._attempts)

    @property
    def warm_runs(self) -> int:
        """Runs whose code is held in memory, fed as far as it goes."""
        return len(self._sessions)

    @property
    def cached_runs(self) -> int:
        return len(self._sessions)

    def let_go(self) -> None:
        """Throw away every run held warm without running its code. Only for a worker that will never run again."""
        self._sessions.clear()

    async def start(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Take tasks from now on. Needs the running loop; nothing runs before the caller gives it a turn."""
        self._loop = asyncio.get_running_loop()
        self.decider.watched = self.answering.watched = self._watchdog.this_thread()
        if self._blocked_after > 0:
            self._watchdog.start()
        self._started = True
        identity = self.decider.identity()
        credits = self._slots.limit
        for queue in self._queues:
            self._workflow_lines.append(self._frontend.subscribe(queue, "workflow", identity, self._deliver, WORKFLOW_CREDITS))
            self._activity_lines.append(self._frontend.subscribe(queue, "activity", identity, self._deliver, credits))
            credits = 0  # one count for all queues

    async def stop(self, grace: float = GRACE_S) -> None:
        """Take nothing more, let activities end for up to `grace` seconds, then cut them short. Idempotent.

        Once begun it goes on to its end, also when whoever awaits this is cancelled; a second call waits for that end.
        """
        self._stopped = True
        if not self._started:
            return
        if self._stop is None:
            self._stop = asyncio.get_running_loop().create_task(self._stop_in_order(grace), name="perdure worker stop")
        await asyncio.shield(self._stop)

    def hurry(self) -> None:
        """End the grace period of a `stop`, begun or yet to begin: what still runs is cut short now."""
        self._attempts.hurry()

    async def _stop_in_order(self, grace: float) -> None:
        for line in (*self._workflow_lines, *self._activity_lines):
            line.cancel()
        await self._attempts.stop(grace)
        await self.decider.leave()
        self.answering.stopped = True
        self._watchdog.stop()

    # ---------------------------------------------------------------------------------------------------------------- tasks

    def _deliver(self, item: Task | CancelNotice) -> None:
        if type(item) is CancelNotice:
            self._attempts.cancel(item.token)
            return
        task: Task = item  # type: ignore[assignment]
        if task.command:
            self._slots.delivered(task)
        else:
            self._enter(task)

    def _enter(self, task: Task) -> None:
        self._inbox.append(task)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        self._scheduled = False
        inbox = self._inbox
        for _ in range(len(inbox)):
            task = inbox.popleft()
            try:
                if task.command:
                    self._take_activity(task)
                elif task.query:
                    self.answering.take(task)
                else:
                    self.decider.take(task)
            except Exception:
                log.exception("taking a task of workflow %r failed", task.workflow_id, extra={"workflow_id": task.workflow_id})

    def _take_activity(self, task: Task) -> None:
        self._serial += 1
        request = ClaimActivity(
            namespace=task.namespace,
            workflow_id=task.workflow_id,
            run_id=task.run_id,
            command=task.command,
            attempt=task.attempt,
            worker=self.name,
            token=f"{self._secret}.a{self._serial}",
            incarnation=self._incarnation,
        )
        self._frontend.send(request, self._activity_claimed)

    def _activity_claimed(self, reply: Any, _error: BaseException | None) -> None:
        if reply is None or isinstance(reply, NotWanted):
            self._slots.free(1)
            return
        self._run(reply.claim)

    def _run(self, claim: ActivityClaim) -> None:
        """An activity has been claimed, and has its slot."""
        scheduled = claim.scheduled
        definition = self._registry.activity(scheduled.name)
        if definition is None or self._stopped:
            self._release(claim, known=definition is not None)
            return
        first = scheduled.input[0] if scheduled.input else None
        if not self._decodes and (
            (first is not None and bytes(first).startswith(MARK))
            or (scheduled.keywords and any_encoded((), scheduled.keywords))
        ):
            self._release_unread(claim)
            return
        self._attempts.start(definition, claim)

    def _release_unread(self, claim: ActivityClaim) -> None:
        name = claim.scheduled.name
        self._give_back(claim, unknown=name)
        if name not in self._unread:
            self._unread.add(name)
            log.warning("arguments of activity %r are encoded; it waits for a worker that was given the codec", name)

    def _release(self, claim: ActivityClaim, *, known: bool) -> None:
        name = claim.scheduled.name
        if not known and name not in self._unknown:
            self._unknown.add(name)
            log.warning("activity %r is not registered here; it waits for a worker that knows it", name)
        self._give_back(claim, unknown="" if known else name)

    def _give_back(self, claim: ActivityClaim, *, unknown: str) -> None:
        self._slots.free(1)
        self._frontend.send(
            ReleaseActivity(
                namespace=claim.namespace,
                workflow_id=claim.workflow_id,
                run_id=claim.run_id,
                command=claim.scheduled.id,
                attempt=claim.attempt,
                token=claim.token,
                worker=self.name,
                unknown=unknown,
            ),
            _ignore,
        )

    def _attempt_ended(self, attempt: Attempt, fact: Fact | None) -> None:
        self._slots.free(1)
        if attempt.later:
            self.decider.complete_later(attempt.claim)
        elif fact is not None and attempt.wanted:
            self.decider.fact(attempt.claim, fact)

    # ---------------------------------------------------------------------------------------------------------------- slots

    def _grant(self, credits: int) -> None:
        if not self._stopped and self._activity_lines:
            self._activity_lines[0].grant(credits)


def _processors() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _ignore(_reply: Any, _error: BaseException | None) -> None:
    """Giving a claim back needs no answer: a lost one is found by the engine."""


def _report_blocked(blocked: BlockedLoop) -> None:
    log.warning("workflow %s", blocked)
