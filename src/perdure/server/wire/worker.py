"""The node's end of a worker in another process: what it is subscribed to, and what it was handed and has not claimed.

A connection that is gone may be back in a moment: for so long the worker is handed nothing and loses nothing. Then the engine is told that
it is lost.
"""

from collections.abc import Callable, Iterable

from perdure.core.errors import InvalidArgument
from perdure.core.tasks import CancelNotice, Task
from perdure.ports import Frontend, Subscription, TaskKind
from perdure.wire.messages import Delivered, Message, Notice, Subscribe

Pointer = tuple[str, int]
"""Run and command (0: the run's workflow task) of a task; of a query's, its id and 0."""


class _Line:
    """One subscription. `number` is the asker's for it; 0 while there is no connection."""

    __slots__ = ("number", "subscription")

    def __init__(self, number: int) -> None:
        self.number = number
        self.subscription: Subscription | None = None


class RemoteWorker:
    """Lives as long as its session. `say` sends something to its process."""

    def __init__(self, name: str, frontend: Frontend, say: Callable[[Message], None], unclaimed_max: int) -> None:
        self.name = name
        self._frontend = frontend
        self._say = say
        self._lines: dict[tuple[str, TaskKind], _Line] = {}
        self._credits: dict[TaskKind, int] = {"workflow": 0, "activity": 0}
        """What it may still be handed."""
        self._unclaimed: dict[Pointer, Task] = {}
        self._unclaimed_max = unclaimed_max

    @property
    def queues(self) -> tuple[str, ...]:
        """Queues it serves."""
        return tuple(sorted({queue for queue, _ in self._lines}))

    @property
    def unclaimed(self) -> int:
        """Deliveries it has not claimed."""
        return len(self._unclaimed)

    def subscribe(self, message: Subscribe) -> None:
        """It wants tasks, or wants them again on another connection. Raises `InvalidArgument` when it is subscribed to that already."""
        at = (message.queue, message.kind)
        line = self._lines.get(at)
        if line is not None and line.number:
            raise InvalidArgument(f"worker {self.name!r} is subscribed to the {message.kind} tasks of queue {message.queue!r}")
        self._credits[message.kind] += message.credits
        if line is not None and line.subscription is not None:
            line.number = message.line
            line.subscription.grant(message.credits)
            return
        # Tasks may be handed over before `subscribe` returns: the line must be known by then.
        line = self._lines[at] = _Line(message.line)
        line.subscription = self._frontend.subscribe(message.queue, message.kind, message.worker, self.deliver, message.credits)

    def grant(self, number: int, credits: int) -> None:
        """It may be handed more, or less."""
        for (_, kind), line in self._lines.items():
            if line.number == number and line.subscription is not None:
                self._credits[kind] += credits
                line.subscription.grant(credits)
                return

    def deliver(self, item: Task | CancelNotice) -> None:
        """Called by the engine. A cancel notice that comes while there is no connection is told again by the answer to a beat."""
        if isinstance(item, CancelNotice):
            self._say(Notice(worker=self.name, token=item.token))
            return
        self._credits[item.kind] -= 1
        unclaimed = self._unclaimed
        unclaimed[_pointer(item)] = item
        if len(unclaimed) > self._unclaimed_max:
            del unclaimed[next(iter(unclaimed))]
        line = self._lines.get((item.queue, item.kind))
        if line is not None and line.number:
            self._say(Delivered(line=line.number, task=item))

    def claimed(self, of: str, command: int = 0) -> None:
        """It has claimed what it was handed, or needs it no more."""
        self._unclaimed.pop((of, command), None)

    def unsubscribe(self, number: int) -> None:
        """It wants no more of one queue; what it was handed of that and has not claimed, others get."""
        for at, line in list(self._lines.items()):
            if line.number == number:
                del self._lines[at]
                self._end(at, line, lost=False)

    # --------------------------------------------------------------------------------------------- without a connection

    def pause(self) -> None:
        """Its connection is gone: it is handed nothing, but is not lost yet."""
        taken: set[TaskKind] = set()
        for (_, kind), line in self._lines.items():
            line.number = 0
            if kind not in taken and line.subscription is not None:
                taken.add(kind)
                line.subscription.grant(-self._credits[kind])
                self._credits[kind] = 0

    def offer_again(self) -> None:
        """It is back. What it was handed may have been lost with the connection: whoever claims it first has it."""
        unclaimed, self._unclaimed = self._unclaimed, {}
        for task in unclaimed.values():
            line = self._lines.get((task.queue, task.kind))
            if line is not None and line.subscription is not None:
                line.subscription.give_back(task)

    def lose(self, *, lost: bool) -> None:
        """End what was not subscribed to again; `lost`: because the worker did not come back."""
        for at, line in list(self._lines.items()):
            if not line.number:
                del self._lines[at]
                self._end(at, line, lost=lost)

    def _end(self, at: tuple[str, TaskKind], line: _Line, *, lost: bool) -> None:
        subscription = line.subscription
        if subscription is None:
            return
        if lost:
            subscription.lose()
        else:
            subscription.cancel()
        # What a lost worker was handed the engine offers anew by itself, but for queries.
        self._give_back(
            subscription,
            [task for task in self._unclaimed.values() if (task.queue, task.kind) == at and (task.query or not lost)],
        )

    def _give_back(self, subscription: Subscription, tasks: Iterable[Task]) -> None:
        for task in tasks:
            del self._unclaimed[_pointer(task)]
            subscription.give_back(task)


def _pointer(task: Task) -> Pointer:
    return (task.query or task.run_id, task.command)
