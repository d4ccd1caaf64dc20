"""The asker's end of task queues: who wants tasks of which, and what they may still be handed, so that a new connection goes on from there."""

import logging
from collections.abc import Callable, Iterator
from typing import Final

from perdure.core.tasks import CancelNotice, Task
from perdure.ports import Deliver, TaskKind, WorkerIdentity
from perdure.wire.messages import Delivered, Grant, Message, Notice, Subscribe, Unsubscribe

LEFT_MAX: Final = 20
"""Workers that take no tasks any more and may still report; the oldest are forgotten first."""
CREDITS_MAX: Final = 1 << 60
"""What is said of credits over the wire lies between minus this and this."""

log: Final = logging.getLogger(__name__)


class _Purse:
    """What one worker may still be handed of one kind."""

    __slots__ = ("credits",)

    def __init__(self) -> None:
        self.credits = 0


class Line:
    """Implements `ports.Subscription`."""

    __slots__ = ("_lines", "deliver", "identity", "kind", "number", "purse", "queue")

    def __init__(
        self, lines: "Lines", number: int, queue: str, kind: TaskKind, identity: WorkerIdentity, deliver: Deliver, purse: _Purse
    ) -> None:
        self._lines = lines
        self.number = number
        self.queue = queue
        self.kind: TaskKind = kind
        self.identity = identity
        self.deliver = deliver
        self.purse = purse

    def grant(self, credits: int) -> None:
        self.purse.credits += credits
        self._lines.say(Grant(line=self.number, credits=credits))

    def cancel(self) -> None:
        self._lines.cancel(self.number)

    def lose(self) -> None:
        """At this end there is nobody to be lost: see `cancel`."""
        self.cancel()

    def give_back(self, task: Task) -> None:
        """The node does that by itself for what was delivered and not claimed when a connection or subscription ends."""


class Lines:
    """All subscriptions of one asker. `say` says something to the node, if there is one."""

    def __init__(self, say: Callable[[Message], None]) -> None:
        self.say = say
        self._lines: dict[int, Line] = {}
        self._purses: dict[tuple[str, TaskKind], _Purse] = {}
        self._workers: dict[str, Deliver] = {}
        self._last = 0

    def workers(self) -> tuple[str, ...]:
        """Names of all workers that ever subscribed here: one that takes no more tasks may still report."""
        return tuple(self._workers)

    def subscribe(self, queue: str, kind: TaskKind, worker: WorkerIdentity, deliver: Deliver, credits: int) -> Line:
        self._last += 1
        if worker.worker not in self._workers:
            self._forget_those_that_left()
            self._workers[worker.worker] = deliver
        purse = self._purses.setdefault((worker.worker, kind), _Purse())
        purse.credits += credits
        line = self._lines[self._last] = Line(self, self._last, queue, kind, worker, deliver, purse)
        self.say(_subscribe(line, credits))
        return line

    def _forget_those_that_left(self) -> None:
        """Of many workers that take no tasks any more, the oldest have told all they had to tell."""
        serving = {line.identity.worker for line in self._lines.values()}
        left = [name for name in self._workers if name not in serving]
        for name in left[: -LEFT_MAX or None]:
            del self._workers[name]

    def cancel(self, number: int) -> None:
        line = self._lines.pop(number, None)
        if line is None:
            return
        if not any(other.purse is line.purse for other in self._lines.values()):
            del self._purses[(line.identity.worker, line.kind)]
        self.say(Unsubscribe(line=number))

    def opening(self) -> Iterator[Message]:
        """Every subscription again, with the credits that are left."""
        told: set[int] = set()
        for line in self._lines.values():
            credits = 0 if id(line.purse) in told else line.purse.credits
            told.add(id(line.purse))
            yield _subscribe(line, credits)

    def heard(self, message: Delivered | Notice) -> None:
        """A task or a cancel notice has come."""
        if isinstance(message, Notice):
            self.notify(message.worker, message.token)
            return
        line = self._lines.get(message.line)
        if line is None:
            return  # cancelled meanwhile; the node offers the task to somebody else
        line.purse.credits -= 1
        line.deliver(message.task)

    def notify(self, worker: str, token: str) -> None:
        """Tell a worker that the attempt under `token` is to stop; with an empty name, whichever runs it."""
        for name, deliver in self._workers.items():
            if not worker or name == worker:
                deliver(CancelNotice(token=token))


def _subscribe(line: Line, credits: int) -> Subscribe:
    bounded = max(-CREDITS_MAX, min(CREDITS_MAX, credits))
    return Subscribe(line=line.number, queue=line.queue, kind=line.kind, worker=line.identity, credits=bounded)
