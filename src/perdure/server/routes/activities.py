"""Activities that are completed from outside, by whoever was handed their task token.

The token is a secret and stands in the body, never in a URL: those are logged.
"""

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, structs

from perdure.core.errors import ApplicationError, NotFound
from perdure.core.failure import Failure
from perdure.core.payload import ABSENT, NULL
from perdure.core.requests import FinishActivity, HeartbeatActivity
from perdure.ports import Frontend
from perdure.sdk import task_token
from perdure.sdk.failures import MESSAGE_CHARS_MAX, NAME_CHARS_MAX, PART_BYTES_MAX, to_failure
from perdure.sdk.payload_bound import limits_of
from perdure.server.arguments import payload, payloads
from perdure.server.parameters import Seconds
from perdure.server.route import Handler, HttpAnswer, HttpRequest, Route, answer, encode

if TYPE_CHECKING:
    from perdure.core.replies import Beaten

Token = Annotated[str, Meta(min_length=1, max_length=task_token.CHARS_MAX)]


class Completed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The activity's result."""

    task_token: Token
    """What `activity.info().task_token` gave."""
    result: Raw | UnsetType = UNSET


class Trouble(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What went wrong."""

    type: Annotated[str, Meta(max_length=NAME_CHARS_MAX)] = ""
    """What `Retry(non_retryable=…)` is compared with, and the `type` of the `ApplicationError` the workflow sees. Empty: that class's name."""
    message: Annotated[str, Meta(max_length=MESSAGE_CHARS_MAX)] = ""
    details: Raw | UnsetType = UNSET
    """Anything more there is to say."""
    non_retryable: bool = False
    next_retry_delay: Seconds | None = None
    """Instead of the delay the retry policy gives."""


class Failed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why the attempt failed."""

    task_token: Token
    failure: Trouble = Trouble()
    cancelled: bool = False
    """It ended because its cancel was asked for."""


class Beat(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sign of life."""

    task_token: Token
    details: list[Raw] | None = None
    """Kept for the next attempt; null: those before stay."""


class Finished(Struct, frozen=True, kw_only=True):
    """It is written down."""

    workflow_id: str
    run_id: str


class Heard(Struct, frozen=True, kw_only=True):
    """`cancel_requested`: stop, and say so with `cancelled`."""

    cancel_requested: bool


class Activities:
    """Routes that need a task token and nothing else."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self._payload_bytes_max = limits_of(frontend).payload_bytes_max

    def table(self) -> tuple[Route, ...]:
        """The routes."""
        return (
            _route("complete", "Complete an activity from outside", self.complete, Completed, Finished),
            _route(
                "fail",
                "Fail an attempt from outside: its retry policy says whether there is another",
                self.fail,
                Failed,
                Finished,
            ),
            _route("heartbeat", "Say that an attempt goes on", self.heartbeat, Beat, Heard),
        )

    async def complete(self, request: HttpRequest) -> HttpAnswer:
        body: Completed = request.body
        result = NULL if body.result is UNSET else payload(body.result, "result", self._payload_bytes_max)
        return await self._finish(FinishActivity(**_claim_of(body.task_token), result=result))

    async def fail(self, request: HttpRequest) -> HttpAnswer:
        body: Failed = request.body
        failure = _failure(body.failure)
        return await self._finish(FinishActivity(**_claim_of(body.task_token), failure=failure, cancelled=body.cancelled))

    async def _finish(self, request: FinishActivity) -> HttpAnswer:
        await self._frontend.call(request)
        return answer(Finished(workflow_id=request.workflow_id, run_id=request.run_id))

    async def heartbeat(self, request: HttpRequest) -> HttpAnswer:
        body: Beat = request.body
        details = ABSENT
        if body.details is not None:
            details = payload(
                Raw(encode(payloads(body.details, "details", self._payload_bytes_max))), "details", self._payload_bytes_max
            )
        beaten: Beaten = await self._frontend.call(HeartbeatActivity(**_claim_of(body.task_token), details=details))
        if not beaten.wanted:
            raise NotFound("the task token names a claim that is gone: it was used, or the attempt has ended otherwise")
        return answer(Heard(cancel_requested=beaten.cancelled))


def _claim_of(text: str) -> dict[str, Any]:
    return structs.asdict(task_token.read(text))


def _failure(trouble: Trouble) -> Failure:
    """An `ApplicationError` as data, as a worker would report it."""
    raised = ApplicationError(
        trouble.message,
        type=trouble.type or None,
        non_retryable=trouble.non_retryable,
        next_retry_delay=trouble.next_retry_delay,
    )
    failure = to_failure(raised)
    if trouble.details is UNSET:
        return failure
    return structs.replace(failure, details=payload(trouble.details, "failure.details", PART_BYTES_MAX))


def _route(verb: str, summary: str, handler: Handler, body: type[Struct], found: type[Struct]) -> Route:
    return Route(
        method="POST",
        path=f"/api/v1/activities/{verb}",
        name=f"{verb}_activity",
        summary=summary,
        tag="Activities",
        permission="operate",
        handler=handler,
        body=body,
        answers={200: found},
        errors=("NOT_FOUND", "LIMIT_EXCEEDED", "HISTORY_DAMAGED"),
    )
