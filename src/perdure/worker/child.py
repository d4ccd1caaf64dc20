"""A child process of a worker: runs one attempt of a process activity at a time. `python -m perdure.worker.child FD`, started by the worker.

FD is a socket to the worker. The child's own input is empty, its output is the worker's and carries no messages: what user code prints
or reads there cannot disturb anything. It ends when the worker does, however that ended: the socket is then closed.
"""

import asyncio
import contextvars
import ctypes
import importlib
import inspect
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any, Final

from perdure.core.errors import InvalidArgument
from perdure.core.payload import Payload
from perdure.runtime.clock import RealClock
from perdure.sdk.activity import Activity
from perdure.sdk.context import CompletesLater, activity_context
from perdure.sdk.failures import to_failure
from perdure.sdk.importable import found_in
from perdure.sdk.payloads import Signature
from perdure.worker import child_messages as ms

BEAT_EVERY_US: Final = 20_000
"""Heartbeats closer together than this are merged before they are sent."""
_PR_SET_PDEATHSIG: Final = 1


class ChildAttempt:
    """The attempt that runs. Implements `sdk.context.ActivityContext`; its methods may be called from any thread."""

    def __init__(self, run: ms.Run, send: Callable[[ms.Message], None], clock: RealClock) -> None:
        self.workflow_id = run.workflow_id
        self.run_id = run.run_id
        self.activity_id = run.activity_id
        self.attempt = run.attempt
        self.queue = run.queue
        self.name = run.name
        self.idempotency_key = run.idempotency_key
        self.heartbeat_details = run.heartbeat_details
        self.task_token = run.task_token
        self.deadline = run.deadline
        self._stopping = run.stopping
        self._cancelled = False
        self._send = send
        self._clock = clock
        self._lock = threading.Lock()
        self._task: asyncio.Task[Any] | None = None
        self._waiting: Payload | None = None
        self._beat_at = 0
        self._timer = False

    def is_cancelled(self) -> bool:
        return self._cancelled

    def is_stopping(self) -> bool:
        return self._stopping

    def stopping(self) -> None:
        """The worker drains."""
        self._stopping = True

    def cancel(self) -> None:
        """The worker asks for the end. Code that awaits sees it at once, other code when it looks."""
        with self._lock:
            self._cancelled = True
            if self._task is not None:
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)

    def runs_in(self, task: "asyncio.Task[Any] | None") -> None:
        """From here on it runs in that task of that task's loop; None: in none any more."""
        with self._lock:
            self._task = task
            if task is not None and self._cancelled:
                task.cancel()

    def heartbeat(self, details: Payload) -> None:
        with self._lock:
            self._waiting = details
            if self._timer:
                return
            pause = self._beat_at + BEAT_EVERY_US - self._clock.now()
            if pause > 0:
                self._timer = True
                timer = threading.Timer(pause / 1e6, self.flush)
                timer.daemon = True
                timer.start()
                return
        self.flush()

    def flush(self) -> None:
        """Send the details that wait."""
        with self._lock:
            self._timer = False
            details, self._waiting = self._waiting, None
            if details is not None:
                self._beat_at = self._clock.now()
                self._send(ms.Beat(details=details))


class Child:
    """Serves the worker at the other end of `connection` until that closes it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._runs: queue.SimpleQueue[ms.Run] = queue.SimpleQueue()
        self._attempt: ChildAttempt | None = None
        self._clock = RealClock()

    def serve(self) -> None:
        """Never returns. User code has the main thread, as it may expect; what the worker says is read on another one."""
        threading.Thread(target=self._read, name="perdure-child", daemon=True).start()
        while True:
            run = self._runs.get()
            attempt = self._attempt
            assert attempt is not None
            answer = contextvars.Context().run(execute, run, attempt)
            attempt.flush()
            for stream in (sys.stdout, sys.stderr):
                _flush(stream)
            self._send(answer)

    def _read(self) -> None:
        try:
            with self._connection.makefile("rb") as lines:
                for line in lines:
                    self._take(ms.read_in_child(line))
        finally:
            os._exit(0)  # the worker is gone: so is whoever wants a result

    def _take(self, message: ms.ToChild) -> None:
        match message:
            case ms.Welcome():
                sys.path[:] = message.path
            case ms.Run():
                self._attempt = ChildAttempt(message, self._send, self._clock)  # here: its cancel may be the very next message
                self._runs.put(message)
            case ms.Cancel():
                if self._attempt is not None:
                    self._attempt.cancel()
            case ms.Stopping():
                if self._attempt is not None:
                    self._attempt.stopping()

    def _send(self, message: ms.Message) -> None:
        with self._sending:
            self._connection.sendall(ms.line_of(message))


def execute(run: ms.Run, attempt: ChildAttempt) -> ms.Done | ms.Failed | ms.Later:
    """Run one attempt to its end; whatever it raises is its answer."""
    activity_context.set(attempt)
    called = False
    try:
        fn, signature = _function(run)
        args, kwargs = signature.unbind(run.input, run.keywords)
        called = True
        result = fn(*args, **kwargs)
        if inspect.isawaitable(result):
            result = asyncio.run(_awaited(result, attempt))
        called = False
        return ms.Done(result=signature.encode_result(result, f"result of {run.name}"))
    except CompletesLater:
        return ms.Later()
    except asyncio.CancelledError as error:
        return ms.Failed(failure=to_failure(error), cancelled=True)
    except BaseException as error:  # noqa: BLE001 – whatever an activity raises is its failure
        final = not called and isinstance(error, (InvalidArgument, TypeError))
        return ms.Failed(failure=to_failure(error), final=final)


async def _awaited(result: Any, attempt: ChildAttempt) -> Any:
    attempt.runs_in(asyncio.current_task())
    try:
        return await result
    finally:
        attempt.runs_in(None)


def _function(run: ms.Run) -> tuple[Callable[..., Any], Signature]:
    try:
        module = _module(run.module, run.file)
    except Exception as error:
        raise ImportError(
            f"activity {run.name!r} runs in a process of its own, which cannot import {run.module}: "
            f"{type(error).__name__}: {error}"
        ) from error
    found: Any = found_in(module, run.qualname)
    if found is None:
        raise ImportError(f"activity {run.name!r} runs in a process of its own, where {run.module} has no {run.qualname}")
    fn = found.fn if isinstance(found, Activity) else found
    return fn, Signature.of(fn)


def _module(name: str, file: str) -> ModuleType:
    known = sys.modules.get(name)
    if known is not None:
        return known
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if not file or error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no module")
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _flush(stream: Any) -> None:
    try:
        stream.flush()
    except Exception:  # noqa: BLE001 – closed by user code, or replaced by something that cannot
        return


def _die_with_the_worker() -> None:
    """Where the system can: be killed when the worker is, though code that never lets go of the interpreter keeps the reading thread out."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main(descriptor: int) -> None:
    """Serve the worker on that socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C at the terminal is the worker's to handle
    _die_with_the_worker()
    connection = socket.socket(fileno=descriptor)
    connection.set_inheritable(False)
    Child(connection).serve()


if __name__ == "__main__":
    main(int(sys.argv[1]))
