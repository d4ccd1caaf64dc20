"""Running activity attempts: async ones as tasks on the loop, sync ones on threads, process activities in children, each with its context,
its end turned into a fact."""

import asyncio
import contextvars
import inspect
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from perdure.core.errors import InvalidArgument
from perdure.core.failure import Failure
from perdure.core.payload import Payload
from perdure.core.replies import ActivityClaim, Beaten
from perdure.core.requests import ActivityErred, ActivitySucceeded, HeartbeatActivity
from perdure.ports import Frontend
from perdure.replay.interrupts import is_interrupt
from perdure.sdk import task_token
from perdure.sdk.activity import Activity
from perdure.sdk.context import CompletesLater, activity_context
from perdure.sdk.failures import to_failure
from perdure.sdk.interceptors import ActivityCall, Interceptor, around_activities
from perdure.sdk.payload_bound import bind, bound_of, check_size
from perdure.worker.processes import FailedInChild, ProcessPool
from perdure.worker.threads import DaemonThreads, end_if_forked, returned

log = logging.getLogger(__name__)

Fact: TypeAlias = ActivitySucceeded | ActivityErred
Ended = Callable[["Attempt", Fact | None], None]

CUT_S: Final = 5.0
"""So long may an activity that was cut short take to end."""

BEAT_EVERY_US: Final = 200_000
"""Heartbeats closer together than this, or than a quarter of the activity's own heartbeat bound, are merged."""


class Attempt:
    """One attempt while it runs. Implements `sdk.context.ActivityContext`; its methods may be called from any thread."""

    __slots__ = (
        "_beat_at",
        "_beat_every",
        "_beat_timer",
        "_beat_waits",
        "_frontend",
        "_loop",
        "_stopping",
        "begun",
        "called",
        "cancelled",
        "claim",
        "is_async",
        "later",
        "task",
        "wanted",
    )

    def __init__(
        self, claim: ActivityClaim, frontend: Frontend, loop: asyncio.AbstractEventLoop, stopping: Callable[[], bool]
    ) -> None:
        self.claim = claim
        self.task: asyncio.Task[Any] | None = None
        self.is_async = True
        self.begun = False
        self.called = False
        """The function runs: what is raised is its own."""
        self.cancelled = False
        self.later = False
        """Its function has ended, its result comes from outside."""
        self.wanted = True
        self._frontend = frontend
        self._loop = loop
        self._stopping = stopping
        self._beat_at = 0
        bound = claim.scheduled.heartbeat
        self._beat_every = min(BEAT_EVERY_US, bound // 4) if bound else BEAT_EVERY_US
        self._beat_timer: asyncio.TimerHandle | None = None
        self._beat_waits: Payload | None = None
        """Details not yet sent. Set on any thread, sent on the loop's."""

    @property
    def workflow_id(self) -> str:
        return self.claim.workflow_id

    @property
    def run_id(self) -> str:
        return self.claim.run_id

    @property
    def activity_id(self) -> int:
        return self.claim.scheduled.id

    @property
    def attempt(self) -> int:
        return self.claim.attempt

    @property
    def queue(self) -> str:
        return self.claim.queue

    @property
    def name(self) -> str:
        return self.claim.scheduled.name

    @property
    def idempotency_key(self) -> str:
        return self.claim.idempotency_key

    @property
    def heartbeat_details(self) -> Payload:
        return self.claim.heartbeat_details

    @property
    def task_token(self) -> str:
        claim = self.claim
        return task_token.text_of(
            task_token.TaskToken(
                claim.namespace, claim.workflow_id, claim.run_id, claim.scheduled.id, claim.attempt, claim.token
            )
        )

    @property
    def deadline(self) -> int | None:
        return self.claim.deadline or None

    def is_cancelled(self) -> bool:
        return self.cancelled

    def is_stopping(self) -> bool:
        return self._stopping()

    def heartbeat(self, details: Payload) -> None:
        self._beat_waits = details
        self._loop.call_soon_threadsafe(self._beat)

    def _beat(self) -> None:
        if self._beat_waits is None or self._beat_timer is not None:
            return
        pause = self._beat_at + self._beat_every - self._frontend.now()
        if pause <= 0:
            self._send_waiting()
        else:
            self._beat_timer = self._loop.call_later(pause / 1e6, self._send_waiting)

    def _send_waiting(self) -> None:
        self._beat_timer = None
        details, self._beat_waits = self._beat_waits, None
        if details is not None and self.wanted:
            self._send_beat(details)

    def last_beat(self) -> None:
        """The function has ended: send what it said last, so that the next attempt sees it."""
        if self._beat_timer is not None:
            self._beat_timer.cancel()
        self._send_waiting()

    def _send_beat(self, details: Payload) -> None:
        claim = self.claim
        self._beat_at = self._frontend.now()
        self._frontend.send(
            HeartbeatActivity(
                namespace=claim.namespace,
                workflow_id=claim.workflow_id,
                run_id=claim.run_id,
                command=claim.scheduled.id,
                attempt=claim.attempt,
                token=claim.token,
                details=details,
            ),
            self._beaten,
        )

    def _beaten(self, beaten: Beaten | None, _error: BaseException | None) -> None:
        if beaten is not None and (beaten.cancelled or not beaten.wanted):
            self.cancel(wanted=beaten.wanted)

    def in_its_task(self) -> bool:
        """True while its task takes a step; false when its coroutine is resumed in order to be closed."""
        try:
            return self.task is not None and asyncio.current_task() is self.task
        except RuntimeError:  # no loop runs
            return False

    def cancel(self, *, wanted: bool = True) -> None:
        """The workflow asked it to stop, or nobody wants its result any more."""
        self.wanted = self.wanted and wanted
        if not self.cancelled:
            self.cancelled = True
            # A task cancelled before its first step never runs a line, not even the ones that would report it.
            # And a thread goes on whatever becomes of its task: that attempt ends when the function does, with what it says then.
            if self.task is not None and self.begun and self.is_async:
                self.task.cancel()


class Attempts:
    """The attempts a worker runs now, never more than `limit`.

    `ended` is called once for each, with its fact, or None when there is nothing to say: of a sync one when its thread is free again.
    """

    def __init__(
        self, frontend: Frontend, limit: int, max_processes: int, ended: Ended, interceptors: Sequence[Interceptor] = ()
    ) -> None:
        self._frontend = frontend
        self._ended = ended
        self._running: dict[str, Attempt] = {}
        self._threads: DaemonThreads | None = None
        self._processes: ProcessPool | None = None
        self._limit = limit
        self._max_processes = max_processes
        self._around = around_activities(interceptors)
        self._payload_bytes_max = bound_of(frontend)
        self._pid = os.getpid()
        self.stopping = False
        self._hurried = False
        self._patience: asyncio.Timeout | None = None
        """The grace period, while it lasts."""

    def __len__(self) -> int:
        return len(self._running)

    def start(self, definition: Activity[..., Any], claim: ActivityClaim) -> None:
        """Run one claimed attempt in a task of its own."""
        loop = asyncio.get_running_loop()
        attempt = Attempt(claim, self._frontend, loop, self._is_stopping)
        attempt.is_async = definition.is_async or claim.scheduled.process
        self._running[claim.token] = attempt
        attempt.task = loop.create_task(self._run(definition, attempt), name=definition.name, context=contextvars.Context())

    def cancel(self, token: str) -> None:
        attempt = self._running.get(token)
        if attempt is not None:
            attempt.cancel()

    def _is_stopping(self) -> bool:
        return self.stopping

    async def _run(self, definition: Activity[..., Any], attempt: Attempt) -> None:
        attempt.begun = True
        activity_context.set(attempt)
        bind(self._payload_bytes_max)
        claim = attempt.claim
        scheduled = claim.scheduled
        fact: Fact | None = None
        try:
            if attempt.cancelled:
                raise asyncio.CancelledError  # noqa: TRY301 – it was cancelled before it began
            payload = await (self._in_process if scheduled.process else self._here)(definition, attempt)
            fact = ActivitySucceeded(command=scheduled.id, attempt=claim.attempt, token=claim.token, result=payload)
        except asyncio.CancelledError as error:
            if self.stopping and not attempt.cancelled:
                fact = _cut_short(claim)
                raise
            fact = _erred(claim, error, cancelled=attempt.cancelled)
        except CompletesLater:
            attempt.later = attempt.wanted
        except FailedInChild as failed:
            fact = _failed(claim, failed.failure, final=failed.final, cancelled=failed.cancelled and attempt.cancelled)
            _tell(fact, claim)
        except BaseException as error:
            if is_interrupt(error) or (isinstance(error, GeneratorExit) and not attempt.in_its_task()):
                raise  # Ctrl-C; a task taken down with its loop, which is resumed outside of it
            # Whatever else an activity raises is its failure, not the worker's.
            # What does not fit the function's signature, or cannot be a payload, is no better at the next attempt.
            fact = _erred(claim, error, final=not attempt.called and isinstance(error, (InvalidArgument, TypeError)))
            _tell(fact, claim)
        finally:
            end_if_forked(self._pid)
            attempt.task = None
            if type(fact) is not ActivitySucceeded:
                attempt.last_beat()
            self._end(attempt, fact)

    def _end(self, attempt: Attempt, fact: Fact | None) -> None:
        if self._running.pop(attempt.claim.token, None) is not None:
            self._ended(attempt, fact)

    async def _here(self, definition: Activity[..., Any], attempt: Attempt) -> Payload:
        """Run the function in this process; its result's payload."""
        scheduled, signature = attempt.claim.scheduled, definition.signature
        args, kwargs = signature.unbind(scheduled.input, scheduled.keywords)
        attempt.called = True
        fn: Any = definition.fn
        if self._around is None:
            result = await fn(*args, **kwargs) if definition.is_async else await self._on_thread(attempt, fn, args, kwargs)
        else:
            call = ActivityCall(name=definition.name, args=tuple(args), kwargs=kwargs)
            result = await self._around(call, lambda call: self._called(definition, attempt, call.args, call.kwargs))
        attempt.called = False
        return signature.encode_result(result, f"result of {definition.name}")

    async def _called(
        self, definition: Activity[..., Any], attempt: Attempt, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        fn: Any = definition.fn
        return await fn(*args, **kwargs) if definition.is_async else await self._on_thread(attempt, fn, args, kwargs)

    async def _in_process(self, definition: Activity[..., Any], attempt: Attempt) -> Payload:
        """Run the function in a child process; its result's payload."""
        processes = self._processes
        if processes is None:
            processes = self._processes = ProcessPool(self._max_processes)
        scheduled, signature = attempt.claim.scheduled, definition.signature
        if self._around is None:
            done = await processes.run(definition, attempt, scheduled.input, scheduled.keywords)
            check_size(len(bytes(done)), f"result of {definition.name}", self._payload_bytes_max)
            return done

        async def innermost(call: ActivityCall) -> Any:
            values, keywords = signature.bind(call.args, call.kwargs, definition.name)
            return signature.decode_result(await processes.run(definition, attempt, values, keywords))

        args, kwargs = signature.unbind(scheduled.input, scheduled.keywords)
        attempt.called = True
        result = await self._around(ActivityCall(name=definition.name, args=tuple(args), kwargs=kwargs), innermost)
        attempt.called = False
        return signature.encode_result(result, f"result of {definition.name}")

    async def _on_thread(self, attempt: Attempt, fn: Any, args: Any, kwargs: Any) -> Any:
        if self._threads is None:
            self._threads = DaemonThreads(self._limit)
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        outcome = await loop.run_in_executor(self._threads, lambda: context.run(returned, fn, args, kwargs))
        if outcome.error is not None:
            try:
                raise outcome.error
            finally:
                del outcome  # the exception holds this frame
        result = outcome.result
        if not inspect.isawaitable(result):
            return result
        # A plain function around an async one: from here on it runs on the loop, and hears of its cancel as any async one does.
        attempt.is_async = True
        if attempt.cancelled and attempt.task is not None:
            attempt.task.cancel()
        return await result

    def hurry(self) -> None:
        """No more grace: a `stop` that waits cuts short now what still runs."""
        self._hurried = True
        if self._patience is not None and not self._patience.expired():
            self._patience.reschedule(asyncio.get_running_loop().time())

    async def _wait(self, tasks: list[asyncio.Task[Any]], grace: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(grace) as self._patience:
                await asyncio.wait(tasks)
        self._patience = None

    async def stop(self, grace: float) -> None:
        """Wait up to `grace` seconds for what runs, then cancel it and wait up to `CUT_S` for that; what still runs then is left behind.

        Attempts cut short are reported lost, those left behind too, so that their owner has them run elsewhere.
        """
        self.stopping = True
        if self._processes is not None:
            self._processes.stopping()
        attempts = {attempt.task: attempt for attempt in self._running.values() if attempt.task is not None}
        tasks = list(attempts)
        if tasks and grace > 0 and not self._hurried:
            await self._wait(tasks, grace)
        left = [task for task in tasks if not task.done()]
        if left:
            log.warning("%d activities were still running after the grace period of %g s", len(left), grace)
            on_threads = [attempts[task].name for task in left if not attempts[task].is_async]
            for task in left:
                task.cancel()
            _, deaf = await asyncio.wait(left, timeout=CUT_S)
            _name_left(on_threads, "run on threads, which cannot be stopped, and")
            _name_left([attempts[task].name for task in deaf], "ignore being cancelled and")
        for attempt in list(self._running.values()):  # the deaf, and those cut before their first step, whose tasks never ran
            self._end(attempt, _cut_short(attempt.claim))
        if self._threads is not None:
            self._threads.shutdown(wait=False)
        if self._processes is not None:
            await self._processes.stop()


def _name_left(names: list[str], why: str) -> None:
    if names:
        log.error("activities that %s are left behind: %s", why, ", ".join(sorted(names)))


def _cut_short(claim: ActivityClaim) -> ActivityErred:
    """The worker stopped before the attempt ended: it counts, as one does whose worker died."""
    failure = Failure(type="WorkerStopped", message="the worker stopped before the attempt had ended")
    return ActivityErred(command=claim.scheduled.id, attempt=claim.attempt, token=claim.token, failure=failure, kind="lost")


def _erred(claim: ActivityClaim, error: BaseException, *, final: bool = False, cancelled: bool = False) -> ActivityErred:
    return _failed(claim, to_failure(error), final=final, cancelled=cancelled)


def _failed(claim: ActivityClaim, failure: Failure, *, final: bool, cancelled: bool) -> ActivityErred:
    if final and not failure.non_retryable:
        failure = replace(failure, non_retryable=True)
    return ActivityErred(
        command=claim.scheduled.id, attempt=claim.attempt, token=claim.token, failure=failure, cancelled=cancelled
    )


def _tell(erred: ActivityErred, claim: ActivityClaim) -> None:
    """Log a failed attempt: the first three, then ever more rarely, so that endless retries are seen and do not flood."""
    number = claim.attempt
    if number <= 3 or number & (number - 1) == 0:
        log.warning(
            "activity %s of workflow %r failed at attempt %d: %s: %s",
            claim.scheduled.name,
            claim.workflow_id,
            number,
            erred.failure.type,
            erred.failure.message,
            extra={
                "workflow_id": claim.workflow_id,
                "run_id": claim.run_id,
                "activity": claim.scheduled.name,
                "attempt": number,
            },
        )
