"""`ports.Frontend` over the wire: for clients and workers in other processes than the node's, who cannot tell it from the engine's own.

Nothing is asked twice by whoever uses it and nothing is polled: what is unanswered when a connection goes is asked again on the next.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any, Final, get_args

from msgspec import Raw, json

from perdure.core.description import Description
from perdure.core.errors import NotFound, PerdureError
from perdure.core.limits import Limits
from perdure.core.queries import Query, QueryAnswer, QueryNotWanted, QueryReply, QueryTaken, TakeQuery
from perdure.core.replies import RunResult, Taken, UpdateResult
from perdure.core.requests import AnyRequest, FinishActivity, HeartbeatActivity, WorkerRequest
from perdure.ports import Answer, Chance, Clock, Deliver, Record, RunFilter, RunPage, Subscription, TaskKind, WorkerIdentity
from perdure.wire import messages as ms
from perdure.wire.address import Address
from perdure.wire.asked import FOR_EVER, NONE
from perdure.wire.asker import Asker
from perdure.wire.beats import Beats
from perdure.wire.claims_held import ClaimsHeld
from perdure.wire.doubt import has_told
from perdure.wire.lines import Lines

PATIENCE_S: Final = 30.0
"""So long may a request or a look at something wait for a node that is not there; then it fails with `Unavailable`."""

_WORKER: Final = frozenset(get_args(WorkerRequest)) - {HeartbeatActivity}

_query_reply: Final = json.Decoder(QueryReply).decode
_query_taken: Final = json.Decoder(QueryTaken | None).decode
_result: Final = json.Decoder(RunResult).decode
_update_result: Final = json.Decoder(UpdateResult).decode
_description: Final = json.Decoder(Description).decode
_page: Final = json.Decoder(RunPage).decode
_count: Final = json.Decoder(int).decode
_part: Final = json.Decoder(ms.RecordPart).decode
_nothing: Final = json.Decoder(None).decode


class RemoteFrontend:
    """Use it with `open` and `close`."""

    def __init__(self, address: Address, api_key: str | None, clock: Clock, chance: Chance) -> None:
        self._lines = Lines(self._say)
        self.asker = Asker(
            address,
            api_key,
            clock,
            chance,
            opening=self._lines.opening,
            heard=self._lines.heard,
            workers=self._lines.workers,
        )
        self.result_patience_s = FOR_EVER
        """So long may a wait for a result or an update outlast its node."""
        self.claims = ClaimsHeld()
        self._beats = Beats(self.asker, self.claims, self._lines.notify)
        self.now: Callable[[], int] = self.asker.time.now

    async def open(self, timeout: float) -> None:
        """Connect. Raises `Unavailable` when no node has answered for `timeout` seconds, or what the node's gate says."""
        await self.asker.open(timeout)

    async def close(self) -> None:
        """Leave. What is unanswered fails with `Unavailable`. Idempotent."""
        self._beats.stop()
        await self.asker.close()

    @property
    def limits(self) -> Limits:
        """The node's."""
        return self.asker.limits

    def _say(self, message: ms.Message) -> None:
        self.asker.say(message)

    # ------------------------------------------------------------------------------------------------------------ requests

    def send(self, request: AnyRequest, answer: Answer) -> None:
        if type(request) in _WORKER:
            self.claims.asked(request)
            self.asker.ask(
                ms.AskCall,
                partial(self._told, request, answer),
                patience=FOR_EVER,
                may_fail=False,
                request=request,
            )
        elif isinstance(request, FinishActivity):
            self.asker.ask(
                ms.AskCall, answer, patience=PATIENCE_S, doubt=partial(self._doubt, request, answer), request=request
            )
        else:
            self.asker.ask(ms.AskCall, answer, patience=PATIENCE_S, request=request)

    def _doubt(self, request: FinishActivity, answer: Answer, error: PerdureError) -> None:
        """A completion was told again. When its token is not known, the history says whether that is its own doing."""
        if not isinstance(error, NotFound):
            answer(None, error)
            return

        def looked(parts: list[ms.RecordPart] | None, _error: BaseException | None) -> None:
            entries = chain.from_iterable((*part.events, *part.notes) for part in parts or ())
            if has_told(request, entries):
                answer(Taken(run_id=request.run_id, duplicate=True), None)
            else:
                answer(None, error)

        self.asker.ask(
            ms.AskRecord,
            looked,
            _part,
            patience=PATIENCE_S,
            namespace=request.namespace,
            workflow_id=request.workflow_id,
            run_id=request.run_id,
        )

    def _told(self, request: AnyRequest, answer: Answer, reply: Any, error: BaseException | None) -> None:
        """A worker hears of its request, after the book of its claims."""
        self.claims.answered(request, reply, error)
        if self.claims:
            self._beats.begin()
        answer(reply, error)

    def call(self, request: AnyRequest) -> "asyncio.Future[Any]":
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.send(request, partial(_settle, future))
        return future

    def subscribe(self, queue: str, kind: TaskKind, worker: WorkerIdentity, deliver: Deliver, credits: int) -> Subscription:
        return self._lines.subscribe(queue, kind, worker, deliver, credits)

    def take_query(self, request: TakeQuery, answer: Answer) -> None:
        self.asker.ask(ms.AskTakeQuery, partial(_taken, answer), _query_taken, patience=NONE, take=request)

    def answer_query(self, answer: QueryAnswer) -> None:
        self.asker.ask(ms.AskAnswerQuery, _ignore, _nothing, patience=FOR_EVER, may_fail=False, answer=answer)

    # -------------------------------------------------------------------------------------------------------------- reading

    async def _read(self, make: Callable[..., ms.Ask], read: Callable[[Raw], Any], *, patience: float, **fields: Any) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        number = self.asker.ask(make, partial(_settle, future), read, patience=patience, **fields)
        try:
            return await future
        except asyncio.CancelledError:
            self.asker.forget(number)
            raise

    async def result(self, namespace: str, workflow_id: str, run_id: str = "", *, follow: bool = True) -> RunResult:
        found: RunResult = await self._read(
            ms.AskResult,
            _result,
            patience=self.result_patience_s,
            namespace=namespace,
            workflow_id=workflow_id,
            run_id=run_id,
            follow=follow,
        )
        return found

    async def update_result(self, namespace: str, workflow_id: str, run_id: str, update_id: str) -> UpdateResult:
        found: UpdateResult = await self._read(
            ms.AskUpdate,
            _update_result,
            patience=self.result_patience_s,
            namespace=namespace,
            workflow_id=workflow_id,
            run_id=run_id,
            update_id=update_id,
        )
        return found

    async def query(self, query: Query) -> QueryReply:
        patience = min(PATIENCE_S, query.timeout / 1_000_000)
        found: QueryReply = await self._read(ms.AskQuery, _query_reply, patience=patience, query=query)
        return found

    async def record(self, namespace: str, workflow_id: str, run_id: str = "") -> Record:
        parts: list[ms.RecordPart] = await self._read(
            ms.AskRecord, _part, patience=PATIENCE_S, namespace=namespace, workflow_id=workflow_id, run_id=run_id
        )
        return Record(
            workflow_id=parts[-1].workflow_id,
            run_id=parts[-1].run_id,
            events=tuple(event for part in parts for event in part.events),
            notes=tuple(note for part in parts for note in part.notes),
            damage=parts[-1].damage,
        )

    async def describe(self, namespace: str, workflow_id: str, run_id: str = "") -> Description:
        found: Description = await self._read(
            ms.AskDescribe, _description, patience=PATIENCE_S, namespace=namespace, workflow_id=workflow_id, run_id=run_id
        )
        return found

    async def runs(self, filter: RunFilter, limit: int, cursor: str = "") -> RunPage:
        found: RunPage = await self._read(ms.AskRuns, _page, patience=PATIENCE_S, filter=filter, limit=limit, cursor=cursor)
        return found

    async def count(self, filter: RunFilter) -> int:
        found: int = await self._read(ms.AskCount, _count, patience=PATIENCE_S, filter=filter)
        return found


def _settle(future: "asyncio.Future[Any]", reply: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(reply)
    else:
        future.set_exception(error)


def _taken(answer: Answer, taken: QueryTaken | None, error: BaseException | None) -> None:
    answer(QueryNotWanted() if taken is None and error is None else taken, error)


def _ignore(_reply: Any, _error: BaseException | None) -> None:
    """Nobody waits for it: an answer that was not heard is asked for again by the engine."""
