"""The one writer of a shard: brings requests to the machine one at a time, and lets nothing leave before its commit.

Between a request's arrival and its transition's place in the commit queue there is no pause, so requests of one workflow id are decided
in order, each on the state the one before left. What follows a commit is in `written`.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from perdure.core import errors
from perdure.core.description import result_of
from perdure.core.errors import HistoryDamaged, PerdureError, ResourceExhausted, Unavailable
from perdure.core.limits import Limits
from perdure.core.machine import Outcome, apply, apply_transition, decide
from perdure.core.machine.activities import RELEASE_PAUSE
from perdure.core.machine.claims import build_fault, workflow_task
from perdure.core.machine.messages import deliveries_of
from perdure.core.machine.wakes import tasks_of, wakes_of
from perdure.core.replies import NotWanted, Rejection, Reported, UpdateResult, WorkflowClaimed
from perdure.core.requests import (
    ActivityDue,
    AnyRequest,
    ClaimWorkflow,
    ReleaseWorkflow,
    Report,
    ResetWorkflow,
    ResumeWorkflow,
    StartDue,
    StartWorkflow,
    UpdateWorkflow,
    WorkflowClaimDue,
    WriteDown,
)
from perdure.core.state import RunState, WorkflowState, is_closing
from perdure.core.tasks import Task
from perdure.core.transition import Transition, joined
from perdure.core.volatile import TakenOver
from perdure.engine import damaged
from perdure.engine.admission import Admission
from perdure.engine.committer import Committer
from perdure.engine.exits import Exits
from perdure.engine.held import HeldStarts
from perdure.engine.live import LiveWorkflow
from perdure.engine.pending import Barrier, PendingWrite, Unwritable, WriteLost
from perdure.engine.queries import Queries
from perdure.engine.relay import Relay
from perdure.engine.takers import Takers
from perdure.engine.tally import Tally
from perdure.engine.timers import TimerQueue
from perdure.engine.updates import Updates, lost
from perdure.ports import Answer, Clock, Record, Store

if TYPE_CHECKING:
    import asyncio

log = logging.getLogger(__name__)

CLOSED_KEPT: Final = 16
"""Closed workflow ids a shard keeps in memory, for repeated requests and late questions; older ones are loaded when asked for. Few,
because what lives long costs the garbage collector time for ever."""

ERRORS: Final[dict[str, type[PerdureError]]] = {
    cls.code: cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, PerdureError)
}

Key = tuple[str, str]


class Surroundings(Struct, frozen=True):
    """What the owners of one node share."""

    store: Store
    clock: Clock
    committer: Committer
    timers: TimerQueue
    exits: Exits
    held: HeldStarts
    queries: Queries
    incarnation: str
    limits: Limits
    reload: Callable[[Key], None]
    """Take up again, a little later, a workflow id that was forgotten because its write failed."""
    set_aside: Callable[[PendingWrite, Unwritable], None]
    """What a worker asked for cannot be written: keep what else was in it, and keep the run from asking for it for ever."""
    relay: Relay
    tally: Tally
    takers: Takers
    admission: Admission | None
    """Refuses new starts from outside; None when all of them are let in."""


def error_of(rejection: Rejection) -> PerdureError:
    """The exception a rejection becomes at the door."""
    return ERRORS[rejection.code](rejection.message, **rejection.fields)


class ShardOwner:
    """All workflow ids of one shard. `open` are those with an open run, `closed` the most recently used of the others."""

    def __init__(self, shard: int, surroundings: Surroundings) -> None:
        self.shard = shard
        self._around = surroundings
        self.open: dict[Key, LiveWorkflow] = {}
        self.closed: OrderedDict[Key, LiveWorkflow] = OrderedDict()
        self._loading: dict[Key, asyncio.Task[LiveWorkflow]] = {}

    # ------------------------------------------------------------------------------------------------------------ loading

    def find(self, key: Key) -> LiveWorkflow | None:
        """The workflow id, if it is in memory."""
        live = self.open.get(key)
        if live is None:
            live = self.closed.get(key)
            if live is not None:
                self.closed.move_to_end(key)
        return live

    async def load(self, key: Key) -> LiveWorkflow:
        """The workflow id, from memory or the store; one that never was has an empty state. The timers of one that was parked are set."""
        live = self.find(key)
        if live is not None:
            return live
        live = await self._loaded(key)
        for instant, target in wakes_of(live.state):
            self._around.timers.add(instant, target)
        return live

    async def take_up(self, key: Key) -> None:
        """Load what nobody has asked for and bring it on its way: see `recover`."""
        self.recover(self.find(key) or await self._loaded(key))

    def let_go(self, live: LiveWorkflow) -> None:
        """Drop an open run that is parked."""
        self.open.pop((live.state.namespace, live.state.workflow_id), None)

    async def _loaded(self, key: Key) -> LiveWorkflow:
        try:
            transitions = await self._around.store.load(*key)
        except HistoryDamaged as damage:
            record = await self._around.store.record(*key)
            assert record is not None
            return self.find(key) or self._set_aside(key, record, damage)
        return self.find(key) or self._fold(key, transitions)

    def _set_aside(self, key: Key, record: Record, damage: HistoryDamaged) -> LiveWorkflow:
        state = damaged.state_of(key[0], record)
        state.limits = self._around.limits
        live = LiveWorkflow(state, None)
        live.damage = damage
        run = state.run
        if run is not None and run.closing is None:
            self._around.tally.damaged(run.run_id)
        self._keep(key, live)
        return live

    def _fold(self, key: Key, transitions: Any) -> LiveWorkflow:
        state = WorkflowState(namespace=key[0], workflow_id=key[1], limits=self._around.limits)
        live = LiveWorkflow(state, None)
        for transition in transitions:
            apply_transition(state, transition)
            live.append(transition)
        self._keep(key, live)
        return live

    def _keep(self, key: Key, live: LiveWorkflow) -> None:
        """Put a workflow id where it belongs, and let go of what has been closed and unused for longest."""
        run = live.state.run
        if run is not None and run.closing is None:
            self.closed.pop(key, None)
            self.open[key] = live
            return
        self.open.pop(key, None)
        live.history = None
        closed = self.closed
        closed[key] = live
        if len(closed) > CLOSED_KEPT:
            oldest, dropped = closed.popitem(last=False)
            if not dropped.is_idle:  # it is still being written or waited for: its turn comes again
                closed[oldest] = dropped

    def forget(self, key: Key) -> None:
        """Drop what was applied here but not written; the next request loads what was."""
        live = self.open.pop(key, None) or self.closed.pop(key, None)
        if live is None:
            return
        live.lost = True
        if live.held is not None:
            held, live.held = live.held, None
            held(Unavailable("the write it depended on failed"))
        for waiters in live.waiters.values():
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_exception(WriteLost("the run's last write failed; ask again"))
        live.waiters = {}
        if live.updates is not None:
            updates, live.updates = live.updates, None
            updates.fail(lost())

    # ------------------------------------------------------------------------------------------------------------ deciding

    def submit(self, live: LiveWorkflow, request: AnyRequest, answer: Answer | None) -> None:
        """Decide a request. `answer` gets the reply once what it speaks of is durable, or the error."""
        around = self._around
        if live.held is not None and type(request) is not ClaimWorkflow and type(request) is not Report:
            self.release(live)
        if live.damage is not None and not damaged.may_decide(request):
            self._answer_behind(live, answer, live.damage)
            return
        if live.updates is not None:
            request = self._with_updates(live, request)
        now = around.clock.now()
        outcome = decide(live.state, request, now)
        if isinstance(outcome, Rejection):
            self._answer_behind(live, answer, error_of(outcome))
            return
        # Only here is it known what a start comes to: one that finds a run is none. Nothing has happened yet.
        if around.admission is not None and (refusal := around.admission.heed(live, request, outcome, now)) is not None:
            self._answer_behind(live, answer, refusal)
            return
        transition = outcome.transition
        before = live.state.run
        if transition is not None:
            apply_transition(live.state, transition)
            live.append(transition)
            if live.damage is not None and live.history is not None:
                live.damage = None  # a run of its own has begun
        for entry in outcome.volatile:
            apply(live.state, entry)
        self._complete_reply(live, request, outcome)
        if live.updates is not None:
            live.updates.decided(request, outcome.reply, transition)
        if transition is None:
            self._nothing_written(live, request, outcome, answer)
            return
        self._write(live, request, outcome, transition, answer, before)

    # ------------------------------------------------------------------------------------------------------------- updates

    def _with_updates(self, live: LiveWorkflow, request: AnyRequest) -> AnyRequest:
        """A worker that claims or reports is told of the updates that wait; only the owner knows them."""
        updates = live.updates
        if updates is not None and isinstance(request, (ClaimWorkflow, Report)):
            return replace(request, waiting=updates.offered())
        return request

    def _updated(self, live: LiveWorkflow, request: Any, reply: Any, answer: Answer | None) -> None:
        """An update has come: join one of the same id, keep it for the run's code, or say that it was accepted before."""
        try:
            if live.updates is not None and live.updates.join(request.update_id, answer):
                return
            if type(reply) is UpdateResult:
                self._answer_when_settled(live, answer, reply)
                return
            live.updates = live.updates or Updates()
            live.updates.wait(request, reply.run_id, answer, self._around.limits.updates_waiting_max)
        except ResourceExhausted as error:
            self._answer_behind(live, answer, error)
            return
        self.offer(live)

    def _owe(self, live: LiveWorkflow) -> None:
        """A reset has left updates that the new run's code takes again."""
        run = live.state.run
        if run is not None and run.owed:
            live.updates = live.updates or Updates()
            live.updates.owe(run)

    def _tell_updates(self, live: LiveWorkflow, request: AnyRequest, reply: object, transition: Transition | None) -> None:
        """What is durable now is told to whoever waits for an update."""
        updates = live.updates
        if updates is not None:
            updates.written(request, reply, transition)
            if updates.is_empty:
                live.updates = None

    def _behind_refusals(self, live: LiveWorkflow, request: AnyRequest, reply: object, answer: Answer | None) -> Answer:
        """The answer of a report that writes nothing, behind those of the updates it refuses."""

        def told(found: Any, error: BaseException | None) -> None:
            if error is None:
                self._tell_updates(live, request, reply, None)
            if answer is not None:
                answer(found, error)

        return told

    def _answer_when_settled(self, live: LiveWorkflow, answer: Answer | None, reply: Any) -> None:
        if answer is None:
            return
        if live.uncommitted:
            self._around.committer.append(Barrier(live, answer, reply, None))
        else:
            answer(reply, None)

    def _complete_reply(self, live: LiveWorkflow, request: Any, outcome: Outcome) -> None:
        """Replies that carry history get it here, as of now."""
        reply = outcome.reply
        if type(reply) is Reported:
            if reply.token:
                live.offered_at = 0  # it holds the claim now: should it lose that before it has heard, the run is offered anew
            if not reply.closed and live.history is not None and request.based_on:
                reply.events = tuple(live.history[request.based_on :])
        elif type(reply) is WorkflowClaimed:
            assert live.history is not None
            reply.events = tuple(live.history[request.held :])

    def _nothing_written(self, live: LiveWorkflow, request: AnyRequest, outcome: Outcome, answer: Answer | None) -> None:
        kind = type(request)
        if kind is ClaimWorkflow:
            # Workflow code may run before what it is fed is durable: nothing it asks for leaves before the commit that covers it.
            if type(outcome.reply) is not NotWanted or "nothing new" in outcome.reply.reason:
                live.offered_at = 0
            elif live.state.run is not None and build_fault(live.state.run, request.build_id):  # type: ignore[union-attr]
                live.offered_at = 0
                self.offer(live)  # to another: this one was handed it in vain
            if outcome.wakes:
                self._let_go(outcome, live)
            if answer is not None:
                answer(outcome.reply, None)
            return
        if live.held is not None:
            self.release(live)
        if kind is UpdateWorkflow:
            self._updated(live, request, outcome.reply, answer)
            return
        self._let_go(outcome, live)
        if live.updates is not None and kind is Report:
            answer = self._behind_refusals(live, request, outcome.reply, answer)
        self._answer_when_settled(live, answer, outcome.reply)
        if kind is Report or kind is WorkflowClaimDue or kind is StartDue:
            self.offer(live)
        elif kind is ReleaseWorkflow:
            if isinstance(request, ReleaseWorkflow) and request.why == "unknown_type" and live.state.run is not None:
                self._around.takers.cannot(request.worker, live.state.run.started.workflow_type)
            self.offer(live)  # if nobody here knows it, the machine's wake asks them all again

    def _answer_behind(self, live: LiveWorkflow, answer: Answer | None, error: PerdureError) -> None:
        if answer is None:
            return
        if live.held is not None:
            self.release(live)
        if live.uncommitted:
            self._around.committer.append(Barrier(live, answer, None, error))
        else:
            answer(None, error)

    # ------------------------------------------------------------------------------------------------------------ writing

    def _write(
        self,
        live: LiveWorkflow,
        request: AnyRequest,
        outcome: Outcome,
        transition: Transition,
        answer: Answer | None,
        before: RunState | None,
    ) -> None:
        live.uncommitted += 1
        if type(request) is ResumeWorkflow:
            live.offered_at = 0  # whoever was offered it was refused: the builds it failed on are forgotten only now
        elif type(request) is ResetWorkflow:
            self._owe(live)
        state = live.state
        key = (state.namespace, state.workflow_id)
        if (state.run is not None and state.run.closing is None) != (key in self.open):
            self._keep(key, live)
        pending = PendingWrite(self, live, request, outcome, transition, answer, before)
        if live.held is not None:
            pending.first, live.held = live.held, None
            pending.transition = joined(pending.first.transition, transition)
        elif type(request) is StartWorkflow and self._hold(live, pending):
            return
        self._around.committer.append(pending)

    def _hold(self, live: LiveWorkflow, pending: PendingWrite) -> bool:
        """Keep a start back if a worker of this process takes it at once."""
        run = live.state.run
        if run is None or run.length != 1 or not run.wants_decision:
            return False
        task = self._task_for(live, run)
        if task is None:
            return False
        live.held = pending
        live.offered_at = self._around.clock.now()
        if self._around.exits.publish(task):
            self._around.held.add(self, live)
            return True
        live.held = None
        return False

    def release(self, live: LiveWorkflow) -> None:
        """Commit a start that was kept back, alone."""
        held, live.held = live.held, None
        if held is not None:
            self._around.committer.append(held)

    def write_down(self, live: LiveWorkflow) -> None:
        """The node is about to stop: what was only remembered until the next transition is written now."""
        self.release(live)
        run = live.state.run
        if run is not None and run.closing is None and (run.seen > run.covered or run.unnoted):
            state = live.state
            self.submit(live, WriteDown(namespace=state.namespace, workflow_id=state.workflow_id, run_id=run.run_id), None)

    # ----------------------------------------------------------------------------------------------------- after the commit

    def written(self, pending: PendingWrite, error: BaseException | None) -> None:
        """A transition is durable, or is known or feared not to be."""
        live = pending.live
        live.uncommitted -= 1
        if error is not None:
            self._lost(pending, error)
            return
        outcome, answer = pending.outcome, pending.answer
        if outcome.tasks or outcome.wakes or outcome.cancels or outcome.deliveries:
            self._let_go(outcome, live)
        if live.waiters:
            self._wake_waiters(live, pending.transition)
        if live.updates is not None:
            self._tell_updates(live, pending.request, outcome.reply, pending.transition)
        if answer is not None:
            answer(outcome.reply, None)
        self.offer(live)

    def _let_go(self, outcome: Outcome, live: LiveWorkflow) -> None:
        around = self._around
        for instant, target in outcome.wakes:
            around.timers.add(instant, target)
        for task in outcome.tasks:
            if around.takers.unknown:
                self.offer_activity(live, task)
            else:
                around.exits.publish(task)
        for worker, notice in outcome.cancels:
            around.exits.notify(worker, notice)
        for delivery in outcome.deliveries or ():
            around.relay.send(delivery)

    def offer_activity(self, live: LiveWorkflow, task: Task, besides: str = "") -> None:
        """Offer an attempt to a worker that knows its activity; if none does, to whoever there is, a little later."""
        around, run = self._around, live.state.run
        activity = run.activities.get(task.command) if run is not None else None
        if run is None or activity is None:
            return
        fitting = around.takers.fitting(task, activity.event.name, run, besides)
        if fitting is not None:
            around.exits.publish(fitting)
        else:
            around.timers.add(around.clock.now() + RELEASE_PAUSE, task)

    def _task_for(self, live: LiveWorkflow, run: RunState, besides: str = "") -> Task | None:
        """The run's workflow task, kept from workers that cannot take it; None when that is all of them."""
        task, takers = workflow_task(live.state, run), self._around.takers
        if run.failed_builds or run.refused_builds or takers.unknown or besides:
            return takers.fitting(task, run.started.workflow_type, run, besides)
        return task

    def offer(self, live: LiveWorkflow, besides: str = "") -> None:
        """Offer the run to a worker if it has something to decide and is not on offer or claimed already.

        `besides` was handed it and did nothing: it comes last.
        """
        run = live.state.run
        if run is None or run.claim is not None or not (run.wants_decision or (live.updates is not None and live.wants_worker)):
            live.offered_at = 0  # whoever reported has taken the offer up, or there is nothing to offer
        elif not live.offered_at:
            task = self._task_for(live, run, besides)
            if task is not None:
                live.offered_at = self._around.clock.now()
                self._around.exits.publish(task)
        if self._around.queries.waiting:
            self._around.queries.changed(live)

    def _wake_waiters(self, live: LiveWorkflow, transition: Transition) -> None:
        for change in transition.runs:
            if change.run_id in live.waiters and change.events:
                for event in change.events:
                    if is_closing(event):
                        result = result_of(change.run_id, event)
                        for waiter in live.waiters.pop(change.run_id, ()):
                            if not waiter.done():
                                waiter.set_result(result)

    def _lost(self, pending: PendingWrite, error: BaseException) -> None:
        """The transition was not written: what was built on it here is not true."""
        live, answer = pending.live, pending.answer
        key = (live.state.namespace, live.state.workflow_id)
        if self.find(key) is live:
            self.forget(key)
            # Whoever held its tasks and claims may never ask again: without this the run would wait for the next restart.
            self._around.reload(key)
        if isinstance(error, Unwritable) and isinstance(pending.request, (Report, ReleaseWorkflow)):
            self._around.set_aside(pending, error)
        elif answer is not None:
            answer(None, error)

    # ---------------------------------------------------------------------------------------------------- start-up, sweeping

    def recover(self, live: LiveWorkflow) -> None:
        """After a restart: what workers of a dead owner process held is lost, what others hold is theirs for a claim's period; everything
        due is set to wake, tasks are offered."""
        state, around = live.state, self._around
        run = state.run
        self._ask_again(live)
        if run is None or run.closing is not None:
            return
        if run.activities:
            apply(state, TakenOver(around.clock.now(), int(around.limits.claim_lives_s * 1_000_000)))
        for activity in list(run.activities.values()):
            claim = activity.claim
            if claim is not None and not claim.outside and claim.incarnation not in {"", around.incarnation}:
                lost = ActivityDue(
                    namespace=state.namespace,
                    workflow_id=state.workflow_id,
                    run_id=run.run_id,
                    command=activity.event.id,
                    attempt=activity.attempt,
                    kind="lost",
                    token=claim.token,
                )
                self.submit(live, lost, None)
        self._owe(live)
        for instant, target in wakes_of(state):
            around.timers.add(instant, target)
        for task in tasks_of(state, around.clock.now()):
            if task.command:
                around.exits.publish(task)
        self.offer(live)

    def _ask_again(self, live: LiveWorkflow, error: BaseException | None = None) -> None:
        """Send what the workflow id owes to others, once all it holds is durable: it may have been asked for something new meanwhile."""
        if live.held is not None:
            self.release(live)
        if live.lost or error is not None:
            return
        if live.uncommitted:
            self._around.committer.append(Barrier(live, lambda _reply, error: self._ask_again(live, error), None, None))
            return
        for delivery in deliveries_of(live.state, asking=True):
            self._around.relay.send(delivery)

    def live_workflows(self) -> Iterator[LiveWorkflow]:
        yield from list(self.open.values())
