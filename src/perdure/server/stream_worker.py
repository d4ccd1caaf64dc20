"""The node's end of a worker in another process: what it is subscribed to, and what it was handed and has not claimed."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from perdure.core.errors import InvalidArgument
from perdure.core.tasks import CancelNotice, Task
from perdure.ports import Frontend, Subscription, TaskKind
from perdure.wire.messages import Delivered, Message, Notice, Subscribe

if TYPE_CHECKING:
    from collections.abc import Iterable

Pointer = tuple[str, int]
"""Run and command (0: the run's workflow task) of a task; of a query's, its id and 0."""


class RemoteWorker:
    """Lives as long as its session; its subscriptions live as long as the connection. `say` sends something to its process."""

    def __init__(self, name: str, frontend: Frontend, say: Callable[[Message], None], unclaimed_max: int) -> None:
        self.name = name
        self._frontend = frontend
        self._say = say
        self._lines: dict[tuple[str, TaskKind], tuple[int, Subscription]] = {}
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

    def subscribe(self, message: Subscribe) -> Subscription:
        """Raises `InvalidArgument` when it is subscribed to that already."""
        at = (message.queue, message.kind)
        if at in self._lines:
            raise InvalidArgument(f"worker {self.name!r} is subscribed to the {message.kind} tasks of queue {message.queue!r}")
        # Tasks may be handed over before `subscribe` returns: the line must be known by then.
        self._lines[at] = (message.line, _NONE)
        made = self._frontend.subscribe(message.queue, message.kind, message.worker, self.deliver, message.credits)
        self._lines[at] = (message.line, made)
        return made

    def deliver(self, item: Task | CancelNotice) -> None:
        """Called by the engine. What comes while there is no connection is lost here, and told again by the answer to a beat."""
        if isinstance(item, CancelNotice):
            self._say(Notice(worker=self.name, token=item.token))
            return
        line = self._lines.get((item.queue, item.kind))
        if line is None:
            return
        unclaimed = self._unclaimed
        unclaimed[_pointer(item)] = item
        if len(unclaimed) > self._unclaimed_max:
            del unclaimed[next(iter(unclaimed))]
        self._say(Delivered(line=line[0], task=item))

    def claimed(self, of: str, command: int = 0) -> None:
        """It has claimed what it was handed, or needs it no more."""
        self._unclaimed.pop((of, command), None)

    def unsubscribe(self, number: int) -> None:
        """It wants no more of one queue; what it was handed of that and has not claimed, others get."""
        for at, (line, subscription) in list(self._lines.items()):
            if line == number:
                del self._lines[at]
                subscription.cancel()
                self._give_back(subscription, [task for task in self._unclaimed.values() if (task.queue, task.kind) == at])

    def leave(self) -> None:
        """Its connection is gone."""
        lines, self._lines = self._lines, {}
        for _, subscription in lines.values():
            subscription.lose()
        for at, (_, subscription) in lines.items():
            # All else the engine offers anew by itself, knowing that the worker is lost.
            asked = [task for task in self._unclaimed.values() if task.query and (task.queue, task.kind) == at]
            self._give_back(subscription, asked)
        self._unclaimed.clear()

    def _give_back(self, subscription: Subscription, tasks: "Iterable[Task]") -> None:
        for task in tasks:
            del self._unclaimed[_pointer(task)]
            subscription.give_back(task)


def _pointer(task: Task) -> Pointer:
    return (task.query or task.run_id, task.command)


class _Nobody:
    """Stands for a subscription that is being made."""

    def grant(self, credits: int) -> None: ...

    def cancel(self) -> None: ...

    def lose(self) -> None: ...

    def give_back(self, task: Task) -> None: ...


_NONE = _Nobody()
