"""How things leave the engine: tasks through the broker, cancel notices to the worker that runs the attempt."""

from types import MethodType
from typing import TYPE_CHECKING
from weakref import WeakMethod

from perdure.core.tasks import CancelNotice, Task
from perdure.ports import Broker, Deliver

if TYPE_CHECKING:
    from collections.abc import Callable


class Exits:
    """Owned by the frontend, which knows who is subscribed."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._workers: dict[str, Callable[[], Deliver | None]] = {}
        """How to reach each worker while it lives; a worker that has left is not kept for it."""

    def publish(self, task: Task) -> bool:
        """Offer a task; true when a worker was handed it at once."""
        return self._broker.publish(task)

    def is_served(self, queue: str) -> bool:
        """True when somebody takes workflow tasks of a queue, and queries with them."""
        return self._broker.served(queue, "workflow")

    def notify(self, worker: str, notice: CancelNotice) -> None:
        """Tell a worker; one that is gone needs no telling."""
        reach = self._workers.get(worker)
        deliver = reach() if reach is not None else None
        if deliver is not None:
            deliver(notice)

    def attach(self, worker: str, deliver: Deliver) -> None:
        """Remember how to tell a worker; a bound method is held weakly."""
        if worker not in self._workers:
            self._workers = {name: reach for name, reach in self._workers.items() if reach() is not None}
        self._workers[worker] = WeakMethod(deliver) if isinstance(deliver, MethodType) else lambda: deliver
