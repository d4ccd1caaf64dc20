"""Where a run stands: what `perdure workflow stack` prints, read off the history alone. Changes nothing, asks no worker."""

from datetime import datetime

from msgspec import Struct

from perdure.core.replies import Status
from perdure.ports import Frontend
from perdure.sdk.stack import stack_of
from perdure.sdk.views import view_of
from perdure.server.parameters import RunQuery
from perdure.server.route import HttpAnswer, HttpRequest, Route, answer
from perdure.server.run_view import PendingView, pending_of, when


class StackView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run waits for, as of event `covered`, and why nobody moves it; `lines` says both in words."""

    workflow_id: str
    run_id: str
    type: str
    status: Status
    queue: str
    history_length: int
    covered: int
    last_event_at: datetime | None = None
    closed_at: datetime | None = None
    build_id: str = ""
    waits_for: tuple[PendingView, ...] = ()
    standstill: tuple[str, ...] = ()
    """Empty while somebody moves the run, or while what it waits for comes by itself."""
    lines: tuple[str, ...] = ()


class Standing:
    """The route that says where a run stands."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend

    def table(self) -> tuple[Route, ...]:
        """The routes."""
        return (
            Route(
                method="GET",
                path="/api/v1/workflows/{workflow_id}/stack",
                name="workflow_stack",
                summary="What a run waits for, since when, who holds it, and why nobody moves it",
                description="Read off the history alone: no worker needs to be there.",
                tag="Workflows",
                permission="read",
                handler=self.stack,
                query=RunQuery,
                answers={200: StackView},
                errors=("NOT_FOUND",),
            ),
        )

    async def stack(self, request: HttpRequest) -> HttpAnswer:
        query: RunQuery = request.query
        found = await self._frontend.describe(query.namespace, request.path["workflow_id"], query.run_id)
        return answer(
            StackView(
                workflow_id=found.workflow_id,
                run_id=found.run_id,
                type=found.type,
                status=found.status,
                queue=found.queue,
                history_length=found.history_length,
                covered=found.covered,
                last_event_at=when(found.last_event_at),
                closed_at=when(found.closed_at),
                build_id=found.build_id,
                waits_for=tuple(map(pending_of, found.pending)),
                standstill=found.standstill,
                lines=tuple(stack_of(view_of(found)).lines()),
            )
        )
