"""Looking at one run: how it stands, its history, its result. Nothing here changes anything."""

import asyncio
from typing import Annotated, Any, Final

from msgspec import Meta

from perdure.core.description import Description
from perdure.core.errors import InvalidArgument
from perdure.ports import Frontend, Record, closing_of
from perdure.runtime.http_limits import HttpLimits
from perdure.server.long_poll import LongPolls
from perdure.server.parameters import RunQuery, Wait
from perdure.server.route import HttpAnswer, HttpRequest, Route, answer, encode
from perdure.server.run_view import History, Outcome, RunView, entries_of, outcome_of, view_of

ENTRIES_MAX: Final = 10_000
"""Entries of one part of a history."""
PART_BYTES_MAX: Final = 8 * 1024 * 1024
"""A part of a history ends with the entry that brings it to this size."""
LOOK_S_FIRST: Final = 0.05
LOOK_S_LAST: Final = 1.0
"""While a request waits for events it looks at the run at these intervals, each half as long again as the one before."""


class ResultQuery(RunQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which run, and how long its end may take."""

    wait: Wait = 0
    """Seconds to wait for its end, at most `http.wait_s_max`."""


class HistoryQuery(RunQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which part of which run's history."""

    after: Annotated[
        str, Meta(pattern=r"^\d{0,10}(\.\d{1,10})?$", description="The `cursor` of the part before, or an event's id")
    ] = ""
    wait: Wait = 0
    """Seconds to wait for the next event, at most `http.wait_s_max`."""
    notes: bool = False
    """Notes too, each where it fell."""
    limit: Annotated[int, Meta(ge=1, le=ENTRIES_MAX)] = 1_000


class Runs:
    """Routes that read one run."""

    def __init__(self, frontend: Frontend, polls: LongPolls, limits: HttpLimits) -> None:
        self._frontend = frontend
        self._polls = polls
        self._wait_s_max = limits.wait_s_max

    def table(self) -> tuple[Route, ...]:
        """The routes."""
        return (
            Route(
                method="GET",
                path="/api/v1/workflows/{workflow_id}",
                name="describe_workflow",
                summary="How a run stands, and what it waits for",
                tag="Workflows",
                permission="read",
                handler=self.describe,
                query=RunQuery,
                answers={200: RunView},
                errors=("NOT_FOUND",),
            ),
            Route(
                method="GET",
                path="/api/v1/workflows/{workflow_id}/result",
                name="workflow_result",
                summary="How a run ended",
                description="200 once it has ended, in whatever way: `status` says which. 202 while it goes on, "
                "after `wait` seconds at the latest. Runs it continued as are followed.",
                tag="Workflows",
                permission="read",
                handler=self.result,
                query=ResultQuery,
                answers={200: Outcome, 202: Outcome},
                errors=("NOT_FOUND", "HISTORY_DAMAGED"),
            ),
            Route(
                method="GET",
                path="/api/v1/workflows/{workflow_id}/history",
                name="workflow_history",
                summary="Events of a run, in order",
                description="With `wait`, an open run that has no event after `after` is waited for.",
                tag="Workflows",
                permission="read",
                handler=self.history,
                query=HistoryQuery,
                answers={200: History},
                errors=("NOT_FOUND",),
            ),
        )

    async def describe(self, request: HttpRequest) -> HttpAnswer:
        query: RunQuery = request.query
        return answer(view_of(await self._frontend.describe(query.namespace, request.path["workflow_id"], query.run_id)))

    async def result(self, request: HttpRequest) -> HttpAnswer:
        query: ResultQuery = request.query
        workflow_id, seconds = request.path["workflow_id"], self._seconds(query.wait)
        if seconds:
            work = self._frontend.result(query.namespace, workflow_id, query.run_id)
            ended = await self._polls.wait(work, seconds, request.receive)
            if ended is not None:
                return answer(outcome_of(workflow_id, ended))
        found = await self._last(query.namespace, workflow_id, query.run_id)
        return answer(outcome_of(workflow_id, found), 200 if found.closed_at else 202)

    async def _last(self, namespace: str, workflow_id: str, run_id: str) -> Description:
        """The run at the end of a chain of continuations."""
        found = await self._frontend.describe(namespace, workflow_id, run_id)
        while found.next_run_id:
            found = await self._frontend.describe(namespace, workflow_id, found.next_run_id)
        return found

    async def history(self, request: HttpRequest) -> HttpAnswer:
        query: HistoryQuery = request.query
        workflow_id, seconds = request.path["workflow_id"], self._seconds(query.wait)
        event, _, note = query.after.partition(".")
        after = int(event or 0)
        if seconds:
            work = self._longer(query.namespace, workflow_id, query.run_id, after)
            await self._polls.wait(work, seconds, request.receive)
        record = await self._frontend.record(query.namespace, workflow_id, query.run_id)
        return HttpAnswer(_part(record, (after, int(note) if note else _last_note(record, after)), query))

    async def _longer(self, namespace: str, workflow_id: str, run_id: str, length: int) -> None:
        """Until the run has more events than that, or has ended."""
        pause = LOOK_S_FIRST
        while True:
            found = await self._frontend.describe(namespace, workflow_id, run_id)
            if found.history_length > length or found.closed_at:
                return
            await asyncio.sleep(pause)
            pause = min(LOOK_S_LAST, pause * 1.5)

    def _seconds(self, wait: float) -> float:
        if wait > self._wait_s_max:
            raise InvalidArgument(f"query parameter 'wait' is at most {self._wait_s_max:g} seconds (http.wait_s_max)")
        return wait


def _last_note(record: Record, event: int) -> int:
    """The last note that fell before an event was written, for whoever goes on from an event's number alone."""
    return max((note.id for note in record.notes if note.after < event), default=0)


def _part(record: Record, after: tuple[int, int], query: HistoryQuery) -> bytes:
    """The next entries, until there are enough, and where to go on."""
    entries = entries_of(record, *after, notes=query.notes)
    texts: list[bytes] = []
    size, (event, note) = 0, after
    for number, is_note, shown in entries[: query.limit]:
        text = encode(shown)
        texts.append(text)
        event, note = (event, number) if is_note else (number, note)
        size += len(text)
        if size >= PART_BYTES_MAX:
            break
    is_all = len(texts) == len(entries) and (closing_of(record) is not None or record.damage is not None)
    head: dict[str, Any] = {
        "workflow_id": record.workflow_id,
        "run_id": record.run_id,
        "cursor": None if is_all else f"{event}.{note}" if query.notes else str(event),
    }
    if record.damage is not None and is_all:
        head["damage"] = record.damage.reason
    return encode(head)[:-1] + b',"items":[' + b",".join(texts) + b"]}"
