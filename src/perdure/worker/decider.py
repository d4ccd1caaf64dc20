"""Deciding: feeds runs what their history holds and reports what their code asks for, facts fused where the run is warm.

Everything here is plain callbacks on the loop's thread: the engine's answers to claims and reports drive it. One report per run is
unanswered at most.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, Final

from msgspec.structs import replace

from perdure.core.commands import ContinueAsNew, FailWorkflow
from perdure.core.errors import CodecError, PerdureError, ResourceExhausted, Unavailable
from perdure.core.events import Started, UpdateBody
from perdure.core.parts import split
from perdure.core.payload import ABSENT
from perdure.core.replies import ActivityClaim, NotWanted, Reported, WorkflowClaimed
from perdure.core.requests import ActivitySucceeded, ClaimWorkflow, Commands, CompleteLater, Report, ReportPart
from perdure.core.tasks import Task
from perdure.ports import Chance, Frontend, WorkerIdentity
from perdure.replay.mismatch import Mismatch, OldBuild, Stale
from perdure.replay.runner import Runner
from perdure.replay.watchdog import WatchedThread
from perdure.sdk.coded import has_codec
from perdure.sdk.encoding import any_encoded, is_encoded
from perdure.sdk.payload_bound import limits_of
from perdure.sdk.registry import Registry
from perdure.worker.answering import Answering
from perdure.worker.attempts import Fact
from perdure.worker.composing import compose
from perdure.worker.giving_back import release, release_unknown
from perdure.worker.sessions import Session, Sessions

log = logging.getLogger(__name__)

AGAIN_S: Final = 0.5
"""So long after a result could not be reported it is reported again."""
CUT_MAX: Final = 10_000
"""Runs remembered whose last fused report was cut; forgetting one costs at most another cut."""
COOL_S: Final = 0.1
"""So often is it looked for idle warm runs while there are many."""
COOL_ON_S: Final = 0.02
"""The same while there are more of them than make room in one go."""
LEAVE_S: Final = 5.0
"""So long does a worker that leaves wait for answers to its last reports."""


class Decider:
    """`room(n)` reserves up to n activity slots for what a report may bring back; `begin` starts an activity that came with a reply, in
    one of them; `free(n)` gives back those that were not needed."""

    def __init__(
        self,
        frontend: Frontend,
        chance: Chance,
        registry: Registry,
        worker: str,
        secret: str,
        incarnation: str,
        queues: tuple[str, ...],
        sessions: Sessions,
        room: Callable[[int], int],
        begin: Callable[[ActivityClaim], None],
        free: Callable[[int], None],
        watched: WatchedThread,
        answering: Answering,
    ) -> None:
        self._answering = answering
        self._frontend = frontend
        self._chance = chance
        self._registry = registry
        self._worker = worker
        self._secret = secret
        self._incarnation = incarnation
        self._queues = queues
        self._sessions = sessions
        self._room = room
        self._begin = begin
        self._free = free
        self.watched = watched
        self._serial = count(1)
        self._unknown: set[str] = set()
        self._decodes = has_codec(frontend)
        self._cut: set[str] = set()
        """Runs whose last fused report was cut: their next fact goes unfused."""
        self.fuse = True
        self.commands_max = limits_of(frontend).message_commands_max
        """More in one report travel in parts."""
        self._unanswered = 0
        self._cooling: asyncio.TimerHandle | None = None
        self._left: asyncio.Future[None] | None = None
        """Set when the worker leaves; done when every report is answered."""
        self.stopped = False
        """The worker has stopped: what could not be reported is not told again."""

    def identity(self) -> WorkerIdentity:
        return WorkerIdentity(worker=self._worker, build_id=self._registry.build_id(), incarnation=self._incarnation)

    async def leave(self) -> None:
        """Decide no more. Returns when what was reported is answered and every fact is told, or nobody has answered for `LEAVE_S`."""
        self._left = asyncio.get_running_loop().create_future()
        if self._unanswered:
            await asyncio.wait([self._left], timeout=LEAVE_S)
        self.stopped = True
        self._sessions.clear()
        if self._cooling is not None:
            self._cooling.cancel()

    def _cool_later(self, pause: float) -> None:
        self._cooling = asyncio.get_running_loop().call_later(pause, self._cool)

    def _cool(self) -> None:
        """Idle warm runs make room; looked for as long as there are many."""
        self._cooling = None
        cooled = self._sessions.cool(self._frontend.now())
        if self._sessions.is_crowded and not self.stopped:
            self._cool_later(COOL_ON_S if cooled else COOL_S)

    def _answered(self) -> None:
        self._unanswered -= 1
        if self._left is not None and not self._unanswered and not self._left.done():
            self._left.get_loop().call_soon(self._all_answered)

    def _all_answered(self) -> None:
        if self._left is not None and not self._unanswered and not self._left.done():
            self._left.set_result(None)

    def _fresh(self) -> str:
        return f"{self._secret}.{next(self._serial)}"

    # -------------------------------------------------------------------------------------------------------------- claims

    def take(self, task: Task) -> None:
        """A workflow task was delivered."""
        session = self._sessions.get(task.run_id)
        if session is not None and session.waiting:
            session.again = True
            return
        request = ClaimWorkflow(
            namespace=task.namespace,
            workflow_id=task.workflow_id,
            run_id=task.run_id,
            worker=self._worker,
            token=self._fresh(),
            build_id=self._registry.build_id(),
            held=session.runner.length if session is not None else 0,
        )
        if session is not None:
            session.waiting = True  # over a wire the answer takes a while, and nothing may be fed or reported meanwhile
        self._frontend.send(request, partial(self._claimed, request, session))

    def _claimed(
        self,
        request: ClaimWorkflow,
        asked_by: Session | None,
        reply: WorkflowClaimed | NotWanted | None,
        _error: BaseException | None,
    ) -> None:
        if asked_by is not None:
            asked_by.waiting = False
            if asked_by.queries is not None:
                self._answering.ready(asked_by)
        if reply is None or isinstance(reply, NotWanted):
            if asked_by is not None:
                self._go_on(asked_by, "")
            return
        if self._left is not None:
            self._release(request, reply.token, Stale("the worker leaves"))
            return
        session = self._sessions.get(request.run_id)
        if session is not asked_by and session is not None and session.waiting:
            session.again = True  # this worker asked twice, and the other answer is being worked on
            self._release(session, reply.token, Stale("the worker has the run in hand"))
            return
        if session is None:
            session = self._open(request, reply)
            if session is None:
                return
        else:
            self._sessions.used(session)
        if self._feed(session, reply.events, reply.covered, reply.history_bytes, reply.token, reply.updates):
            facts, session.facts = session.facts, []
            self._report(session, reply.token, facts)

    def _go_on(self, session: Session, token: str) -> None:
        """What came while an answer was awaited: facts to report, a workflow task to take."""
        facts, session.facts = session.facts, []
        again, session.again = session.again, False
        if token or facts:
            session.again = again and not token  # facts may be cut short: the task then still waits to be taken
            self._report(session, token, facts)
        elif again:
            self._take_again(session)

    def _take_again(self, of: Session) -> None:
        """Take the workflow task that came while the run was in hand; nobody else is going to be offered it."""
        self.take(Task(namespace=of.namespace, workflow_id=of.workflow_id, run_id=of.run_id, queue=""))

    def _open(self, request: ClaimWorkflow, reply: WorkflowClaimed) -> Session | None:
        assert reply.started is not None
        definition: Any = self._registry.workflow(reply.started.workflow_type)
        if definition is None:
            self._release_unknown(request, reply, "not registered here; its runs wait for a worker that knows it")
            return None
        if not self._decodes and _is_encoded(reply.started):
            self._release_unknown(request, reply, "encoded; its runs wait for a worker that was given the codec")
            return None
        runner = Runner(definition, request.namespace, request.workflow_id, reply.started)
        session = Session(request.namespace, request.workflow_id, request.run_id, runner)
        if request.run_id in self._cut:
            self._cut.discard(request.run_id)
            session.unfused_next = True
        self._sessions.add(session, self._frontend.now())
        if self._cooling is None and self._sessions.is_crowded:
            self._cool_later(COOL_S)
        return session

    def _release_unknown(self, request: ClaimWorkflow, reply: WorkflowClaimed, why: str) -> None:
        assert reply.started is not None
        name = reply.started.workflow_type
        if name not in self._unknown:
            self._unknown.add(name)
            log.warning("workflow type %r is %s", name, why)
        self._frontend.send(release_unknown(request, reply.token, request.build_id, request.worker), _log_refusal)

    # -------------------------------------------------------------------------------------------------------------- feeding

    def _feed(
        self,
        session: Session,
        events: Any,
        covered: int,
        history_bytes: int,
        token: str,
        updates: tuple[UpdateBody, ...] = (),
    ) -> bool:
        """Feed what came from the engine, then offer the updates that wait; false when the run cannot go on here (it is then given back and dropped)."""
        runner = session.runner
        runner.context.history_bytes = history_bytes
        self.watched.begin(session.workflow_id)
        try:
            runner.advance(events, covered)
            if updates:
                session.offer(updates, self._frontend.now())
        except (Mismatch, OldBuild, Stale) as fault:
            self._give_back(session, token, fault)
            return False
        except Exception as error:
            log.exception("running workflow %r failed in perdure itself", session.workflow_id, extra=_ids(session))
            self._give_back(session, token, Mismatch(f"running the workflow failed: {error!r}"))
            return False
        except BaseException:
            self._drop(session)  # Ctrl-C in the midst of its code: what that did since must not be reported
            raise
        finally:
            self.watched.end()
        self._sessions.weigh(session)
        return True

    def _drop(self, session: Session) -> None:
        """Throw a run away; queries that waited for its report are answered from its history."""
        self._sessions.drop(session)
        if session.queries is not None:
            self._answering.lost(session)

    def _give_back(self, session: Session, token: str, fault: Mismatch | OldBuild | Stale) -> None:
        self._drop(session)
        for fact in session.facts:
            self._report_alone(session, fact)
        session.facts = []
        if token:
            self._release(session, token, fault)
        if session.again:
            self._take_again(session)

    def _release(self, of: Session | ClaimWorkflow, token: str, fault: Mismatch | OldBuild | Stale) -> None:
        self._frontend.send(release(of, token, self._registry.build_id(), fault), _log_refusal)

    # ---------------------------------------------------------------------------------------------------------------- facts

    def fact(self, claim: ActivityClaim, fact: Fact) -> None:
        """An activity of this worker has ended."""
        session = self._sessions.get(claim.run_id)
        if session is None:
            self._report_alone(claim, fact)
            return
        self._sessions.used(session)
        if session.waiting:
            session.facts.append(fact)
        else:
            self._report(session, "", [fact])

    def _report_alone(self, of: Session | ActivityClaim, fact: Fact) -> None:
        """Report a fact of a run that is not warm here: the owner offers the run to whoever can decide."""
        if self.stopped:
            return
        report = Report(
            namespace=of.namespace,
            workflow_id=of.workflow_id,
            run_id=of.run_id,
            worker=self._worker,
            build_id=self._registry.build_id(),
            based_on=0,
            decided=0,
            nonce=self._fresh(),
            steps=(fact,),
        )
        self._unanswered += 1
        self._frontend.send(report, partial(self._told_alone, of, fact))

    def _told_alone(self, of: Session | ActivityClaim, fact: Fact, reply: Any, error: BaseException | None) -> None:
        self._answered()
        self._alone_reported(of, fact, reply, error)

    def complete_later(self, claim: ActivityClaim) -> None:
        """An activity of this worker is completed from outside: its claim must be kept, also when this process ends."""
        if self.stopped:
            return
        request = CompleteLater(
            namespace=claim.namespace,
            workflow_id=claim.workflow_id,
            run_id=claim.run_id,
            command=claim.scheduled.id,
            attempt=claim.attempt,
            token=claim.token,
        )
        self._unanswered += 1
        self._frontend.send(request, partial(self._left_to_others, claim))

    def _left_to_others(self, claim: ActivityClaim, _reply: Any, error: BaseException | None) -> None:
        self._answered()
        if isinstance(error, (ResourceExhausted, Unavailable)) and not self.stopped:
            asyncio.get_running_loop().call_later(AGAIN_S, self.complete_later, claim)
        else:
            _log_refusal(None, error)

    # -------------------------------------------------------------------------------------------------------------- reports

    def _report(self, session: Session, token: str, facts: list[Fact]) -> None:
        try:
            body = compose(session, token, facts, self._frontend.now, self.watched, fuse=self.fuse)
        except BaseException:
            self._drop(session)
            raise
        if body is None:
            # Feeding a result broke the run: nothing of it is reported but the facts; whoever claims it next will see why.
            session.facts = facts + session.facts
            self._give_back(session, token, Stale("the run is replayed"))
            return
        if body.left:
            session.facts = body.left + session.facts
        room = self._room(body.scheduled) if body.scheduled else 0
        report = Report(
            namespace=session.namespace,
            workflow_id=session.workflow_id,
            run_id=session.run_id,
            worker=self._worker,
            build_id=self._registry.build_id(),
            based_on=body.based_on,
            decided=body.decided,
            nonce=self._fresh(),
            token=token,
            steps=tuple(body.steps),
            closing=body.closing,
            notes=body.set_aside,
            refused=body.refused,
            room=room,
            queues=self._queues,
            incarnation=self._incarnation,
            awaits=body.awaits,
            **({} if body.closing is None else self._closing_fields(session, body.closing)),
        )
        for aside in body.set_aside:
            log.warning("workflow %r: %s; it is set aside", session.workflow_id, aside.message, extra=_ids(session))
        session.waiting = True
        self._unanswered += 1
        told = [step for step in body.steps if not isinstance(step, Commands)]
        if body.commands > self.commands_max:
            report = self._send_parts(report)
        self._frontend.send(report, partial(self._reported, session, room, told))

    def _send_parts(self, report: Report) -> Report:
        """Send all but the last part of a report too long for one message; gives that. A part that is refused has the report refused."""
        *parts, last = split(report.steps, self.commands_max)
        for number, steps in enumerate(parts, 1):
            part = ReportPart(
                namespace=report.namespace,
                workflow_id=report.workflow_id,
                run_id=report.run_id,
                nonce=report.nonce,
                part=number,
                steps=steps,
            )
            self._frontend.send(part, _log_refusal)
        return replace(report, steps=last, parts=len(parts))

    def _closing_fields(self, session: Session, closing: Any) -> dict[str, Any]:
        runner = session.runner
        untaken = runner.context.untaken()
        if type(closing) is FailWorkflow and runner.context.started.retry is not None:
            untaken += runner.unfed
        elif type(closing) is not ContinueAsNew:
            return {"untaken": len(untaken) + len(runner.unfed)}
        return {
            "untaken": len(untaken),
            "carried": untaken,
            "next_run_id": self._chance.run_id(),
            "next_seed": self._chance.seed(),
        }

    def _reported(
        self, session: Session, room: int, facts: list[Fact], reply: Reported | None, error: BaseException | None
    ) -> None:
        session.waiting = False
        self._answered()
        used = len(reply.activities) if reply is not None else 0
        if room != used:
            self._free(room - used)
        if reply is None:
            self._refused(session, facts, error)
            return
        for claim in reply.activities:
            self._begin(claim)
        if session.queries is not None and reply.accepted:
            self._answering.ready(session)
        if reply.closed or not reply.accepted:
            self._drop_after(session, reply)
            return
        if self._left is not None or session.runner.spoiled:
            why = "the worker leaves" if self._left is not None else "a validator has woken what must not be woken"
            self._give_back(session, reply.token, Stale(why))
            return
        if not self._feed(session, reply.events, reply.covered, reply.history_bytes, reply.token, reply.updates):
            return
        self._go_on(session, reply.token)

    def _drop_after(self, session: Session, reply: Reported) -> None:
        self._drop(session)
        if reply.closed:
            return
        if len(self._cut) >= CUT_MAX:
            self._cut.clear()
        self._cut.add(session.run_id)
        facts, session.facts = session.facts, []
        for fact in facts:
            self._report_alone(session, fact)
        if session.again:
            self._take_again(session)

    def _refused(self, session: Session, facts: list[Fact], error: BaseException | None) -> None:
        """Nothing of a report was taken, or nobody knows: the run is replayed when it is offered again, its facts are told again."""
        self._drop(session)
        if error is not None and not isinstance(error, PerdureError):
            log.error("reporting on workflow %r failed", session.workflow_id, exc_info=error, extra=_ids(session))
        elif error is not None:
            log.warning("a report on workflow %r was refused: %s", session.workflow_id, error, extra=_ids(session))
        facts, session.facts = facts + session.facts, []
        for fact in facts:
            if isinstance(error, CodecError):  # what stood beside the fact is at fault, or the answer
                self._report_alone(session, fact)
            else:
                self._alone_reported(session, fact, None, error)

    def _alone_reported(self, of: Session | ActivityClaim, fact: Fact, _reply: Any, error: BaseException | None) -> None:
        """A fact is told until it is heard: a claim of this process lives as long as the process, so nobody else would answer it."""
        if error is None:
            return
        if not isinstance(error, (ResourceExhausted, Unavailable)) or self.stopped:
            _log_refusal(None, error)
            return
        if isinstance(fact, ActivitySucceeded) and fact.fed_at:
            fact = replace(fact, fed_at=0)
        asyncio.get_running_loop().call_later(AGAIN_S, self._report_alone, of, fact)


def _is_encoded(started: Started) -> bool:
    """True when a codec made its payloads, or some of them: a run may have been started in clear, and gone on encoded."""
    if started.encoded is not ABSENT and is_encoded(started.encoded):
        return True
    return bool(started.input or started.keywords) and any_encoded(started.input, started.keywords)


def _log_refusal(_reply: Any, error: BaseException | None) -> None:
    if error is not None:
        log.warning("a report could not be delivered: %s", error)


def _ids(session: Session) -> dict[str, str]:
    """Bound to log lines."""
    return {"workflow_id": session.workflow_id, "run_id": session.run_id}
