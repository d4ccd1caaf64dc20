"""A frontend for those who have a codec: what goes to the engine is encoded on the way, what comes back decoded. Both edges use it.

What a worker cannot decode it gives back, as it does with code it does not know: the run or activity waits for a worker that can, and
nothing of it fails. What it cannot encode fails where it was made.
"""

import logging
from asyncio import Future, get_running_loop
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from perdure.core.description import Description
from perdure.core.errors import CodecError
from perdure.core.failure import Failure
from perdure.core.payload import NULL
from perdure.core.queries import Passed, Query, QueryAnswer, QueryNotWanted, QueryReply, QueryTaken, Refused, TakeQuery
from perdure.core.replies import ActivityClaim, ActivityClaimed, NotWanted, Reported, RunResult, UpdateResult, WorkflowClaimed
from perdure.core.requests import (
    ActivityErred,
    AnyRequest,
    ClaimActivity,
    ClaimWorkflow,
    Commands,
    Fact,
    ReleaseActivity,
    ReleaseWorkflow,
    Report,
    ReportPart,
    StartWorkflow,
)
from perdure.ports import Answer, Deliver, Frontend, Record, RunFilter, RunPage, Subscription, TaskKind, WorkerIdentity
from perdure.sdk.codecs import PayloadCodec, codec_of
from perdure.sdk.encoding import Encoding
from perdure.sdk.intercepted import InterceptedFrontend

log = logging.getLogger(__name__)

TOLD_MAX: Final = 1_000
"""Runs remembered of which it was said that they cannot be decoded."""


def coded(frontend: Frontend, codec: object) -> Frontend:
    """The frontend, seen through a codec (in place of the one it is seen through already); with None the frontend itself."""
    if codec is None:
        return frontend
    while isinstance(frontend, (CodedFrontend, InterceptedFrontend)):
        frontend = frontend.inner
    return CodedFrontend(frontend, codec_of(codec))


def has_codec(frontend: Frontend) -> bool:
    """True when what it gives is decoded."""
    return isinstance(getattr(frontend, "codec", None), PayloadCodec)


class CodedFrontend:
    """Implements `ports.Frontend` over another one."""

    def __init__(self, inner: Frontend, codec: PayloadCodec) -> None:
        self.inner = inner
        self.codec = codec
        self.encoding = Encoding(codec)
        self.incarnation: str = getattr(inner, "incarnation", "")
        self._told: set[str] = set()
        self._unsent: dict[str, CodecError] = {}
        """Reports of which a part could not be encoded, by nonce: their last part, which follows at once, cannot be sent either."""

    # ------------------------------------------------------------------------------------------------------------ requests

    def send(self, request: AnyRequest, answer: Answer) -> None:
        if isinstance(request, StartWorkflow):
            request = replace(request, encoded=NULL)
        elif self._unsent and isinstance(request, Report) and request.nonce in self._unsent:
            self._not_encoded(request, answer, self._unsent.pop(request.nonce))
            return
        try:
            encoded = self.encoding.encoded(request)
        except CodecError as fault:
            self._not_encoded(request, answer, fault)
            return
        self.inner.send(encoded, partial(self._answered, request, answer))

    def call(self, request: AnyRequest) -> "Future[Any]":
        future: Future[Any] = get_running_loop().create_future()

        def answer(reply: Any, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(reply)
            else:
                future.set_exception(error)

        self.send(request, answer)
        return future

    def _answered(self, request: AnyRequest, answer: Answer, reply: Any, error: BaseException | None) -> None:
        if reply is None:
            answer(None, error)
            return
        try:
            decoded = self.encoding.decoded(reply)
        except CodecError as fault:
            self._not_decoded(request, answer, reply, fault)
            return
        answer(decoded, None)

    # ------------------------------------------------------------------------------------------------- what cannot be decoded

    def _not_decoded(self, request: AnyRequest, answer: Answer, reply: Any, fault: CodecError) -> None:
        """Give back what came with the reply."""
        if isinstance(reply, WorkflowClaimed) and isinstance(request, ClaimWorkflow):
            self._tell(request.run_id, request.workflow_id, fault)
            self._release(request, reply.token, request.build_id, fault)
            answer(NotWanted(reason=str(fault)), None)
        elif isinstance(reply, ActivityClaimed) and isinstance(request, ClaimActivity):
            self._tell(request.run_id, request.workflow_id, fault)
            self._release_activity(reply.claim)
            answer(NotWanted(reason=str(fault)), None)
        elif isinstance(reply, Reported) and isinstance(request, Report):
            self._tell(request.run_id, request.workflow_id, fault)
            if reply.token:
                self._release(request, reply.token, request.build_id, fault)
            for claim in reply.activities:
                self._release_activity(claim)
            answer(None, fault)
        else:
            answer(None, fault)

    def _release(self, of: ClaimWorkflow | Report, token: str, build_id: str, fault: CodecError) -> None:
        request = ReleaseWorkflow(
            namespace=of.namespace,
            workflow_id=of.workflow_id,
            run_id=of.run_id,
            token=token,
            build_id=build_id,
            why="unknown_type",  # as with code it does not know: offered again after a pause, to whoever can
            reason=str(fault),
        )
        self.inner.send(request, _ignore)

    def _release_activity(self, claim: ActivityClaim) -> None:
        request = ReleaseActivity(
            namespace=claim.namespace,
            workflow_id=claim.workflow_id,
            run_id=claim.run_id,
            command=claim.scheduled.id,
            attempt=claim.attempt,
            token=claim.token,
        )
        self.inner.send(request, _ignore)

    def _tell(self, run_id: str, workflow_id: str, fault: CodecError) -> None:
        if run_id in self._told:
            return
        if len(self._told) >= TOLD_MAX:
            self._told.clear()
        self._told.add(run_id)
        log.warning("workflow %r (run %s) waits for a worker that can decode it: %s", workflow_id, run_id, fault)

    # ------------------------------------------------------------------------------------------------- what cannot be encoded

    def _not_encoded(self, request: AnyRequest, answer: Answer, fault: CodecError) -> None:
        """A client hears it, and a worker of a report: it tells its facts again, each alone. One whose result is at fault has then failed."""
        if isinstance(request, ReportPart):
            self._unsent[request.nonce] = fault
        elif isinstance(request, Report):
            if not request.based_on:  # a fact told alone
                steps = tuple(step if isinstance(step, Commands) else self._fact(step, fault) for step in request.steps)
                self.inner.send(replace(request, steps=steps), answer)
                return
            log.warning("what workflow %r asks for cannot be reported: %s", request.workflow_id, fault)
            if request.token:
                self._release(request, request.token, request.build_id, fault)
        answer(None, fault)

    def _fact(self, fact: Fact, fault: CodecError) -> Fact:
        try:
            return self.encoding.encoded(fact)
        except CodecError:
            failure = Failure(
                type=type(fault).__name__, message="what the attempt gave cannot be encoded; its worker's log says why"
            )
            return ActivityErred(command=fact.command, attempt=fact.attempt, token=fact.token, failure=failure)

    # ------------------------------------------------------------------------------------------------------------- queries

    async def query(self, query: Query) -> QueryReply:
        return self.encoding.decoded(await self.inner.query(self.encoding.encoded(query)))

    def take_query(self, request: TakeQuery, answer: Answer) -> None:
        self.inner.take_query(request, partial(self._taken, answer))

    def _taken(self, answer: Answer, reply: Any, error: BaseException | None) -> None:
        if not isinstance(reply, QueryTaken):
            answer(reply, error)
            return
        try:
            reply = self.encoding.decoded(reply)
        except CodecError as fault:
            self.inner.answer_query(Passed(query_id=reply.query_id, run_id=reply.run_id, reason=str(fault)))
            answer(QueryNotWanted(), None)
            return
        answer(reply, None)

    def answer_query(self, answer: QueryAnswer) -> None:
        try:
            answer = self.encoding.encoded(answer)
        except CodecError as fault:
            answer = Refused(query_id=answer.query_id, run_id=answer.run_id, code=fault.code, message=str(fault))
        self.inner.answer_query(answer)

    # ------------------------------------------------------------------------------------------------------------- reading

    def subscribe(self, queue: str, kind: TaskKind, worker: WorkerIdentity, deliver: Deliver, credits: int) -> Subscription:
        return self.inner.subscribe(queue, kind, worker, deliver, credits)

    async def result(self, namespace: str, workflow_id: str, run_id: str = "", *, follow: bool = True) -> RunResult:
        return self.encoding.decoded(await self.inner.result(namespace, workflow_id, run_id, follow=follow))

    async def update_result(self, namespace: str, workflow_id: str, run_id: str, update_id: str) -> UpdateResult:
        return self.encoding.decoded(await self.inner.update_result(namespace, workflow_id, run_id, update_id))

    async def record(self, namespace: str, workflow_id: str, run_id: str = "") -> Record:
        return self.encoding.decoded(await self.inner.record(namespace, workflow_id, run_id))

    async def describe(self, namespace: str, workflow_id: str, run_id: str = "") -> Description:
        return self.encoding.decoded(await self.inner.describe(namespace, workflow_id, run_id))

    async def runs(self, filter: RunFilter, limit: int, cursor: str = "") -> RunPage:
        return await self.inner.runs(filter, limit, cursor)

    async def count(self, filter: RunFilter) -> int:
        return await self.inner.count(filter)

    def now(self) -> int:
        return self.inner.now()


def _ignore(_reply: Any, _error: BaseException | None) -> None:
    """Nobody waits for it: what was not heard is found by the engine."""
