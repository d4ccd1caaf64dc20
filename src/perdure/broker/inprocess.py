"""The broker of a single process: bounded lines of tasks, handed to whoever has room. It holds nothing a restart can lose.

Higher priority goes first (`broker.backlog`). What does not fit is dropped; the sweeper offers it again when there is room. Workflow tasks and activity tasks of one task queue stand
in separate lines, because running workflow code takes no slot.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from perdure.broker.backlog import Backlog
from perdure.core.overview import Line
from perdure.core.tasks import Kind, Task
from perdure.ports import Deliver

BACKLOG_MAX: Final = 100_000
"""Tasks waiting in one line; more are dropped."""


LINES_KEPT: Final = 1_000
"""With more lines than this, those in which nothing waits and nobody takes anything are forgotten: any caller may name a queue."""


class _Purse:
    """What one worker may still be handed of one kind, whichever of its queues it comes from."""

    __slots__ = ("credits", "subscriptions")

    def __init__(self) -> None:
        self.credits = 0
        self.subscriptions: deque[InProcessSubscription] = deque()

    def serve(self) -> None:
        """Hand over what waits and is paid for, a task of each line in turn, so that a long line does not starve a short one."""
        idle = 0
        while self.credits > 0 and idle < len(self.subscriptions):
            subscription = self.subscriptions[0]
            self.subscriptions.rotate(-1)
            idle = 0 if subscription.line.offer_first() else idle + 1


class InProcessSubscription:
    """One worker's wish for tasks of one line. Its credits are the worker's: all its subscriptions of a kind draw on them."""

    __slots__ = ("deliver", "line", "purse", "worker")

    def __init__(self, line: "_Line", worker: str, deliver: Deliver, purse: _Purse) -> None:
        self.purse = purse
        self.line = line
        self.worker = worker
        self.deliver = deliver

    @property
    def credits(self) -> int:
        """Deliveries still allowed to this worker. Below zero when more was taken back than was left."""
        return self.purse.credits

    def grant(self, credits: int) -> None:
        purse = self.purse
        purse.credits += credits
        if credits > 0:
            purse.serve()

    def cancel(self) -> None:
        if self in self.line.subscriptions:
            self.line.subscriptions.remove(self)
            self.purse.subscriptions.remove(self)
            if not self.purse.subscriptions:
                self.purse.credits = 0

    def give_back(self, task: Task) -> None:
        self.line.publish(task)

    def lose(self) -> None:
        """A broker knows no claims: see `cancel`."""
        self.cancel()


class _Line:
    __slots__ = ("choosy", "delivered", "subscriptions", "waiting")

    def __init__(self, backlog_max: int) -> None:
        self.delivered = 0
        self.subscriptions: deque[InProcessSubscription] = deque()
        self.waiting = Backlog(backlog_max)
        self.choosy: list[Task] = []
        """Tasks not everybody can take, and that wait for one who can: the others must not wait behind them."""

    @property
    def depth(self) -> int:
        """Tasks that wait."""
        return len(self.waiting) + len(self.choosy)

    @property
    def first(self) -> Task | None:
        """The one that is taken next."""
        return self.choosy[0] if self.choosy else self.waiting.first

    def publish(self, task: Task) -> bool:
        """Hand a task to whoever has room, or have it wait; true when it was handed over."""
        if task.avoid:
            if self.offer(task):
                return True
            if len(self.choosy) < self.waiting.limit:
                self.choosy.append(task)
            return False
        if not self.waiting.count and self.offer(task):
            return True
        self.waiting.add(task)
        return False

    def offer(self, task: Task) -> bool:
        chosen = None
        avoid = task.avoid
        for subscription in self.subscriptions:
            if subscription.purse.credits > 0 and not (avoid and subscription.worker in avoid):
                if subscription.worker == task.sticky:
                    chosen = subscription
                    break
                chosen = chosen or subscription
        if chosen is None:
            return False
        chosen.purse.credits -= 1
        self.delivered += 1
        if len(self.subscriptions) > 1:
            self.subscriptions.rotate(-1)
        chosen.deliver(task)
        return True

    def offer_first(self) -> bool:
        """Hand over the task that is first in line; false when there is none, or nobody has room."""
        if self.choosy:
            choosy, self.choosy = self.choosy, []
            left = [task for task in choosy if not self.offer(task)]
            self.choosy = left + self.choosy
            if len(left) < len(choosy):
                return True
        if not self.waiting.count:
            return False
        task = self.waiting.take()  # first: whoever is handed it may grant, and come back here
        if self.offer(task):
            return True
        self.waiting.put_back(task)
        return False


class InProcessBroker:
    """Implements `ports.Broker` within one process and thread."""

    def __init__(self, backlog_max: int = BACKLOG_MAX) -> None:
        self._backlog_max = backlog_max
        self._lines: dict[tuple[str, Kind], _Line] = {}
        self._purses: dict[tuple[str, str], _Purse] = {}

    @property
    def dropped(self) -> int:
        """Tasks dropped because their line was full."""
        return sum(line.waiting.dropped for line in self._lines.values())

    def _line(self, queue: str, kind: Kind) -> _Line:
        line = self._lines.get((queue, kind))
        if line is None:
            line = self._lines[(queue, kind)] = _Line(self._backlog_max)
        return line

    def _purse(self, worker: str, kind: str) -> _Purse:
        purse = self._purses.get((worker, kind))
        if purse is None:
            # Workers that have left take their purses with them; looked for only when one comes.
            self._purses = {key: held for key, held in self._purses.items() if held.subscriptions}
            purse = self._purses[(worker, kind)] = _Purse()
        return purse

    def publish(self, task: Task) -> bool:
        return self._line(task.queue, "activity" if task.command else "workflow").publish(task)

    def subscribe(self, queue: str, kind: Kind, worker: str, deliver: Deliver, credits: int) -> InProcessSubscription:
        line = self._line(queue, kind)
        purse = self._purse(worker, kind)
        subscription = InProcessSubscription(line, worker, deliver, purse)
        line.subscriptions.append(subscription)
        purse.subscriptions.append(subscription)
        purse.credits += credits
        purse.serve()
        return subscription

    def served(self, queue: str, kind: Kind) -> bool:
        line = self._lines.get((queue, kind))
        return line is not None and bool(line.subscriptions)

    def depth(self, queue: str, kind: Kind) -> int:
        line = self._lines.get((queue, kind))
        return line.depth if line is not None else 0

    def head(self, queue: str, kind: Kind) -> Task | None:
        line = self._lines.get((queue, kind))
        return line.waiting.first if line is not None else None

    def lines(self) -> Sequence[Line]:
        if len(self._lines) > LINES_KEPT:
            self._lines = {key: line for key, line in self._lines.items() if line.waiting.count or line.subscriptions}
        return [
            Line(
                queue=queue,
                kind=kind,
                waiting=line.depth,
                delivered=line.delivered,
                dropped=line.waiting.dropped,
                subscribers=len(line.subscriptions),
                first=line.first,
            )
            for (queue, kind), line in self._lines.items()
        ]

    def credits(self, worker: str, kind: Kind) -> int:
        purse = self._purses.get((worker, kind))
        return purse.credits if purse is not None and purse.subscriptions else 0
