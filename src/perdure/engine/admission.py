"""Admission: whether a new start from outside is let in. What already runs never comes here but to be measured.

It is asked once the machine has said what a start comes to: one that finds a run, delivers a signal to it or is sent again is no new start.
A child, a continuation, a reset, the next attempt of a retry: these belong to something that was let in before.
"""

import logging
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from perdure.core.admission import AdmissionRules
from perdure.core.errors import ResourceExhausted
from perdure.core.machine import Outcome
from perdure.core.replies import ActivityClaimed, RunStarted, WorkflowClaimed
from perdure.core.requests import AnyRequest, ClaimActivity, ClaimWorkflow, StartWorkflow
from perdure.core.tasks import Kind, Task
from perdure.engine.live import LiveWorkflow
from perdure.engine.queue_waits import WINDOW_US, QueueWaits, waiting_since
from perdure.engine.quotas import Quotas
from perdure.ports import Broker

Reason: TypeAlias = Literal["quota", "queue_wait", "queue_depth", "outbox"]

RETRY_US: Final = 1_000_000
"""When to come back if nothing tells how fast it gets better."""
RETRY_US_MIN: Final = 100_000
RETRY_US_MAX: Final = 30_000_000
"""Bounds on what is guessed from how fast a queue gets shorter."""
ORIGINS_COUNTED: Final = 100
"""Origins counted by name; others are counted as `OTHER`."""
OTHER: Final = "other"
SAID_US: Final = 10_000_000
"""That starts are refused for a reason is logged this often at most."""
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

log = logging.getLogger(__name__)


class Refusal(NamedTuple):
    """Why a start is not let in, and in how many microseconds it may be."""

    reason: Reason
    message: str
    wait: int


class Admission:
    """`began` is when this life of the node did: what tasks waited before does not count. `find` gives a workflow id as it is in memory,
    `outbox` how many messages between runs are on their way."""

    def __init__(
        self,
        rules: AdmissionRules,
        broker: Broker,
        began: int,
        find: Callable[[str, str], LiveWorkflow | None],
        outbox: Callable[[], int],
    ) -> None:
        self._rules = rules
        self._broker = broker
        self._began = began
        self._find = find
        self._outbox = outbox
        self._quotas = Quotas(rules.origins)
        self._waits: QueueWaits | None = None
        if rules.queue_wait_p99_s or rules.queue_depth_max:
            self._waits = QueueWaits(int(rules.queue_wait_p99_s * 1_000_000))
        self.refused: dict[str, dict[str, int]] = {}
        """By origin and reason."""
        self._said: dict[Reason, int] = {}

    def heed(self, live: LiveWorkflow, request: AnyRequest, outcome: Outcome, now: int) -> ResourceExhausted | None:
        """What was decided and is not applied yet: measure it if it is a claim; if it begins a new run from outside, say why it may not."""
        kind = type(request)
        if kind is StartWorkflow:
            return self._asked(request, outcome, now)
        if self._waits is not None:
            if kind is ClaimWorkflow and type(outcome.reply) is WorkflowClaimed and live.offered_at:
                assert live.state.run is not None
                self._claimed(self._waits, live.state.run.started.queue, "workflow", live.offered_at, now)
            elif kind is ClaimActivity and type(outcome.reply) is ActivityClaimed:
                self._activity_claimed(self._waits, live, request, now)
        return None

    # ------------------------------------------------------------------------------------------------------------ measuring

    def _activity_claimed(self, waits: QueueWaits, live: LiveWorkflow, request: Any, now: int) -> None:
        since = waiting_since(live, request.run_id, request.command, request.attempt)
        run = live.state.run
        if since and run is not None:  # and not the same claim once more
            queue = run.activities[request.command].event.queue or run.started.queue
            self._claimed(waits, queue, "activity", since, now)

    def _claimed(self, waits: QueueWaits, queue: str, kind: Kind, since: int, now: int) -> None:
        waits.add(queue, kind, max(0, now - max(since, self._began)), now)

    def p99_of(self, queue: str, kind: Kind, now: int) -> float | None:
        """99th percentile of the waits that count, in seconds; None when they are not measured."""
        if self._waits is None:
            return None
        line = self._waits.find(queue, kind)
        return line.p99(now) / 1_000_000 if line is not None else 0.0

    # -------------------------------------------------------------------------------------------------------------- asking

    def _asked(self, request: Any, outcome: Outcome, now: int) -> ResourceExhausted | None:
        reply = outcome.reply
        if request.parent is not None or outcome.transition is None or type(reply) is not RunStarted or reply.attached:
            return None
        refusal = self._refusal(request.queue, request.origin, now)
        if refusal is None:
            return None
        self._count(request.origin, refusal, now)
        return ResourceExhausted(refusal.message, retry_after=refusal.wait / 1_000_000)

    def _refusal(self, queue: str, origin: str, now: int) -> Refusal | None:
        """Of several reasons the one that lasts longest. Only a start that is let in is counted against its origin's quota."""
        bucket = self._quotas.bucket(origin, now)
        refusals: list[Refusal] = []
        if bucket is not None and (wait := bucket.wait(now)):
            message = f"origin {origin!r} has used up its quota of {bucket.rate:g} new starts a second ({self._quotas.setting_of(origin)})"
            refusals.append(Refusal("quota", message, wait))
        rules = self._rules
        if rules.queue_wait_p99_s:
            refusals += [found for kind in KINDS if (found := self._too_slow(queue, kind, rules.queue_wait_p99_s, now))]
        if rules.queue_depth_max and (found := self._too_deep(queue, rules.queue_depth_max, now)):
            refusals.append(found)
        if rules.outbox_max and (depth := self._outbox()) >= rules.outbox_max:
            message = (
                f"{depth:,} messages between runs are on their way; the limit (admission.outbox_max) is {rules.outbox_max:,}"
            )
            refusals.append(Refusal("outbox", message, RETRY_US))
        if refusals:
            return max(refusals, key=lambda refusal: refusal.wait)
        if bucket is not None:
            bucket.take(now)
        return None

    def _too_slow(self, queue: str, kind: Kind, limit_s: float, now: int) -> Refusal | None:
        assert self._waits is not None
        limit = self._waits.limit
        line = self._waits.find(queue, kind)
        wait = waited = 0
        if line is not None and line.is_long(now):
            clear_at, waited = line.verdict(now)
            wait = clear_at - now
        first = self._first_waits(queue, kind, now)
        if first > limit:  # once it is claimed, that counts for a while
            wait, waited = WINDOW_US, max(first, waited)
        if not wait:
            return None
        message = (
            f"{kind} tasks of queue {queue!r} wait {waited / 1_000_000:.2f} s for a worker (99th percentile);"
            f" the limit (admission.queue_wait_p99_s) is {limit_s:g}"
        )
        return Refusal("queue_wait", message, wait)

    def _first_waits(self, queue: str, kind: Kind, now: int) -> int:
        """How long the first in line has waited: where nothing is claimed nothing else tells."""
        task: Task | None = self._broker.head(queue, kind)
        if task is None:
            return 0
        live = self._find(task.namespace, task.workflow_id)
        since = waiting_since(live, task.run_id, task.command, task.attempt)
        return now - max(since, self._began) if since else 0

    def _too_deep(self, queue: str, limit: int, now: int) -> Refusal | None:
        depth = sum(self._broker.depth(queue, kind) for kind in KINDS)
        if depth < limit:
            return None
        assert self._waits is not None
        rate = self._waits.rate(queue, now)
        wait = RETRY_US
        if rate:
            wait = min(max(int((depth - limit + 1) * 1_000_000 / rate), RETRY_US_MIN), RETRY_US_MAX)
        message = f"{depth:,} tasks wait in queue {queue!r}; the limit (admission.queue_depth_max) is {limit:,}"
        return Refusal("queue_depth", message, wait)

    # ------------------------------------------------------------------------------------------------------------- counting

    def counts(self) -> dict[tuple[str, str], int]:
        """How many starts were refused, by origin and reason."""
        return {(origin, reason): count for origin, counts in self.refused.items() for reason, count in counts.items()}

    def _count(self, origin: str, refusal: Refusal, now: int) -> None:
        reason = refusal.reason
        if origin not in self.refused and origin not in self._rules.origins and len(self.refused) >= ORIGINS_COUNTED:
            origin = OTHER
        counts = self.refused.setdefault(origin, {})
        counts[reason] = counts.get(reason, 0) + 1
        if now - self._said.get(reason, 0) >= SAID_US:
            self._said[reason] = now
            log.warning("new starts are refused: %s", refusal.message)
