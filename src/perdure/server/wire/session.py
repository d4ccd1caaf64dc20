"""An asker as a node knows it, over any number of its connections: what it has asked, what it was answered, its workers.

A request asked again, because its answer was lost with a connection, is not carried out again: the answer is kept until it is acknowledged.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import MsgspecError
from msgspec.structs import force_setattr

from perdure.core import requests as rq
from perdure.core.errors import InvalidArgument, LimitExceeded, PerdureError, PermissionDenied, ResourceExhausted
from perdure.core.payload import NULL
from perdure.core.principal import Principal
from perdure.core.queries import TakeQuery
from perdure.ports import Frontend
from perdure.runtime.wire_limits import WireLimits
from perdure.server.wire.report_door import check_fields, check_name, check_report, check_steps
from perdure.server.wire.worker import RemoteWorker
from perdure.wire.arrivals import Arrivals
from perdure.wire.faults import fault_of
from perdure.wire.frames import Outbox, text_of
from perdure.wire.messages import AskAnswerQuery, AskCall, Failed, Found, Head, Message, Replied, Subscribe

if TYPE_CHECKING:
    from perdure.server.wire.connection import Connection

_TOKENS: Final = frozenset({rq.HeartbeatActivity, rq.FinishActivity})
"""By right of a task token: for clients and workers."""
_WORK: Final = frozenset({*rq.WorkerRequest.__args__}) - _TOKENS
_NAMED: Final = frozenset({rq.ClaimWorkflow, rq.ClaimActivity, rq.Report})
"""Requests that say which worker sends them."""

log: Final = logging.getLogger(__name__)


class Session:
    """`own(name, session)` raises when a worker's name belongs to another session; with None the name is free again."""

    def __init__(
        self,
        id: str,
        principal: Principal,
        frontend: Frontend,
        limits: WireLimits,
        lives_for: int,
        own: Callable[[str, "Session | None"], None],
    ) -> None:
        self.id = id
        self.principal = principal
        self.arrivals = Arrivals()
        self.outbox = Outbox()
        self.workers: dict[str, RemoteWorker] = {}
        self.connection: Connection | None = None
        self.heard_at = 0.0
        """When it was last passed on that its workers are alive."""
        self.is_over = False
        self._frontend = frontend
        self._limits = limits
        self._lives_for = lives_for
        self._own = own
        self._may_operate = principal.may("operate")
        self._may_work = principal.may("work")
        self._calls: dict[int, bytes | None] = {}
        """Requests by their ask's number: the answer, until it is acknowledged; None while it is not there."""
        self.unanswered = 0
        """Requests under way."""
        self._kept = 0
        self._sent: deque[tuple[int, list[int]]] = deque()
        """Frames not acknowledged, with the asks that were answered in them."""
        self._n = 0
        self._lines: dict[int, RemoteWorker] = {}
        self._losing: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------------------------------------------------- connections

    def attach(self, connection: "Connection", ack: int) -> None:
        """It has a connection again: what it has not received goes out on that."""
        self.acknowledged(ack)
        self.connection = connection
        for worker in self.workers.values():
            worker.offer_again()
        self._sent.clear()
        self.outbox.clear()

    def resume(self) -> None:
        """Answer what was answered and not received."""
        for number, text in self._calls.items():
            if text is not None:
                self.outbox.add(text, number)

    def detach(self, connection: "Connection") -> None:
        """A connection is gone: nothing is handed to its workers, and if they are not back in a moment, they are lost."""
        if self.connection is not connection:
            return
        self.connection = None
        self._lines.clear()
        for worker in self.workers.values():
            worker.pause()
        self.outbox.clear()
        if self.workers and not self.is_over and self._losing is None:
            self._losing = asyncio.get_running_loop().call_later(self._limits.lost_after_s, self._lose)

    def _lose(self) -> None:
        self._losing = None
        for worker in self.workers.values():
            worker.lose(lost=self.connection is None)

    def end(self) -> None:
        """It will not be heard of again."""
        self.is_over = True
        if self._losing is not None:
            self._losing.cancel()
        self._lose()

    def acknowledged(self, ack: int) -> None:
        """Every frame up to `ack` has arrived."""
        sent, calls = self._sent, self._calls
        while sent and sent[0][0] <= ack:
            for number in sent.popleft()[1]:
                text = calls.pop(number, None)
                if text is not None:
                    self._kept -= len(text)

    def frame(self, now: int) -> bytes:
        """The next frame to send."""
        self._n += 1
        data, asks = self.outbox.take(Head(n=self._n, ack=self.arrivals.ack, now=now))
        if asks:
            self._sent.append((self._n, asks))
        return data

    def say(self, message: Message) -> None:
        """Say something that is lost with the connection."""
        if self.connection is not None:
            self.outbox.add(text_of(message))
            self.connection.wake()

    # ---------------------------------------------------------------------------------------------------------- requests

    def call(self, ask: AskCall | AskAnswerQuery) -> None:
        """Carry out a request, once; `Failed` when it may not be."""
        number = ask.id
        if number in self._calls:
            return  # its answer is under way, or on its way
        if len(self._calls) >= self._limits.asks_max:
            self.say(Failed(id=number, error=fault_of(_too_many(self._limits))))
            return
        self._calls[number] = None
        self.unanswered += 1
        try:
            if isinstance(ask, AskAnswerQuery):
                self.principal.require("work")
                self._frontend.answer_query(ask.answer)
                self._answered(number, None, None)
            else:
                self._check(ask.request)
                self._frontend.send(ask.request, partial(self._answered, number))
        except PerdureError as error:
            self._answered(number, None, error)
        except Exception as error:
            log.exception("taking a request failed")
            self._answered(number, None, error)

    def _check(self, request: Any) -> None:
        """Raise unless this asker may say that; what only the node may fill in is filled in here."""
        kind: type[object] = request.__class__
        if kind in _WORK:
            if not self._may_work:
                self.principal.require("work")
            if kind in _NAMED:
                self._check_named(kind, request)
            elif kind is rq.ReportPart:
                check_steps(request.steps)
        elif not self._may_operate and not (kind in _TOKENS and self._may_work):
            self.principal.require("operate")
        elif kind is rq.StartWorkflow and request.parent is not None:
            force_setattr(request, "parent", None)
        elif kind is rq.HeartbeatActivity and request.worker:
            force_setattr(request, "worker", "")

    def _check_named(self, kind: type, request: Any) -> None:
        worker = self.workers.get(request.worker)
        if worker is None:
            raise _stranger(request.worker)
        if kind is rq.Report:
            check_report(request)
        else:
            check_fields(request)
        if kind is rq.ClaimActivity:
            worker.claimed(request.run_id, request.command)
            force_setattr(request, "incarnation", "")
        else:
            worker.claimed(request.run_id)
            if request.waiting:
                force_setattr(request, "waiting", ())
            if kind is rq.Report and request.incarnation:
                force_setattr(request, "incarnation", "")
        force_setattr(request, "lives_for", self._lives_for)

    def _answered(self, number: int, reply: Any, error: BaseException | None) -> None:
        try:
            text = text_of(_answer(number, reply, error))
        except (MsgspecError, ValueError, TypeError) as unwritable:
            text = text_of(Failed(id=number, error=fault_of(InvalidArgument(f"the answer cannot be written: {unwritable}"))))
        if self.is_over:
            return
        self._calls[number] = text
        self.unanswered -= 1
        self._kept += len(text)
        connection = self.connection
        if connection is not None:
            self.outbox.add(text, number)
            connection.wake()
            if self._kept - self.outbox.size > self._limits.kept_bytes_max:
                connection.drop("answers are not acknowledged (wire.kept_bytes_max)")

    # ----------------------------------------------------------------------------------------------------------- workers

    def add_worker(self, name: str) -> RemoteWorker:
        """The worker of that name, which speaks through this session. Raises `PermissionDenied` when it is another one's."""
        worker = self.workers.get(name)
        if worker is not None:
            return worker
        self.principal.require("work")
        if len(self.workers) >= self._limits.workers_max:
            self._forget_one_that_left()
        if len(self.workers) >= self._limits.workers_max:
            raise LimitExceeded(f"{self._limits.workers_max} workers speak through one connection (wire.workers_max)")
        check_name("the worker's name", name)
        self._own(name, self)
        worker = self.workers[name] = RemoteWorker(name, self._frontend, self.say, self._limits.unclaimed_max)
        return worker

    def _forget_one_that_left(self) -> None:
        """Of the workers that take no tasks any more, the oldest has told all it had to tell by now."""
        for name, worker in self.workers.items():
            if not worker.queues:
                del self.workers[name]
                self._own(name, None)
                return

    def subscribe(self, message: Subscribe) -> None:
        """Raises what makes a subscription impossible."""
        if message.line in self._lines:
            return  # said twice
        if len(self._lines) >= self._limits.subscriptions_max:
            raise LimitExceeded(f"{self._limits.subscriptions_max} subscriptions of one connection (wire.subscriptions_max)")
        check_name("the queue", message.queue)
        if message.worker.build_id:
            check_name("the build id", message.worker.build_id)
        force_setattr(message.worker, "incarnation", "")
        worker = self.add_worker(message.worker.worker)
        self.heard_at = 0.0  # that it is here is passed on at once
        worker.subscribe(message)
        self._lines[message.line] = worker

    def takes(self, query: TakeQuery) -> None:
        """One of its workers takes a query it was handed. Raises `PermissionDenied` when it is no worker of this session."""
        worker = self.workers.get(query.worker)
        if worker is None:
            raise _stranger(query.worker)
        worker.claimed(query.query_id)

    def grant(self, line: int, credits: int) -> None:
        worker = self._lines.get(line)
        if worker is not None:
            worker.grant(line, credits)

    def unsubscribe(self, line: int) -> None:
        worker = self._lines.pop(line, None)
        if worker is not None:
            worker.unsubscribe(line)


def _answer(number: int, reply: Any, error: BaseException | None) -> Message:
    if error is not None:
        return Failed(id=number, error=fault_of(error))
    return Replied(id=number, reply=reply) if reply is not None else Found(id=number, ok=NULL)


def _stranger(worker: str) -> PermissionDenied:
    return PermissionDenied(f"worker {worker!r} does not speak through this connection")


def _too_many(limits: WireLimits) -> ResourceExhausted:
    return ResourceExhausted(f"{limits.asks_max:,} asks of this connection are unanswered (wire.asks_max)", retry_after=1.0)
