"""Workflow runs a worker holds warm: the sticky cache. Bounded; whoever was not used for longest goes, and is replayed when needed."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from perdure.core.events import UpdateBody
from perdure.core.requests import RefusedUpdate
from perdure.replay.runner import Runner

if TYPE_CHECKING:
    from perdure.core.queries import QueryTaken
    from perdure.worker.attempts import Fact


class Session:
    """One run, warm. `waiting`: a report is unanswered, so nothing may be fed; facts queue up meanwhile."""

    __slots__ = (
        "again",
        "facts",
        "namespace",
        "queries",
        "refused",
        "run_id",
        "runner",
        "unfused_next",
        "waiting",
        "workflow_id",
    )

    def __init__(self, namespace: str, workflow_id: str, run_id: str, runner: Runner) -> None:
        self.namespace = namespace
        self.workflow_id = workflow_id
        self.run_id = run_id
        self.runner = runner
        self.waiting = False
        self.again = False
        """A workflow task came while a report was unanswered."""
        self.facts: list[Fact] = []
        self.unfused_next = False
        self.refused: list[RefusedUpdate] | None = None
        """Updates the code did not accept, to be told with the next decision."""
        self.queries: list[QueryTaken] | None = None
        """Queries that wait for the report to be answered."""

    def offer(self, updates: Sequence[UpdateBody], now: int) -> None:
        """Offer updates to the code, in order, as long as it has not ended. What is neither accepted nor refused is offered again."""
        runner = self.runner
        for update in updates:
            if runner.ending is not None or runner.spoiled:
                return
            failure = runner.offer(update, now)
            if failure is not None:
                self.refused = [*(self.refused or ()), RefusedUpdate(update_id=update.update_id, failure=failure)]


class Sessions:
    """Warm runs by run id, at most `limit`. `evicted` counts those dropped for room."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.evicted = 0
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, run_id: str) -> Session | None:
        return self._sessions.get(run_id)

    def add(self, session: Session) -> None:
        self._sessions[session.run_id] = session
        if len(self._sessions) > self.limit:
            self._evict(session)

    def used(self, session: Session) -> None:
        self._sessions.move_to_end(session.run_id)

    def drop(self, session: Session) -> None:
        """Throw a run away; its code does not run again here."""
        if self._sessions.get(session.run_id) is session:
            del self._sessions[session.run_id]
        session.runner.close()

    def clear(self) -> None:
        for session in list(self._sessions.values()):
            self.drop(session)

    def _evict(self, newest: Session) -> None:
        """Make room, but not with the run that has just come: it is about to be fed. With all others waiting there are too many for a while."""
        while len(self._sessions) > self.limit:
            idle = (session for session in self._sessions.values() if not session.waiting and session is not newest)
            oldest = next(idle, None)
            if oldest is None:
                return
            self.evicted += 1
            self.drop(oldest)
