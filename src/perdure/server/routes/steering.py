"""Steering a run from outside: cancel, terminate, pause, resume, reset."""

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from perdure.core.requests import (
    AnyRequest,
    PauseWorkflow,
    RequestCancel,
    ResetWorkflow,
    ResumeWorkflow,
    TerminateWorkflow,
)
from perdure.ports import Chance, Frontend
from perdure.server.parameters import Reason, Reasoned, RunQuery
from perdure.server.route import Handler, HttpAnswer, HttpRequest, Route, answer
from perdure.server.routes.starting import idempotency_key

if TYPE_CHECKING:
    from perdure.core.replies import RunStarted, Taken


class Reset(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Begin a new run from the history of this one."""

    event_id: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    """The last event the new run takes over."""
    reason: Reason = ""


class Steered(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """It is written down. `duplicate`: it was before, under the same Idempotency-Key."""

    workflow_id: str
    run_id: str
    duplicate: bool = False


class ResetAnswer(Struct, frozen=True, kw_only=True):
    """The new run."""

    workflow_id: str
    run_id: str


class Steering:
    """Routes that say what is to become of a run."""

    def __init__(self, frontend: Frontend, chance: Chance) -> None:
        self._frontend = frontend
        self._chance = chance

    def table(self) -> tuple[Route, ...]:
        """The routes."""
        return (
            _route("cancel", "Ask a run to stop: its code may clean up", self.cancel, has_key=True),
            _route("terminate", "End a run now: its code gets no chance to clean up", self.terminate, has_key=True),
            _route("pause", "Hold a run where it is until it is resumed", self.pause),
            _route("resume", "End a pause, or take a run out of quarantine", self.resume),
            Route(
                method="POST",
                path="/api/v1/workflows/{workflow_id}/reset",
                name="reset_workflow",
                summary="Begin a new run from a run's history",
                description="An open run ends terminated, its id goes on in the new run; a closed one stays as it is.",
                tag="Steering",
                permission="operate",
                handler=self.reset,
                query=RunQuery,
                body=Reset,
                answers={201: ResetAnswer},
                errors=("NOT_FOUND", "LIMIT_EXCEEDED", "HISTORY_DAMAGED"),
                takes_idempotency_key=True,
            ),
        )

    async def cancel(self, request: HttpRequest) -> HttpAnswer:
        query: RunQuery = request.query
        body: Reasoned = request.body
        return await self._steer(
            RequestCancel(
                namespace=query.namespace,
                workflow_id=request.path["workflow_id"],
                run_id=query.run_id,
                reason=body.reason,
                request_id=idempotency_key(request) or self._chance.token(),
            )
        )

    async def terminate(self, request: HttpRequest) -> HttpAnswer:
        query: RunQuery = request.query
        body: Reasoned = request.body
        return await self._steer(
            TerminateWorkflow(
                namespace=query.namespace,
                workflow_id=request.path["workflow_id"],
                run_id=query.run_id,
                reason=body.reason,
                request_id=idempotency_key(request) or self._chance.token(),
            )
        )

    async def pause(self, request: HttpRequest) -> HttpAnswer:
        query: RunQuery = request.query
        body: Reasoned = request.body
        workflow_id = request.path["workflow_id"]
        return await self._steer(
            PauseWorkflow(namespace=query.namespace, workflow_id=workflow_id, run_id=query.run_id, reason=body.reason)
        )

    async def resume(self, request: HttpRequest) -> HttpAnswer:
        query: RunQuery = request.query
        body: Reasoned = request.body
        workflow_id = request.path["workflow_id"]
        return await self._steer(
            ResumeWorkflow(namespace=query.namespace, workflow_id=workflow_id, run_id=query.run_id, reason=body.reason)
        )

    async def _steer(self, request: AnyRequest) -> HttpAnswer:
        taken: Taken = await self._frontend.call(request)
        return answer(Steered(workflow_id=request.workflow_id, run_id=taken.run_id, duplicate=taken.duplicate))

    async def reset(self, request: HttpRequest) -> HttpAnswer:
        query: RunQuery = request.query
        body: Reset = request.body
        workflow_id = request.path["workflow_id"]
        started: RunStarted = await self._frontend.call(
            ResetWorkflow(
                namespace=query.namespace,
                workflow_id=workflow_id,
                run_id=query.run_id,
                event_id=body.event_id,
                reason=body.reason,
                request_id=idempotency_key(request) or self._chance.token(),
                new_run_id=self._chance.run_id(),
                seed=self._chance.seed(),
            )
        )
        return answer(ResetAnswer(workflow_id=workflow_id, run_id=started.run_id), 201)


def _route(verb: str, summary: str, handler: Handler, *, has_key: bool = False) -> Route:
    return Route(
        method="POST",
        path=f"/api/v1/workflows/{{workflow_id}}/{verb}",
        name=f"{verb}_workflow",
        summary=summary,
        tag="Steering",
        permission="operate",
        handler=handler,
        query=RunQuery,
        body=Reasoned,
        is_body_optional=True,
        answers={200: Steered},
        errors=("NOT_FOUND", "WORKFLOW_CLOSED", "HISTORY_DAMAGED"),
        takes_idempotency_key=has_key,
    )
