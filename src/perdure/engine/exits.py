"""How things leave the engine: tasks through the broker, cancel notices to the worker that runs the attempt."""

from perdure.core.tasks import CancelNotice, Task
from perdure.ports import Broker, Deliver


class Exits:
    """Owned by the frontend, which knows who is subscribed."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._workers: dict[str, Deliver] = {}

    def publish(self, task: Task) -> bool:
        """Offer a task; true when a worker was handed it at once."""
        return self._broker.publish(task)

    def notify(self, worker: str, notice: CancelNotice) -> None:
        """Tell a worker; one that is gone needs no telling."""
        deliver = self._workers.get(worker)
        if deliver is not None:
            deliver(notice)

    def attach(self, worker: str, deliver: Deliver) -> None:
        self._workers[worker] = deliver

    def detach(self, worker: str) -> None:
        self._workers.pop(worker, None)
