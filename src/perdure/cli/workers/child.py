"""One worker process: `python -m perdure.cli.workers.child FD`, started by `perdure worker`. FD is a socket to the process above it.

It drains when it is ordered to, when it gets SIGTERM, and when the process above is gone, however that ended. A thread of its own listens for
that, so that user code which blocks the loop, or an import which hangs, keeps no process alive for ever.
"""

import asyncio
import contextlib
import logging
import os
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

from perdure.cli.exits import OK, code_of, is_expected, name_of
from perdure.cli.served import files_of, loaded, queues_of, registry_of
from perdure.cli.sources import imported
from perdure.cli.workers import messages as ms
from perdure.runtime.logs import WORDS
from perdure.runtime.signals import heed
from perdure.standalone import STOPPING, Worker

Hear: TypeAlias = Callable[[ms.Order], None]


class Above:
    """The process above: hears news, gives orders. `hear` is called on the loop, once there is one."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines = connection.makefile("rb")
        self._lock = threading.Lock()
        self._hear: Hear | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.plan = ms.read_plan(self._lines.readline(ms.LINE_BYTES_MAX))

    def listen(self) -> None:
        """Take orders from now on, on a thread."""
        threading.Thread(target=self._listen, name="perdure-worker-orders", daemon=True).start()

    def tell(self, news: ms.News) -> None:
        """Send news; nobody listening is no error here, it is heard of elsewhere."""
        with self._lock, contextlib.suppress(OSError):
            self._connection.sendall(ms.line_of(news))

    def heard_by(self, hear: Hear) -> None:
        """From now on orders are heard on the running loop."""
        with self._lock:
            self._loop, self._hear = asyncio.get_running_loop(), hear

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while line := self._lines.readline(ms.LINE_BYTES_MAX):
                self.order(ms.read_order(line))
        self.order(ms.Order(what="drain", grace=self.plan.grace))

    def order(self, order: ms.Order) -> None:
        """Pass an order on. While modules are still being imported nothing was taken, so the process just ends."""
        with self._lock:
            loop, hear = self._loop, self._hear
        if loop is None or hear is None:
            os._exit(OK)
        _end_after(order.grace + ms.AFTER_GRACE_S)
        with contextlib.suppress(RuntimeError):  # the loop is closed: it is ending already
            loop.call_soon_threadsafe(hear, order)


def _end_after(seconds: float) -> None:
    """However this process is stuck by then, it ends. Its claims are found lost, as those of a killed one are."""
    timer = threading.Timer(seconds, os._exit, (1,))
    timer.daemon = True
    timer.start()


def main() -> int:
    connection = socket.socket(fileno=int(sys.argv[1]))
    connection.set_inheritable(False)
    above = Above(connection)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format=WORDS)
    if above.plan.reload:
        sys.dont_write_bytecode = True  # compiled files are told apart by whole seconds, and authors are faster
    above.listen()
    try:
        modules = loaded(above.plan.modules)
        worker = _worker(above, modules)
        return asyncio.run(_serve(above, worker))
    except Exception as error:
        if not is_expected(error):
            raise
        files = tuple(map(str, _watched(above.plan, error)))
        above.tell(ms.Failed(code=code_of(error), name=name_of(error), message=str(error), files=files))
        return code_of(error)


def _watched(plan: ms.Plan, error: BaseException) -> list[Path]:
    named = [Path(module).resolve() for module in plan.modules if Path(module).is_file()]
    return [*files_of(error), *named]


class _Telling(Worker):
    """Tells the process above how the node stands."""

    above: Above

    def _serves(self) -> None:
        self.above.tell(ms.Serving(address=self.address))

    def _waits(self, why: str, refused: bool = False) -> None:
        self.above.tell(ms.Away(why=why, refused=refused))


def _worker(above: Above, modules: list[ModuleType]) -> Worker:
    plan = above.plan
    registry = registry_of(modules, plan.build_id)
    worker = _Telling(
        plan.address,
        api_key=plan.api_key,
        ca=plan.ca,
        namespace=plan.namespace,
        queue=plan.queues or queues_of(registry),
        workflows=modules,
        build_id=plan.build_id,
        max_activities=plan.max_activities,
        max_processes=plan.max_processes,
        max_cached_runs=plan.max_cached_runs,
        max_cached_bytes=plan.max_cached_bytes,
        grace=plan.grace,
    )
    worker.above = above
    above.tell(
        ms.Loaded(
            build_id=registry.build_id(),
            workflows=tuple(sorted(registry.workflows)),
            activities=tuple(sorted(registry.activities)),
            queues=worker.queues,
            files=tuple(map(str, imported())) if plan.reload else (),
        )
    )
    return worker


async def _serve(above: Above, worker: Worker) -> int:
    """Work until an order ends it."""

    def hear(order: ms.Order) -> None:
        if order.what == "hurry":
            worker.stop()
        worker.stop(order.grace)

    running = asyncio.get_running_loop().create_task(worker.run(), name="perdure worker")
    await asyncio.sleep(0)
    for number in STOPPING:
        heed(number, above.order, ms.Order(what="drain", grace=above.plan.grace))
    above.heard_by(hear)
    await running
    return OK


if __name__ == "__main__":
    sys.exit(main())
