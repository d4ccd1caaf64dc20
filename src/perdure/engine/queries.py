"""Queries that wait for a worker: kept in memory only, offered as pointers, answered once, forgotten.

A query is offered when everything that stood in the history at its arrival has been seen by a decision, so that whoever was told that a
signal is taken finds it in the answer. Losing an offer costs time; losing the process costs the query, and its asker hears so.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from perdure.core.errors import BY_CODE, NondeterminismError, NotFound, PerdureError, ResourceExhausted, Unavailable
from perdure.core.events import AnyEvent, Reset, Started
from perdure.core.machine.targets import not_found
from perdure.core.queries import (
    Passed,
    Query,
    QueryAnswer,
    QueryNotWanted,
    QueryReply,
    QueryTaken,
    Raised,
    Refused,
    TakeQuery,
    Told,
)
from perdure.core.state import RunState, is_closing
from perdure.core.tasks import Task
from perdure.engine.committer import Committer
from perdure.engine.exits import Exits
from perdure.engine.live import LiveWorkflow
from perdure.engine.pending import Barrier
from perdure.ports import Answer, Clock, Record

AGAIN_US: Final = 1_000_000
"""So long after an offer nobody took up, a query is offered again, to any worker."""
TAKEN_AGAIN_US: Final = 3_000_000
"""So long after a worker took it up: a long history takes a while to replay. Whoever is handed it twice asks first, and is not wanted."""

Key = tuple[str, str]


class Queries:
    """Those of one node. `ask` is for clients, `take` and `answer` for workers; owners say `changed` when a run has moved.

    `load` gives a workflow id, from memory or the store, `find` from memory only, `record` all that is kept of a run.
    """

    def __init__(
        self,
        clock: Clock,
        exits: Exits,
        committer: Committer,
        load: Callable[[Key], Awaitable[LiveWorkflow]],
        find: Callable[[Key], LiveWorkflow | None],
        record: Callable[[str, str, str], Awaitable[Record]],
        waiting_max: int,
        incarnation: str,
    ) -> None:
        self._incarnation = incarnation
        self._waiting_max = waiting_max
        self._clock = clock
        self._exits = exits
        self._committer = committer
        self._load = load
        self._find = find
        self._record = record
        self._serial = 0
        self._asked: dict[str, _Asked] = {}
        self.waiting: dict[Key, list[_Asked]] = {}
        """By workflow id; empty when nobody asks anything."""

    # ------------------------------------------------------------------------------------------------------------- asking

    async def ask(self, query: Query) -> QueryReply:
        """The answer. Raises `Unavailable` when none comes in time, `NotFound`, `NondeterminismError` for a quarantined run."""
        if len(self._asked) >= self._waiting_max:
            raise ResourceExhausted(f"{self._waiting_max:,} queries are waiting already (queries_waiting_max)")
        self._serial += 1
        # Worded for this life of the process: an answer to a query of another one must not be taken for one of this.
        asked = _Asked(f"{self._incarnation}.{self._serial}", query, self._clock.now() + query.timeout)
        key = (query.namespace, query.workflow_id)
        self._asked[asked.id] = asked
        self.waiting.setdefault(key, []).append(asked)
        try:
            return await self._answered(key, asked)
        finally:
            del self._asked[asked.id]
            self.waiting[key].remove(asked)
            if not self.waiting[key]:
                del self.waiting[key]

    async def _answered(self, key: Key, asked: "_Asked") -> QueryReply:
        while asked.reply is None:
            if asked.error is not None:
                raise asked.error
            now = self._clock.now()
            if now >= asked.deadline:
                raise self._given_up(asked)
            await self._offer(key, asked, now)
            await self._woken(asked)
        return asked.reply

    async def _woken(self, asked: "_Asked") -> None:
        """Until something has changed, or it is time to look again."""
        if asked.reply is not None or asked.error is not None:
            return  # answered while it was offered
        asked.woken = asyncio.get_running_loop().create_future()
        due = min(asked.deadline, asked.again_at) if asked.is_ready else asked.deadline
        wake = self._clock.call_at(due, asked.wake)
        try:
            await asked.woken
        finally:
            wake.cancel()

    async def _offer(self, key: Key, asked: "_Asked", now: int) -> None:
        if not asked.events:
            live = await self._load(key)
            run = live.state.run
            if run is None:
                raise NotFound(not_found(live.state, asked.query.run_id).message)
            await self._aim(asked, live, run)
        if not asked.is_ready or now < asked.again_at:
            return
        sticky = asked.sticky if not asked.again_at else ""
        asked.again_at = now + AGAIN_US
        if not self._exits.is_served(asked.queue):
            return  # a line nobody serves must not fill with pointers
        self._exits.publish(
            Task(
                namespace=key[0],
                workflow_id=key[1],
                run_id=asked.run_id,
                queue=asked.queue,
                query=asked.id,
                sticky=sticky,
            )
        )

    async def _aim(self, asked: "_Asked", live: LiveWorkflow, run: RunState) -> None:
        """Find the run that is asked, and whether it can answer now."""
        wanted = asked.query.run_id or run.run_id
        if wanted != run.run_id or run.closing is not None:
            if live.uncommitted:
                asked.is_ready = False  # its end, or its place in the chain, is not durable yet, and nobody may hear of it
            else:
                await self._aim_at_closed(asked, wanted)
            return
        if live.damage is not None:
            raise live.damage
        if run.quarantine is not None:
            raise NondeterminismError(
                f"workflow {live.state.workflow_id!r} is quarantined and answers no queries: {run.quarantine.reason};"
                " resume it, or run a build that reproduces its history"
            )
        if asked.run_id != wanted:  # at first, and when the run has continued as another
            asked.aim(wanted, run.started.queue, needed=run.last_input)
        asked.sticky = run.sticky
        asked.is_ready = asked.may_ask(run, live.history)

    async def _aim_at_closed(self, asked: "_Asked", run_id: str) -> None:
        query = asked.query
        record = await self._record(query.namespace, query.workflow_id, run_id)
        started = record.events[0]
        assert isinstance(started, Started)
        if asked.run_id != run_id:
            asked.aim(run_id, started.queue, needed=0)
        if is_closing(record.events[-1]):
            asked.events = record.events
            asked.is_ready = True

    def _given_up(self, asked: "_Asked") -> Unavailable:
        query = asked.query
        why = f" ({asked.passed})" if asked.passed else ""
        return Unavailable(
            f"query {query.name!r} of workflow {query.workflow_id!r}: no worker of queue {asked.queue!r} answered within"
            f" {query.timeout / 1_000_000:g} s{why}"
        )

    # ----------------------------------------------------------------------------------------------------------- answering

    def served(self, queue: str) -> None:
        """A worker has come: what is asked of runs of its queue is offered at once."""
        for asked in self._asked.values():
            if asked.queue == queue:
                asked.again_at = 0
                asked.wake()

    def changed(self, live: LiveWorkflow) -> None:
        """A run has moved: what waits for it looks again."""
        for asked in self.waiting.get((live.state.namespace, live.state.workflow_id), ()):
            asked.wake()

    def take(self, request: TakeQuery, answer: Answer) -> None:
        """Hand a worker what it needs; see `ports.Frontend.take_query`."""
        asked = self._asked.get(request.query_id)
        if asked is None or not asked.is_ready:
            answer(QueryNotWanted(), None)
            return
        head: dict[str, Any] = {"query_id": asked.id, "query": asked.query, "run_id": asked.run_id}
        if asked.events:
            asked.again_at = self._clock.now() + TAKEN_AGAIN_US
            answer(QueryTaken(events=asked.events, **head), None)
            return
        found = self._find((asked.query.namespace, asked.query.workflow_id))
        run = found.state.run if found is not None else None
        if found is None or run is None or found.history is None or not asked.may_ask(run, found.history):
            asked.is_ready = False  # it has moved on since, or is as it was before a write that failed
            asked.again_at = 0
            answer(QueryNotWanted(), None)
            asked.wake()
            return
        asked.again_at = self._clock.now() + TAKEN_AGAIN_US
        events: tuple[AnyEvent, ...] = () if request.is_warm else tuple(found.history)
        taken = QueryTaken(
            needed=asked.needed if not run.paused else 0, decided=run.decided, covered=run.seen_to, events=events, **head
        )
        self._behind(found, taken, answer)

    def answer(self, answer: QueryAnswer) -> None:
        """A worker has answered; see `ports.Frontend.answer_query`. What it speaks of is durable before anybody hears of it."""
        asked = self._asked.get(answer.query_id)
        if asked is None or asked.run_id != answer.run_id:
            return
        if isinstance(answer, Passed):
            asked.passed = answer.reason
            asked.again_at = self._clock.now() + AGAIN_US
            asked.wake()
            return
        self._behind(self._find((asked.query.namespace, asked.query.workflow_id)), answer, asked.answered)

    def _behind(self, live: LiveWorkflow | None, reply: object, answer: Answer) -> None:
        if live is not None and live.uncommitted:
            self._committer.append(Barrier(live, answer, reply, None))
        else:
            answer(reply, None)

    def fail(self, error: PerdureError) -> None:
        """Nothing will be answered any more."""
        for asked in self._asked.values():
            asked.answered(None, error)


def _has_begun(run: RunState, history: Sequence[AnyEvent] | None) -> bool:
    """Its own code has decided something: what is copied by a reset may end in the midst of another run's decision."""
    first = 1
    if run.reset_to:
        first = next((event.id for event in reversed(history or ()) if isinstance(event, Reset)), run.length)
    return run.seen_to >= first


class _Asked:
    """One query that waits."""

    __slots__ = (
        "again_at",
        "deadline",
        "error",
        "events",
        "id",
        "is_ready",
        "needed",
        "passed",
        "query",
        "queue",
        "reply",
        "run_id",
        "sticky",
        "woken",
    )

    def __init__(self, id: str, query: Query, deadline: int) -> None:
        self.id = id
        self.query = query
        self.deadline = deadline
        self.again_at = 0
        """When it is offered again, if nothing has come of the last offer; 0 = it was not offered yet."""
        self.run_id = ""
        self.queue = ""
        self.sticky = ""
        self.needed = 0
        """The last input of the run when it was asked."""
        self.is_ready = False
        self.events: tuple[AnyEvent, ...] = ()
        """Of a closed run: all of it."""
        self.passed = ""
        """Why the last worker that was handed it could not answer."""
        self.reply: QueryReply | None = None
        self.error: BaseException | None = None
        self.woken: asyncio.Future[None] | None = None

    def aim(self, run_id: str, queue: str, *, needed: int) -> None:
        self.run_id = run_id
        self.queue = queue
        self.needed = needed
        self.again_at = 0
        self.is_ready = False

    def may_ask(self, run: RunState, history: Sequence[AnyEvent] | None) -> bool:
        """True when the run it is aimed at is open, and what stood in its history when this was asked has been decided on.

        A paused run answers as of its last decision, once it has made one.
        """
        if run.run_id != self.run_id or not run.is_open:
            return False
        if run.seen_to >= self.needed:
            return True
        if not run.paused:
            return False
        self.passed = "" if (begun := _has_begun(run, history)) else "the run is paused, and its code has decided nothing yet"
        return begun

    def wake(self) -> None:
        if self.woken is not None and not self.woken.done():
            self.woken.set_result(None)

    def answered(self, answer: QueryAnswer | None, error: BaseException | None) -> None:
        if self.reply is None and self.error is None:
            match answer:
                case Told():
                    self.reply = QueryReply(result=answer.result)
                case Raised():
                    self.reply = QueryReply(failure=answer.failure)
                case Refused():
                    self.error = BY_CODE.get(answer.code, PerdureError)(answer.message)
                case _:
                    self.error = error or Unavailable("the query was not answered")
        self.wake()
