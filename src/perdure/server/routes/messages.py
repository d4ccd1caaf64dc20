"""What is said to a run's code: signals, queries, updates."""

from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from perdure.core.errors import InvalidArgument, NondeterminismError, PayloadTooLarge, PerdureError, Unavailable
from perdure.core.failure import Failure
from perdure.core.payload import NULL, Payload, is_absent
from perdure.core.queries import Query, QueryReply
from perdure.core.replies import UpdateResult, UpdateStatus
from perdure.core.requests import SignalBody, SignalWorkflow, UpdateWorkflow
from perdure.ports import Chance, Frontend
from perdure.runtime.http_limits import HttpLimits
from perdure.sdk.duration import length
from perdure.sdk.payload_bound import limits_of
from perdure.server.arguments import named_payloads, payload, payloads
from perdure.server.envelope import Refusal
from perdure.server.long_poll import LongPolls
from perdure.server.parameters import OptionalId, RunQuery, Wait
from perdure.server.route import HttpAnswer, HttpRequest, Route, answer
from perdure.server.routes.starting import idempotency_key
from perdure.server.run_view import failure_of

if TYPE_CHECKING:
    from perdure.core.replies import Taken

QUERY_S: Final = 10.0
"""So long may a query wait for a worker, unless it says otherwise."""
UPDATE_S: Final = 30.0
"""So long is an update waited for, unless it says otherwise."""


class Signal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A signal. The same `signal_id` to a workflow id is delivered once."""

    input: Raw | UnsetType = UNSET
    """Its value; without one it has none."""
    args: list[Raw] = []
    """Instead of `input`, for a handler with several parameters: their values, in order."""
    keywords: dict[str, Raw] = {}
    """Values by parameter name."""
    signal_id: OptionalId = ""
    """Empty: the Idempotency-Key, else a fresh one."""


class Asked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of a query."""

    input: list[Raw] = []
    keywords: dict[str, Raw] = {}
    timeout: Annotated[float, Meta(ge=0, le=60)] = QUERY_S
    """Seconds to wait for a worker."""


class Update(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An update. The same `update_id` to a workflow id is carried out once, and answered alike."""

    input: list[Raw] = []
    keywords: dict[str, Raw] = {}
    update_id: OptionalId = ""
    """Empty: the Idempotency-Key, else a fresh one."""


class UpdateQuery(RunQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which run, and how long the answer may take."""

    wait: Wait = UPDATE_S


class Delivered(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The signal is written down. `duplicate`: it was before."""

    workflow_id: str
    run_id: str
    duplicate: bool = False


class Answered(Struct, frozen=True, kw_only=True):
    """What the handler returned."""

    result: Raw


class UpdateStands(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The update has no answer yet: `waiting` until the run's code has taken it, then `accepted`. Ask again with the same `update_id`."""

    update_id: str
    status: UpdateStatus | str
    run_id: str = ""


class Messages:
    """Routes that speak to a run's code."""

    def __init__(self, frontend: Frontend, chance: Chance, polls: LongPolls, limits: HttpLimits) -> None:
        self._frontend = frontend
        self._chance = chance
        self._polls = polls
        self._wait_s_max = limits.wait_s_max
        self._payload_bytes_max = limits_of(frontend).payload_bytes_max

    def table(self) -> tuple[Route, ...]:
        """The routes."""
        return (
            Route(
                method="POST",
                path="/api/v1/workflows/{workflow_id}/signals/{name}",
                name="signal_workflow",
                summary="Send a signal",
                description="Answered when it is durable.",
                tag="Messages",
                permission="operate",
                handler=self.signal,
                query=RunQuery,
                body=Signal,
                is_body_optional=True,
                answers={200: Delivered},
                errors=("NOT_FOUND", "WORKFLOW_CLOSED", "LIMIT_EXCEEDED", "HISTORY_DAMAGED"),
                takes_idempotency_key=True,
            ),
            Route(
                method="POST",
                path="/api/v1/workflows/{workflow_id}/queries/{name}",
                name="query_workflow",
                summary="Ask a run, open or closed",
                description="What the handler raises is a 422 with `details.failure`; without a worker that answers in time it is a 503.",
                tag="Messages",
                permission="read",
                handler=self.query,
                query=RunQuery,
                body=Asked,
                is_body_optional=True,
                answers={200: Answered},
                errors=("NOT_FOUND", "APPLICATION_ERROR", "NONDETERMINISM", "HISTORY_DAMAGED"),
            ),
            Route(
                method="POST",
                path="/api/v1/workflows/{workflow_id}/updates/{name}",
                name="update_workflow",
                summary="Have a run do something, and get its answer",
                description="A validator's refusal and what the handler raises are a 422; `details.status` tells which. 202 when there is "
                "no answer within `wait` seconds.",
                tag="Messages",
                permission="operate",
                handler=self.update,
                query=UpdateQuery,
                body=Update,
                is_body_optional=True,
                answers={200: Answered, 202: UpdateStands},
                errors=(
                    "NOT_FOUND",
                    "WORKFLOW_CLOSED",
                    "APPLICATION_ERROR",
                    "NONDETERMINISM",
                    "LIMIT_EXCEEDED",
                    "HISTORY_DAMAGED",
                ),
                takes_idempotency_key=True,
            ),
        )

    async def signal(self, request: HttpRequest) -> HttpAnswer:
        query: RunQuery = request.query
        body: Signal = request.body
        workflow_id = request.path["workflow_id"]
        signal = SignalBody(
            name=request.path["name"],
            input=self._values(body),
            keywords=named_payloads(body.keywords, "keywords", self._payload_bytes_max),
            signal_id=body.signal_id or idempotency_key(request) or self._chance.token(),
        )
        taken: Taken = await self._frontend.call(
            SignalWorkflow(namespace=query.namespace, workflow_id=workflow_id, run_id=query.run_id, signal=signal)
        )
        return answer(Delivered(workflow_id=workflow_id, run_id=taken.run_id, duplicate=taken.duplicate))

    def _values(self, body: Signal) -> tuple[Payload, ...]:
        if body.input is UNSET:
            return payloads(body.args, "args", self._payload_bytes_max)
        if body.args:
            raise InvalidArgument("a signal has either input, its one value, or args, several")
        return (payload(body.input, "input", self._payload_bytes_max),)

    async def query(self, request: HttpRequest) -> HttpAnswer:
        room: RunQuery = request.query
        body: Asked = request.body
        query = Query(
            namespace=room.namespace,
            workflow_id=request.path["workflow_id"],
            run_id=room.run_id,
            name=request.path["name"],
            input=payloads(body.input, "input", self._payload_bytes_max),
            keywords=named_payloads(body.keywords, "keywords", self._payload_bytes_max),
            timeout=length(body.timeout, "timeout"),
        )
        # The engine gives up in time; this wait only ends sooner, when the caller leaves or the node stops.
        reply: QueryReply | None = await self._polls.wait(self._frontend.query(query), self._wait_s_max + 1, request.receive)
        if reply is None:
            raise Unavailable("the node is stopping; ask again when it is back")
        if reply.failure is not None:
            raise _raised(reply.failure, "failed")
        return answer(Answered(result=NULL if is_absent(reply.result) else reply.result))

    async def update(self, request: HttpRequest) -> HttpAnswer:
        query: UpdateQuery = request.query
        body: Update = request.body
        if query.wait > self._wait_s_max:
            raise InvalidArgument(f"query parameter 'wait' is at most {self._wait_s_max:g} seconds (http.wait_s_max)")
        update = UpdateWorkflow(
            namespace=query.namespace,
            workflow_id=request.path["workflow_id"],
            run_id=query.run_id,
            update_id=body.update_id or idempotency_key(request) or self._chance.token(),
            name=request.path["name"],
            input=payloads(body.input, "input", self._payload_bytes_max),
            keywords=named_payloads(body.keywords, "keywords", self._payload_bytes_max),
        )
        progress = _Progress(self._frontend, update)
        found = await self._polls.wait(progress.ended(), query.wait, request.receive)
        if found is None:
            stands = UpdateStands(update_id=update.update_id, status=progress.status, run_id=progress.run_id)
            return answer(stands, 202)
        if found.failure is not None:
            raise _raised(found.failure, found.status, update_id=found.update_id)
        return answer(Answered(result=NULL if is_absent(found.result) else found.result))


class _Progress:
    """How far an update has come, for whoever gives up the wait."""

    def __init__(self, frontend: Frontend, update: UpdateWorkflow) -> None:
        self._frontend = frontend
        self._update = update
        self.status = "waiting"
        self.run_id = ""

    async def ended(self) -> UpdateResult:
        update = self._update
        found: UpdateResult = await self._frontend.call(update)
        if found.status != "accepted":
            return found
        self.status, self.run_id = "accepted", found.run_id
        return await self._frontend.update_result(update.namespace, update.workflow_id, found.run_id, found.update_id)


_PASSED_ON: Final[dict[str, type[PerdureError]]] = {
    kind.__name__: kind for kind in (InvalidArgument, PayloadTooLarge, NondeterminismError)
}
"""Errors that say of the request itself what is wrong with it; anything else that was raised is the application's own."""


def _raised(failure: Failure, status: str, **about: Any) -> Refusal:
    """What user code raised, as an answer: its class, message and causes are in `details.failure`."""
    own = _PASSED_ON.get(failure.type) if failure.module == "perdure.core.errors" else None
    message = f"{failure.type}: {failure.message}" if failure.message else failure.type
    code = "APPLICATION_ERROR" if own is None else own.code
    return Refusal(code, message, details={"status": status, **about, "failure": failure_of(failure)})
