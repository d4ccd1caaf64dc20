"""A frontend for a client with interceptors: its calls pass them on the way to the engine. All else goes straight through."""

from asyncio import Future, get_running_loop
from typing import Any, Final

from msgspec.structs import replace

from perdure.core import requests as rq
from perdure.core.description import Description
from perdure.core.payload import Payload
from perdure.core.queries import Query, QueryAnswer, QueryReply, TakeQuery
from perdure.core.replies import RunResult, UpdateResult
from perdure.ports import Answer, Deliver, Frontend, Record, RunFilter, RunPage, Subscription, TaskKind, WorkerIdentity
from perdure.sdk.interceptors import Around, ClientCall, ClientCallKind, around_calls, interceptors_of
from perdure.sdk.payloads import CONVERTER

_KINDS: Final[dict[type, ClientCallKind]] = {
    rq.StartWorkflow: "start",
    rq.SignalWorkflow: "signal",
    rq.UpdateWorkflow: "update",
    rq.RequestCancel: "cancel",
    rq.TerminateWorkflow: "terminate",
    rq.PauseWorkflow: "pause",
    rq.ResumeWorkflow: "resume",
    rq.ResetWorkflow: "reset",
    rq.FinishActivity: "complete_activity",
}


def intercepted(frontend: Frontend, interceptors: object) -> Frontend:
    """The frontend, seen through interceptors; the frontend itself where none stands around client calls."""
    around = around_calls(interceptors_of(interceptors))
    return frontend if around is None else InterceptedFrontend(frontend, around)


class InterceptedFrontend:
    """Implements `ports.Frontend` over another one."""

    def __init__(self, inner: Frontend, around: Around[ClientCall]) -> None:
        self.inner = inner
        self.incarnation: str = getattr(inner, "incarnation", "")
        self.codec: object = getattr(inner, "codec", None)
        self._around = around

    def call(self, request: rq.AnyRequest) -> "Future[Any]":
        kind = _KINDS.get(type(request))
        if kind is None:
            return self.inner.call(request)
        return get_running_loop().create_task(self._call(kind, request), name=f"perdure {kind}")

    async def _call(self, kind: ClientCallKind, request: Any) -> Any:
        call = _call_of(kind, request)
        memo = dict(call.memo)

        async def innermost(call: ClientCall) -> Any:
            told = request
            if isinstance(told, rq.StartWorkflow) and call.memo != memo:
                told = replace(told, memo=_encoded(call.memo))
            return await self.inner.call(told)

        return await self._around(call, innermost)

    async def query(self, query: Query) -> QueryReply:
        async def innermost(_call: ClientCall) -> Any:
            return await self.inner.query(query)

        reply: QueryReply = await self._around(_call_of("query", query), innermost)
        return reply

    async def result(self, namespace: str, workflow_id: str, run_id: str = "", *, follow: bool = True) -> RunResult:
        async def innermost(_call: ClientCall) -> Any:
            return await self.inner.result(namespace, workflow_id, run_id, follow=follow)

        found: RunResult = await self._around(ClientCall(kind="result", workflow_id=workflow_id, run_id=run_id), innermost)
        return found

    # --------------------------------------------------------------------------------------------------------- straight through

    def send(self, request: rq.AnyRequest, answer: Answer) -> None:
        self.inner.send(request, answer)

    def subscribe(self, queue: str, kind: TaskKind, worker: WorkerIdentity, deliver: Deliver, credits: int) -> Subscription:
        return self.inner.subscribe(queue, kind, worker, deliver, credits)

    def take_query(self, request: TakeQuery, answer: Answer) -> None:
        self.inner.take_query(request, answer)

    def answer_query(self, answer: QueryAnswer) -> None:
        self.inner.answer_query(answer)

    async def update_result(self, namespace: str, workflow_id: str, run_id: str, update_id: str) -> UpdateResult:
        return await self.inner.update_result(namespace, workflow_id, run_id, update_id)

    async def record(self, namespace: str, workflow_id: str, run_id: str = "") -> Record:
        return await self.inner.record(namespace, workflow_id, run_id)

    async def describe(self, namespace: str, workflow_id: str, run_id: str = "") -> Description:
        return await self.inner.describe(namespace, workflow_id, run_id)

    async def runs(self, filter: RunFilter, limit: int, cursor: str = "") -> RunPage:
        return await self.inner.runs(filter, limit, cursor)

    async def count(self, filter: RunFilter) -> int:
        return await self.inner.count(filter)

    def now(self) -> int:
        return self.inner.now()


def _call_of(kind: ClientCallKind, request: Any) -> ClientCall:
    said = request.signal if isinstance(request, rq.SignalWorkflow) else request
    if isinstance(request, rq.FinishActivity) and request.failure is not None:
        kind = "fail_activity"
    return ClientCall(
        kind=kind,
        workflow_id=request.workflow_id,
        run_id=request.run_id,
        name=said.workflow_type if isinstance(said, rq.StartWorkflow) else getattr(said, "name", ""),
        args=tuple(map(_value, getattr(said, "input", ()))),
        kwargs=_values(getattr(said, "keywords", {})),
        memo=_values(getattr(request, "memo", {})),
    )


def _value(payload: Payload) -> Any:
    return CONVERTER.decode(payload, Any)


def _values(payloads: dict[str, Payload]) -> dict[str, Any]:
    return {name: _value(payload) for name, payload in payloads.items()}


def _encoded(memo: dict[str, Any]) -> dict[str, Payload]:
    return {name: CONVERTER.encode(value, f"memo[{name!r}]") for name, value in memo.items()}
