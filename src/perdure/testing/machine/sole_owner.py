"""The owner of one workflow id, without store, broker or clock: decides, applies, keeps histories, and checks the laws at every step."""

import heapq
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from perdure.core.codec import decode_transition, encode_transition
from perdure.core.events import AnyEvent
from perdure.core.limits import LIMITS, Limits
from perdure.core.machine import Outcome, apply, apply_transition, decide
from perdure.core.machine.messages import deliveries_of
from perdure.core.machine.outcome import Waker
from perdure.core.machine.wakes import tasks_of, wakes_of
from perdure.core.replies import ActivityClaimed, Rejection, Reported, WorkflowClaimed
from perdure.core.requests import AnyRequest, ClaimWorkflow, Report, ResetWorkflow
from perdure.core.state import RunState, WorkflowState
from perdure.core.tasks import CancelNotice, Task
from perdure.core.transition import Transition
from perdure.core.volatile import TakenOver
from perdure.testing.machine.laws import Key, check_change, check_waiting, check_woken, durable, image, key_of, must

if TYPE_CHECKING:
    from perdure.core.deliveries import Delivery
    from perdure.core.notes import AnyNote

EPOCH = 1_700_000_000_000_000


class SoleOwner:
    """`now` is its clock, in microseconds; whoever drives it moves it. With `checked` false it skips the laws and is several times faster.

    Replies are completed with events as the engine does. Raises `BrokenLawError` when a step breaks a law.
    """

    def __init__(
        self, workflow_id: str = "w", *, namespace: str = "default", checked: bool = True, limits: Limits | None = None
    ) -> None:
        self.now = EPOCH
        self.checked = checked
        limits = LIMITS if limits is None else limits
        self.state = WorkflowState(namespace=namespace, workflow_id=workflow_id, limits=limits)
        self.folded = WorkflowState(namespace=namespace, workflow_id=workflow_id, limits=limits)
        """Fold of what was written, read back from its text."""
        self.transitions: list[Transition] = []
        self.histories: dict[str, list[AnyEvent]] = {}
        """By run id, in the order of their starts."""
        self.notes: dict[str, list[AnyNote]] = {}
        self.published: dict[Key, Task] = {}
        self.deliveries: dict[Key, Delivery] = {}
        """Messages to other runs, sent and not taken away by whoever delivers them."""
        self.answered: set[Key] = set()
        """Messages whose answers are on their way."""
        self.cancels: list[tuple[str, CancelNotice]] = []
        self._wakes: list[tuple[int, int, Waker]] = []
        self._serial = count()

    @property
    def run(self) -> RunState:
        assert self.state.run is not None, "no run was started"
        return self.state.run

    @property
    def history(self) -> list[AnyEvent]:
        """Of the current run."""
        return self.histories[self.run.run_id]

    @property
    def wakes(self) -> list[Waker]:
        """Announced and still to come."""
        return [waker for _, _, waker in self._wakes]

    # --------------------------------------------------------------------------------------------------------- deciding

    def bring(self, request: AnyRequest) -> Outcome | Rejection:
        """Decide a request and take its outcome over. A reset gets its history here, as the engine does it."""
        if isinstance(request, ResetWorkflow) and self.state.run is not None and not request.events:
            history = self.histories.get(request.run_id or self.run.run_id, ())
            request = msgspec.structs.replace(request, events=tuple(history))
        decided = self._decide(request) if self.checked else decide(self.state, request, self.now)
        if isinstance(decided, Rejection):
            return decided
        if decided.transition is not None:
            self._write(decided.transition)
        for entry in decided.volatile:
            apply(self.state, entry)
        self._announce(decided)
        self._complete(request, decided)
        if self.checked:
            must("fold", durable(self.state) == durable(self.folded), f"after {type(request).__name__}")
            check_woken(self.state, self.now, {*self.published, *self.deliveries, *self.answered}, self.wakes)
            check_waiting(self.folded.run)
        return decided

    def _decide(self, request: AnyRequest) -> Outcome | Rejection:
        before = image(self.state)
        decided = decide(self.state, request, self.now)
        must("same", image(decided) == image(decide(self.state, request, self.now)), f"two answers to {request}")
        must("same", image(self.state) == before, f"deciding {request} has changed the state")
        return decided

    def _write(self, transition: Transition) -> None:
        if self.checked:
            for change in transition.runs:
                check_change(self.histories.get(change.run_id, ()), len(self.notes.get(change.run_id, ())), change)
            apply_transition(self.folded, decode_transition(encode_transition(transition)))
        apply_transition(self.state, transition)
        self.transitions.append(transition)
        for change in transition.runs:
            self.histories.setdefault(change.run_id, []).extend(change.events)
            self.notes.setdefault(change.run_id, []).extend(change.notes)

    def _announce(self, outcome: Outcome) -> None:
        for task in outcome.tasks:
            self.published[key_of(task)] = task
        for waker in outcome.wakes:
            heapq.heappush(self._wakes, (waker[0], next(self._serial), waker))
        self.cancels += outcome.cancels
        for delivery in outcome.deliveries or ():
            key = ("delivery", delivery.name)
            if key not in self.answered:  # what is under way is not sent again
                self.deliveries[key] = delivery
        if isinstance(outcome.reply, ActivityClaimed):
            claim = outcome.reply.claim
            self.published.pop(("task", claim.run_id, claim.scheduled.id, claim.attempt), None)

    def _complete(self, request: AnyRequest, outcome: Outcome) -> None:
        reply = outcome.reply
        if isinstance(reply, WorkflowClaimed) and isinstance(request, ClaimWorkflow):
            reply.events = tuple(self.history[request.held :])
        elif isinstance(reply, Reported) and isinstance(request, Report) and not reply.closed and request.based_on:
            reply.events = tuple(self.history[request.based_on :])

    # ------------------------------------------------------------------------------------------------------ time, crashes

    def fire(self) -> int:
        """Bring what is due by now; how many wakes there were."""
        fired = 0
        while self._wakes and self._wakes[0][0] <= self.now:
            _, _, (_, target) = heapq.heappop(self._wakes)
            fired += 1
            if isinstance(target, Task):
                self.published[key_of(target)] = target
            else:
                self.bring(target)
        return fired

    def sleep(self, microseconds: int) -> None:
        """Let time pass, bringing each wake at its instant."""
        until = self.now + microseconds
        while self._wakes and self._wakes[0][0] <= until:
            self.now = max(self.now, self._wakes[0][0])
            self.fire()
        self.now = max(self.now, until)

    def lose_last(self) -> None:
        """The last transition was not written after all. Nobody was told that it was; call `crash` next."""
        transition = self.transitions.pop()
        for change in transition.runs:
            for kept, lost in ((self.histories, change.events), (self.notes, change.notes)):
                entries: list[Any] = kept[change.run_id]
                del entries[len(entries) - len(lost) :]
        limits = self.folded.limits
        self.folded = WorkflowState(namespace=self.folded.namespace, workflow_id=self.folded.workflow_id, limits=limits)
        for transition in self.transitions:
            apply_transition(self.folded, decode_transition(encode_transition(transition)))

    def crash(self, lives_for: int = 0) -> None:
        """Forget what was not written, and begin again as an owner does: everything due is announced anew.

        With `lives_for` workers in other processes have so long to present what they hold; else every claim that is written stands.
        """
        old = self.state
        state = WorkflowState(namespace=old.namespace, workflow_id=old.workflow_id, limits=old.limits)
        for transition in self.transitions:
            apply_transition(state, decode_transition(encode_transition(transition)))
        self.state = state
        if lives_for and state.run is not None and state.run.is_open:
            apply(state, TakenOver(self.now, lives_for))
        self.published = {key_of(task): task for task in tasks_of(state, self.now) if task.command}
        self.deliveries = {("delivery", delivery.name): delivery for delivery in deliveries_of(state, asking=True)}
        self._wakes = []
        for waker in wakes_of(state):
            heapq.heappush(self._wakes, (waker[0], next(self._serial), waker))


def text(value: str) -> Raw:
    """A payload holding a short text without quotes in it."""
    return Raw(b'"%b"' % value.encode())
