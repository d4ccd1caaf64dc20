"""Workflow runs a worker holds warm: the sticky cache. Bounded in number and bytes; whoever was not used for longest goes, and is replayed
when needed."""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from perdure.core.events import UpdateBody
from perdure.core.requests import RefusedUpdate
from perdure.replay.runner import Runner

if TYPE_CHECKING:
    from perdure.core.queries import QueryTaken
    from perdure.worker.attempts import Fact


KEPT: Final = 1_000
"""So many are held however long they have been idle."""
IDLE_US: Final = 250_000
COOLED_MAX: Final = 200
"""So many make room in one go: nobody waits for longer than that takes."""
LOOKED_AT_MAX: Final = 2_000
REPLAYED_MAX: Final = 200
"""Runs with a longer history stay warm while there is room."""
CACHED_BYTES_MAX: Final = 512 * 1024 * 1024
"""So much may all of them weigh, unless it is said otherwise."""
RUN_BYTES: Final = 5_500
EVENT_BYTES: Final = 40
EXPANSION: Final = 5
"""A run is taken to weigh `RUN_BYTES`, and for what its code may keep `EVENT_BYTES` an event and `EXPANSION` times the payload bytes of its
history: as Python objects JSON takes several times its room, lists of small objects nine times. So what code keeps weighs at most twice
what is counted, and mostly less; what it lets go of is counted all the same."""


class Session:
    """One run, warm. `waiting`: a report is unanswered, so nothing may be fed; facts queue up meanwhile."""

    __slots__ = (
        "again",
        "era",
        "facts",
        "namespace",
        "queries",
        "refused",
        "run_id",
        "runner",
        "unfused_next",
        "waiting",
        "weight",
        "workflow_id",
    )

    def __init__(self, namespace: str, workflow_id: str, run_id: str, runner: Runner) -> None:
        self.namespace = namespace
        self.workflow_id = workflow_id
        self.run_id = run_id
        self.runner = runner
        self.era = 0
        """Counts spans of `IDLE_US`: the one it was last used in."""
        self.weight = 0
        """Estimated bytes, as they were counted last."""
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
    """Warm runs by run id, at most `limit`, which weigh at most `bytes_max` as `weigh` counts. `evicted` counts those dropped for room.

    Past `KEPT` of them those that have been idle for a while, wait for no answer to a command and are quickly replayed make room too, a
    few with each that comes, and the rest when `cool` is called: runs that wait for a signal for days need not be warm.
    """

    def __init__(self, limit: int, bytes_max: int = CACHED_BYTES_MAX) -> None:
        self.limit = limit
        self.bytes_max = bytes_max
        self.bytes = 0
        """What those held weigh, estimated."""
        self.evicted = 0
        self._era = 0
        self._era_began = 0
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, run_id: str) -> Session | None:
        return self._sessions.get(run_id)

    def add(self, session: Session, now: int = 0) -> None:
        """A run that was opened at `now` (microseconds)."""
        session.era = self._era
        self._sessions[session.run_id] = session
        if len(self._sessions) > self.limit:
            self._evict(session)
        if len(self._sessions) > KEPT:
            self._cool(now)

    def used(self, session: Session) -> None:
        """Something has come for the run."""
        session.era = self._era
        self._sessions.move_to_end(session.run_id)

    def weigh(self, session: Session) -> None:
        """The run was fed: count what it weighs now, and make room when all together weigh too much."""
        runner = session.runner
        weight = RUN_BYTES + EVENT_BYTES * runner.length + EXPANSION * runner.context.history_bytes
        if weight != session.weight and self._sessions.get(session.run_id) is session:
            self.bytes += weight - session.weight
            session.weight = weight
            if self.bytes > self.bytes_max:
                self._lighten(session)

    def drop(self, session: Session) -> None:
        """Throw a run away; its code does not run again here."""
        if self._sessions.get(session.run_id) is session:
            del self._sessions[session.run_id]
            self.bytes -= session.weight
        session.runner.close()

    def clear(self) -> None:
        for session in list(self._sessions.values()):
            self.drop(session)

    @property
    def is_crowded(self) -> bool:
        """There are more than are held however long they have been idle."""
        return len(self._sessions) > KEPT

    def cool(self, now: int) -> int:
        """Drop what was not used for `IDLE_US` at least and is quickly replayed, oldest first; how many that were."""
        self._tick(now)
        room = min(COOLED_MAX, len(self._sessions) - KEPT)
        oldest = islice(self._sessions.values(), LOOKED_AT_MAX)
        cold = list(islice((session for session in oldest if self._is_cold(session)), max(room, 0)))
        for session in cold:
            self.evicted += 1
            self.drop(session)
        return len(cold)

    def _cool(self, now: int) -> None:
        """The oldest two make room, if they may."""
        self._tick(now)
        for session in list(islice(self._sessions.values(), 2)):
            if not self._is_cold(session):
                return
            self.evicted += 1
            self.drop(session)

    def _tick(self, now: int) -> None:
        if now - self._era_began >= IDLE_US:
            self._era, self._era_began = self._era + 1, now

    def _is_cold(self, session: Session) -> bool:
        runner = session.runner
        return (
            session.era < self._era - 1 and not session.waiting and not runner.awaits_answers and runner.length <= REPLAYED_MAX
        )

    def _lighten(self, newest: Session) -> None:
        """Make room by weight, as `_evict` does by number. One run alone may weigh more than all may: somebody has to run it."""
        for session in list(islice(self._sessions.values(), COOLED_MAX)):
            if self.bytes <= self.bytes_max:
                return
            if not session.waiting and session is not newest:
                self.evicted += 1
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
