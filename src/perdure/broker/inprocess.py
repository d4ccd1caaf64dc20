"""The broker of a single process: bounded lines of tasks, handed to whoever has room. It holds nothing a restart can lose.

What does not fit is dropped; the sweeper offers it again when there is room. Workflow tasks and activity tasks of one task queue stand
in separate lines, because running workflow code takes no slot.
"""

from collections import deque
from typing import Final, Literal

from perdure.core.tasks import Task
from perdure.ports import Deliver

BACKLOG_MAX: Final = 100_000
"""Tasks waiting in one line; more are dropped."""

Kind = Literal["workflow", "activity"]


class InProcessSubscription:
    """One worker's wish for tasks of one line; delivers at most `credits` until more are granted."""

    __slots__ = ("_line", "credits", "deliver", "worker")

    def __init__(self, line: "_Line", worker: str, deliver: Deliver, credits: int) -> None:
        self._line = line
        self.worker = worker
        self.deliver = deliver
        self.credits = credits

    def grant(self, credits: int) -> None:
        self.credits += credits
        if self._line.waiting:
            self._line.drain()

    def cancel(self) -> None:
        self.credits = 0
        if self in self._line.subscriptions:
            self._line.subscriptions.remove(self)


class _Line:
    __slots__ = ("subscriptions", "waiting")

    def __init__(self) -> None:
        self.subscriptions: deque[InProcessSubscription] = deque()
        self.waiting: deque[Task] = deque()

    def offer(self, task: Task) -> bool:
        chosen = None
        for subscription in self.subscriptions:
            if subscription.credits > 0:
                if subscription.worker == task.sticky:
                    chosen = subscription
                    break
                chosen = chosen or subscription
        if chosen is None:
            return False
        chosen.credits -= 1
        if len(self.subscriptions) > 1:
            self.subscriptions.rotate(-1)
        chosen.deliver(task)
        return True

    def drain(self) -> None:
        while self.waiting and self.offer(self.waiting[0]):
            self.waiting.popleft()


class InProcessBroker:
    """Implements `ports.Broker` within one process and thread."""

    def __init__(self, backlog_max: int = BACKLOG_MAX) -> None:
        self._backlog_max = backlog_max
        self._lines: dict[tuple[str, str], _Line] = {}
        self.dropped = 0
        """Tasks dropped because their line was full."""

    def _line(self, queue: str, kind: str) -> _Line:
        line = self._lines.get((queue, kind))
        if line is None:
            line = self._lines[(queue, kind)] = _Line()
        return line

    def publish(self, task: Task) -> bool:
        line = self._line(task.queue, "activity" if task.command else "workflow")
        if not line.waiting and line.offer(task):
            return True
        if len(line.waiting) >= self._backlog_max:
            self.dropped += 1
        else:
            line.waiting.append(task)
        return False

    def subscribe(self, queue: str, kind: Kind, worker: str, deliver: Deliver, credits: int) -> InProcessSubscription:
        line = self._line(queue, kind)
        subscription = InProcessSubscription(line, worker, deliver, credits)
        line.subscriptions.append(subscription)
        line.drain()
        return subscription

    def served(self, queue: str, kind: Kind) -> bool:
        line = self._lines.get((queue, kind))
        return line is not None and bool(line.subscriptions)

    def depth(self, queue: str, kind: Kind) -> int:
        line = self._lines.get((queue, kind))
        return len(line.waiting) if line is not None else 0
