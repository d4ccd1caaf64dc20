"""What stands in the commit queue: writes with what they let go, and barriers that must not overtake them. See `committer.Entry`."""

from typing import TYPE_CHECKING, Any, Protocol

from perdure.core.errors import InvalidArgument, PerdureError, ResourceExhausted, Unavailable

if TYPE_CHECKING:
    import asyncio

    from perdure.core.machine import Outcome
    from perdure.core.requests import AnyRequest
    from perdure.core.state import RunState
    from perdure.core.transition import Transition
    from perdure.engine.live import HeldWrite, LiveWorkflow
    from perdure.ports import Answer


class Writer(Protocol):
    """Whoever wants to know what became of a write."""

    def written(self, pending: "PendingWrite", error: BaseException | None) -> None: ...


class PendingWrite:
    """A transition on its way to the store, with what is let go when it is durable."""

    __slots__ = ("_owner", "answer", "before", "first", "live", "outcome", "request", "transition")

    def __init__(
        self,
        owner: Writer,
        live: "LiveWorkflow",
        request: "AnyRequest",
        outcome: "Outcome",
        transition: "Transition",
        answer: "Answer | None",
        before: "RunState | None" = None,
    ) -> None:
        self._owner = owner
        self.live = live
        self.request = request
        self.outcome = outcome
        self.transition = transition
        self.answer = answer
        self.before = before
        """The run that was current when this was decided."""
        self.first: HeldWrite | None = None
        """What rides in the same commit and comes before: the start whose first decision this is.

        It hears with this one what became of it, unless one of the two cannot be written: then it is brought again, alone.
        """

    @property
    def is_void(self) -> bool:
        return self.live.lost

    def name_of(self, run_id: str, command: int) -> str:
        """What a command of the current run is called; empty when its history is not at hand."""
        live = self.live
        run, history = live.state.run, live.history
        if run is None or run.run_id != run_id or history is None or not 0 < command <= len(history):
            return ""
        return str(getattr(history[command - 1], "name", ""))

    def __call__(self, error: BaseException | None) -> None:
        if self.first is not None and not isinstance(error, Unwritable):
            self.first(error)
        self._owner.written(self, error)


class Barrier:
    """An answer that wrote nothing but must not overtake what it speaks of: earlier writes of the same workflow id.

    If one of those was lost it is not given. A group that was refused for want of room takes others' writes with it, and not this: what
    was decided here without writing (a claim) stands, and whoever asked must hear of it.
    """

    __slots__ = ("_answer", "_error", "_live", "_reply")
    transition: "Transition | None" = None

    def __init__(self, live: "LiveWorkflow", answer: "Answer", reply: Any, error: PerdureError | None) -> None:
        self._live = live
        self._answer = answer
        self._reply = reply
        self._error = error

    @property
    def is_void(self) -> bool:
        return self._live.lost

    def __call__(self, fault: BaseException | None) -> None:
        error = self._error
        if self._live.lost:
            error = Unavailable("the write it depended on failed")
        elif fault is not None and not isinstance(fault, ResourceExhausted):
            self._answer(None, fault)
            return
        self._answer(None if error is not None else self._reply, error)


class Passage:
    """A barrier that wakes a future."""

    __slots__ = ("_future",)
    transition: "Transition | None" = None
    is_void = False

    def __init__(self, future: "asyncio.Future[None]") -> None:
        self._future = future

    def __call__(self, error: BaseException | None) -> None:
        if self._future.done():
            return
        if error is None:
            self._future.set_result(None)
        else:
            self._future.set_exception(error)


class Unwritable(InvalidArgument):
    """What a request asked for cannot be written down; the message says what of it."""


class WriteLost(Unavailable):
    """What a wait was built on was not written; the run itself is as it was, and may be asked again at once."""
