"""Answering queries: from a run held warm when all it asked for is committed, else from a replay of its history.

A query never decides: what its replay would ask for beyond the history is thrown away with it. A replayed run that is up to date is kept
warm, so that the next query finds it.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from perdure.core import events as ev
from perdure.core.queries import Passed, QueryAnswer, QueryTaken, Refused, TakeQuery
from perdure.core.state import is_closing
from perdure.core.tasks import Task
from perdure.ports import Frontend
from perdure.replay.asking import ask
from perdure.replay.history import replay_history
from perdure.replay.mismatch import Mismatch, OldBuild, Stale
from perdure.replay.runner import Runner
from perdure.replay.watchdog import WatchedThread
from perdure.sdk.coded import has_codec
from perdure.sdk.encoding import is_encoded
from perdure.sdk.registry import Registry
from perdure.worker.sessions import Session, Sessions

log = logging.getLogger(__name__)


class Answering:
    """One worker's. `take` is called with the task of a query, `ready` when a session's last report was accepted."""

    def __init__(
        self, frontend: Frontend, registry: Registry, worker: str, sessions: Callable[[], Sessions], watched: WatchedThread
    ) -> None:
        self._frontend = frontend
        self._registry = registry
        self._worker = worker
        self._sessions = sessions
        self.watched = watched
        self.stopped = False

    def take(self, task: Task) -> None:
        """A query's task was delivered."""
        if not self.stopped:
            self._take(task.query, self._sessions().get(task.run_id))

    def _take(self, query_id: str, session: Session | None) -> None:
        request = TakeQuery(query_id=query_id, worker=self._worker, is_warm=session is not None)
        self._frontend.take_query(request, partial(self._taken, session))

    def _taken(self, session: Session | None, reply: Any, _error: BaseException | None) -> None:
        if self.stopped or not isinstance(reply, QueryTaken):
            return
        if reply.events:
            self._answer_cold(reply)
        elif session is None or session.runner.fed < reply.needed or session.runner.context.loop.is_closed():
            self._take(reply.query_id, None)
        elif session.waiting:
            session.queries = [*(session.queries or ()), reply]
        elif session.runner.matcher.new or session.runner.decided < reply.decided:
            self._take(reply.query_id, None)  # it has asked for what nobody reported, or others have decided since
        else:
            self._answer_warm(session, reply)

    def ready(self, session: Session) -> None:
        """All the session has asked for is committed, and it was fed nothing since: whoever waited for that is answered."""
        queries, session.queries = session.queries or (), None
        for taken in queries:
            if session.runner.context.loop.is_closed():
                self._take(taken.query_id, None)
            else:
                self._answer_warm(session, taken)

    def lost(self, session: Session) -> None:
        """The session was thrown away with what it had asked for."""
        queries, session.queries = session.queries or (), None
        for taken in queries:
            self._take(taken.query_id, None)

    # ------------------------------------------------------------------------------------------------------------ answers

    def _answer_warm(self, session: Session, taken: QueryTaken) -> None:
        self._frontend.answer_query(self._asked(session.runner, taken))
        if session.runner.context.loop.spoiled:
            self._sessions().drop(session)

    def _asked(self, runner: Runner, taken: QueryTaken) -> QueryAnswer:
        self.watched.begin(taken.query.workflow_id)
        try:
            return ask(runner, taken.query_id, taken.query)
        finally:
            self.watched.end()

    def _answer_cold(self, taken: QueryTaken) -> None:
        head = {"query_id": taken.query_id, "run_id": taken.run_id}
        started = taken.events[0]
        assert isinstance(started, ev.Started)
        definition = self._registry.workflow(started.workflow_type)
        if definition is None:
            passed = Passed(**head, reason=f"workflow type {started.workflow_type!r} is not registered there")
            self._frontend.answer_query(passed)
            return
        if is_encoded(started.encoded) and not has_codec(self._frontend):
            self._frontend.answer_query(Passed(**head, reason="the run is encoded, and that worker was not given the codec"))
            return
        try:
            runner = self._replayed(definition, taken)
        except OldBuild as error:
            self._frontend.answer_query(Passed(**head, reason=str(error)))
        except Mismatch as fault:
            message = (
                f"this worker's code does not reproduce the history of workflow {taken.query.workflow_id!r}: {fault.reason}"
            )
            self._frontend.answer_query(Refused(**head, code="NONDETERMINISM", message=message))
        except Exception as error:
            asked = taken.query.workflow_id
            log.exception("replaying workflow %r for a query failed in perdure itself", asked, extra={"workflow_id": asked})
            self._frontend.answer_query(Refused(**head, code="PERDURE_ERROR", message=f"replaying the run failed: {error!r}"))
        else:
            self._frontend.answer_query(self._asked(runner, taken))
            self._keep(runner, taken)

    def _replayed(self, definition: Any, taken: QueryTaken) -> Runner:
        query = taken.query
        history = partial(replay_history, definition, namespace=query.namespace, workflow_id=query.workflow_id)
        self.watched.begin(query.workflow_id)
        try:
            if is_closing(taken.events[-1]):
                return history(taken.events)
            seen = [event for event in taken.events if not ev.is_input(event) or event.id <= taken.covered]
            runner = history(seen, covered=taken.covered)
            if new := runner.take():
                runner.close()
                raise Mismatch(f"it asks for {new[0].type} beyond what is recorded")
            return runner
        except Stale as error:
            raise Mismatch(str(error)) from error
        finally:
            self.watched.end()

    def _keep(self, runner: Runner, taken: QueryTaken) -> None:
        """An open run that was fed all there is stays warm."""
        last = taken.events[-1]
        last_input = next(event.id for event in reversed(taken.events) if ev.is_input(event))
        is_current = not is_closing(last) and runner.fed == last_input and not runner.context.loop.spoiled
        if not is_current or self.stopped or self._sessions().get(taken.run_id) is not None:
            runner.close()
            return
        query = taken.query
        self._sessions().add(Session(query.namespace, query.workflow_id, taken.run_id, runner))
