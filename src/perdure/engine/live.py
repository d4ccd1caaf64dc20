"""A workflow id as it lives in its owner's memory: the state, the history of its run while it is warm, and what waits on it."""

from typing import TYPE_CHECKING, Any, Protocol

from perdure.core.machine.updates import wants_code
from perdure.core.state import WorkflowState
from perdure.core.transition import Transition

if TYPE_CHECKING:
    import asyncio

    from perdure.core.errors import HistoryDamaged
    from perdure.core.replies import RunResult
    from perdure.core.requests import AnyRequest
    from perdure.engine.updates import Updates
    from perdure.ports import Answer


class HeldWrite(Protocol):
    """An entry of the commit queue that is kept back; see `engine.committer.Entry`."""

    request: "AnyRequest"
    answer: "Answer | None"

    @property
    def transition(self) -> Transition: ...

    @property
    def is_void(self) -> bool: ...

    def __call__(self, error: BaseException | None, /) -> None: ...


class LiveWorkflow:
    """`history` holds every event of the current run, or None when it must be read from the store first."""

    __slots__ = ("damage", "held", "history", "looked_at", "lost", "offered_at", "state", "uncommitted", "updates", "waiters")

    def __init__(self, state: WorkflowState, history: list[Any] | None) -> None:
        self.state = state
        self.history = history
        self.damage: HistoryDamaged | None = None
        """Part of the current run's history is lost: see `engine.damaged`."""
        self.uncommitted = 0
        """Transitions applied here and not yet known to be durable."""
        self.held: HeldWrite | None = None
        """A start kept back for a moment, so that its first decision can ride in the same commit."""
        self.lost = False
        """A write of it failed: what was applied here since is not true, and nothing of it may be written."""
        self.offered_at = 0
        """When the workflow task was last offered and not yet claimed; 0 = it is not on offer."""
        self.looked_at = 0
        """Events and notes there were at the last look for runs to park."""
        self.waiters: dict[str, list[asyncio.Future[RunResult]]] = {}
        """By run id: who waits for its close."""
        self.updates: Updates | None = None
        """Updates that wait for the run's code, and who waits for those it accepted; None while there is neither."""

    def append(self, transition: Transition) -> None:
        """Take over what a transition adds to the current run's history."""
        for change in transition.runs:
            events = change.events
            if not events:
                continue
            if events[0].id == 1:
                self.history = list(events)
                self.offered_at = 0  # what was on offer was the run before
            elif self.history is not None:
                self.history.extend(events)

    @property
    def is_idle(self) -> bool:
        """Nothing would be missed if it were dropped and loaded again."""
        return not self.uncommitted and self.held is None and not self.waiters and self.updates is None

    @property
    def wants_worker(self) -> bool:
        """The run has something to decide: an input no decision has seen, or an update that waits for its code."""
        run = self.state.run
        if run is None:
            return False
        if run.wants_decision:
            return True
        updates = self.updates
        return updates is not None and wants_code(run) and updates.waits_for_code()
