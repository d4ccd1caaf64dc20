"""Who takes tasks: the workers subscribed here, by queue and build, and what each has said it cannot do.

An offer made with this in mind reaches a worker that can take it at once. It is a courtesy all the same: the claim decides, and a worker
that is handed what it cannot do gives it back.
"""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from perdure.core.machine.claims import build_fault
from perdure.core.state import RunState
from perdure.core.tasks import Task
from perdure.ports import Clock, Subscription, TaskKind, WorkerIdentity

BELIEVED_US: Final = 10_000_000
"""So long is a worker believed that it does not know a workflow type or an activity. Then it is asked again: it may have registered it."""
UNKNOWN_MAX: Final = 10_000
"""Names remembered as unknown to some worker; forgetting one costs an offer in vain."""

Gone = Callable[[str, bool], None]


class _Taker:
    """One worker, from its first subscription until the last one ends."""

    __slots__ = ("build_id", "lines")

    def __init__(self, build_id: str) -> None:
        self.build_id = build_id
        self.lines = 0


class Takers:
    """`gone(worker, lost)` is called when a worker's last subscription has ended; `lost`: cut off, and not by itself."""

    def __init__(self, clock: Clock, gone: Gone) -> None:
        self._clock = clock
        self._gone = gone
        self._takers: dict[str, _Taker] = {}
        self._serving: dict[tuple[str, TaskKind], dict[str, int]] = {}
        """By queue and kind: how many subscriptions each worker has."""
        self.unknown: dict[tuple[str, str], int] = {}
        """By worker and name: when it said that it does not know a workflow type or an activity. Empty when all know everything."""

    # ------------------------------------------------------------------------------------------------------ coming, going

    def join(self, worker: WorkerIdentity, queue: str, kind: TaskKind, subscription: Subscription) -> "TakersSubscription":
        """A worker has subscribed; what it is given in place of `subscription` tells when it leaves."""
        taker = self._takers.setdefault(worker.worker, _Taker(worker.build_id))
        taker.lines += 1
        serving = self._serving.setdefault((queue, kind), {})
        serving[worker.worker] = serving.get(worker.worker, 0) + 1
        return TakersSubscription(self, worker.worker, queue, kind, subscription)

    def left(self, worker: str, queue: str, kind: TaskKind, *, lost: bool) -> None:
        """One subscription has ended."""
        serving = self._serving[queue, kind]
        serving[worker] -= 1
        if not serving[worker]:
            del serving[worker]
        if not serving:
            del self._serving[queue, kind]
        taker = self._takers[worker]
        taker.lines -= 1
        if not taker.lines:
            del self._takers[worker]
            self.unknown = {key: at for key, at in self.unknown.items() if key[0] != worker}
            self._gone(worker, lost)

    def cannot(self, worker: str, name: str) -> None:
        """A worker has said that it does not know a workflow type or an activity."""
        if len(self.unknown) >= UNKNOWN_MAX:
            self.unknown.clear()
        if worker in self._takers:
            self.unknown[worker, name] = self._clock.now()

    # ---------------------------------------------------------------------------------------------------------- who may

    def fitting(self, task: Task, name: str, run: RunState, besides: str = "") -> Task | None:
        """The task, to be kept from workers that cannot take it; None when they all cannot.

        `besides` is a worker that was handed it and did nothing: it comes last.
        """
        serving = self._serving.get((task.queue, task.kind))
        if serving is None:
            return task
        unfit = [worker for worker in serving if self.why_unfit(worker, task, name, run)]
        if len(unfit) == len(serving):
            return None
        if besides in serving and besides not in unfit and len(unfit) + 1 < len(serving):
            unfit.append(besides)
        return replace(task, avoid=tuple(unfit)) if unfit else task

    def why_unfit(self, worker: str, task: Task, name: str, run: RunState) -> str:
        """Why a worker is not offered the task, or nothing."""
        if not task.command and (fault := build_fault(run, self._takers[worker].build_id)):
            return fault
        said = self.unknown.get((worker, name))
        if said is None or self._clock.now() - said >= BELIEVED_US:
            return ""
        return f"build {self._takers[worker].build_id} does not know it"

    def why_none(self, task: Task, name: str, run: RunState) -> str:
        """Why none of those who serve its queue is offered the task; nothing when one can take it, or nobody is there at all."""
        serving = self._serving.get((task.queue, task.kind), {})
        whys = {self.why_unfit(worker, task, name, run) for worker in serving}
        if not whys or "" in whys:
            return ""
        return f"no worker of queue {task.queue!r} can take {name!r}: {'; '.join(sorted(whys))}"


class TakersSubscription:
    """A `ports.Subscription` whose end is heard of. Granting goes straight to the broker's."""

    __slots__ = ("_ended", "_inner", "_kind", "_queue", "_takers", "_worker", "give_back", "grant")

    def __init__(self, takers: Takers, worker: str, queue: str, kind: TaskKind, inner: Subscription) -> None:
        self._takers = takers
        self._worker = worker
        self._queue = queue
        self._kind: TaskKind = kind
        self._inner = inner
        self._ended = False
        self.grant = inner.grant
        self.give_back = inner.give_back

    def cancel(self) -> None:
        """See `ports.Subscription.cancel`. Idempotent."""
        self._end(lost=False)

    def lose(self) -> None:
        """See `ports.Subscription.lose`. Idempotent."""
        self._end(lost=True)

    def _end(self, *, lost: bool) -> None:
        if self._ended:
            return
        self._ended = True
        self._inner.cancel()
        self._takers.left(self._worker, self._queue, self._kind, lost=lost)
