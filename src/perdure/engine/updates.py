"""Updates of one workflow id in its owner's memory: those that wait for the run's code, and who waits to hear how one stands or ended.

Nothing of it is written: a crash forgets it, clients hear `Unavailable` and may send the same update id again. Whoever is answered here
is answered behind the commit of what the answer says.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from perdure.core.description import Pending
from perdure.core.errors import PerdureError, ResourceExhausted, Unavailable
from perdure.core.events import (
    CLOSING_KINDS,
    AnyEvent,
    Reset,
    UpdateAccepted,
    UpdateBody,
    UpdateCompleted,
    UpdateFailed,
)
from perdure.core.machine.updates import ended
from perdure.core.payload import size_of
from perdure.core.replies import Reported, UpdateResult
from perdure.core.requests import AnyRequest, RefusedUpdate, Report, UpdateWorkflow
from perdure.core.transition import Transition
from perdure.engine.pending import WriteLost

if TYPE_CHECKING:
    import asyncio

    from perdure.core.state import RunState
    from perdure.ports import Answer

OFFERED_MAX: Final = 100
OFFERED_BYTES: Final = 4 * 1024 * 1024
"""So many updates, with so many payload bytes, come with one claim or report at most: what a decision accepts must fit into one."""

ANSWERED_MAX: Final = 1_000
"""So many callers may wait for one update that waits."""

BUSY_S: Final = 1.0
"""When too many wait, the next is worth sending after so many seconds."""


class WaitingUpdate:
    """One update that no code has taken. `settled`: a decision that is applied here but not durable yet has taken or refused it."""

    __slots__ = ("answers", "body", "pinned", "run_id", "settled")

    def __init__(self, body: UpdateBody, run_id: str, *, pinned: bool = False) -> None:
        self.body = body
        self.run_id = run_id
        """The run it waits for; its successor, when that continues."""
        self.pinned = pinned
        """It is meant for that run alone."""
        self.settled = False
        self.answers: list[Answer] = []


class Updates:
    """Made when the first update of a workflow id comes, dropped when nothing waits any more (`is_empty`)."""

    __slots__ = ("_ends", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[str, WaitingUpdate] = {}
        self._ends: dict[tuple[str, str], list[asyncio.Future[UpdateResult]]] = {}
        """By run id and update id: who waits for the end of an update that run has accepted."""

    @property
    def is_empty(self) -> bool:
        return not self._waiting and not self._ends

    # ------------------------------------------------------------------------------------------------------------- waiting

    def owe(self, run: "RunState") -> None:
        """Take over what a reset left to be accepted again."""
        for update_id, body in (run.owed or {}).items():
            self._waiting.setdefault(update_id, WaitingUpdate(body, run.run_id))

    def join(self, update_id: str, answer: "Answer | None") -> bool:
        """Let `answer` hear what becomes of an update that is here already; false when it is not.

        Raises `ResourceExhausted` when `ANSWERED_MAX` wait for the same one: who gives up waiting is not taken off the list.
        """
        known = self._waiting.get(update_id)
        if known is None:
            return False
        if len(known.answers) >= ANSWERED_MAX:
            raise ResourceExhausted(
                f"update {update_id!r} was sent {ANSWERED_MAX} times and still waits; the limit (answered_max) is {ANSWERED_MAX}",
                retry_after=BUSY_S,
            )
        if answer is not None:
            known.answers.append(answer)
        return True

    def wait(self, request: UpdateWorkflow, run_id: str, answer: "Answer | None", limit: int) -> None:
        """Keep a new update until the run's code has taken or refused it. Raises `ResourceExhausted` when `limit` of them wait."""
        if len(self._waiting) >= limit:
            raise ResourceExhausted(
                f"{limit} updates wait for workflow {request.workflow_id!r}; the limit (updates_waiting_max) is {limit}",
                retry_after=BUSY_S,
            )
        body = UpdateBody(update_id=request.update_id, name=request.name, input=request.input, keywords=request.keywords)
        waiting = self._waiting[request.update_id] = WaitingUpdate(body, run_id, pinned=bool(request.run_id))
        if answer is not None:
            waiting.answers.append(answer)

    def offered(self) -> tuple[UpdateBody, ...]:
        """What a worker that claims or reports is to be offered, oldest first."""
        offered: list[UpdateBody] = []
        size = 0
        for waiting in self._open():
            size += size_of(waiting.body.input) + sum(len(value) for value in waiting.body.keywords.values())
            if offered and (size > OFFERED_BYTES or len(offered) >= OFFERED_MAX):
                break
            offered.append(waiting.body)
        return tuple(offered)

    def waits_for_code(self) -> bool:
        """There is something to offer."""
        return any(True for _ in self._open())

    def _open(self) -> Iterator[WaitingUpdate]:
        return (waiting for waiting in self._waiting.values() if not waiting.settled)

    def pending(self) -> tuple[Pending, ...]:
        """What waits, for people: one line, however many there are."""
        names = [waiting.body.name for waiting in self._open()]
        if not names:
            return ()
        state = (
            "waiting for the run's code"
            if len(names) == 1
            else f"{len(names)} waiting for the run's code, this one for longest"
        )
        return (Pending(kind="update", name=names[0], state=state),)

    # ------------------------------------------------------------------------------------------------------------- deciding

    def decided(self, request: AnyRequest, reply: object, transition: Transition | None) -> None:
        """A decision was applied: what it has taken or refused is not offered again, unless its write fails."""
        for refused in _refusals(request, reply):
            if (waiting := self._waiting.get(refused.update_id)) is not None:
                waiting.settled = True
        if transition is not None:
            for event in _events(transition):
                if isinstance(event, UpdateAccepted) and (waiting := self._waiting.get(event.update_id)) is not None:
                    waiting.settled = True

    def written(self, request: AnyRequest, reply: object, transition: Transition | None) -> None:
        """It is durable: tell whoever waits."""
        for refused in _refusals(request, reply):
            result = UpdateResult(
                run_id=getattr(request, "run_id", ""), update_id=refused.update_id, status="rejected", failure=refused.failure
            )
            self._answer(refused.update_id, result)
        if transition is None:
            return
        ends = {
            event.command: ended(change.run_id, event)
            for change in transition.runs
            for event in change.events
            if isinstance(event, (UpdateCompleted, UpdateFailed))
        }
        for result in ends.values():
            self._tell_end(result)
        for change in transition.runs:
            for event in change.events:
                if isinstance(event, UpdateAccepted):
                    self._accepted(change.run_id, event, ends)
                elif type(event) in CLOSING_KINDS:
                    self._closed(change.run_id, event, transition)

    def _accepted(self, run_id: str, event: UpdateAccepted, ends: dict[int, UpdateResult]) -> None:
        result = ends.get(event.id)
        if result is None or result.run_id != run_id:
            result = UpdateResult(run_id=run_id, update_id=event.update_id, status="accepted", command=event.id)
        self._answer(event.update_id, result)

    def _closed(self, run_id: str, closing: AnyEvent, transition: Transition) -> None:
        """A run has ended: what waits goes on to its successor when there is one, else it is over, like the handlers that ran."""
        last = transition.runs[-1]
        goes_on = bool(getattr(closing, "next_run_id", "")) or any(isinstance(event, Reset) for event in last.events)
        over = Unavailable(f"run {run_id} ended before it had taken the update: send it again, under the same update id")
        for update_id, waiting in list(self._waiting.items()):
            if waiting.settled or waiting.run_id != run_id:
                continue
            if goes_on and not waiting.pinned:
                waiting.run_id = last.run_id
            else:
                self._refuse(update_id, over)
        for key in [key for key in self._ends if key[0] == run_id]:
            _fail(self._ends.pop(key), cut_off(run_id))

    def _answer(self, update_id: str, result: UpdateResult) -> None:
        waiting = self._waiting.pop(update_id, None)
        for answer in waiting.answers if waiting is not None else ():
            answer(result, None)

    def _refuse(self, update_id: str, error: PerdureError) -> None:
        for answer in self._waiting.pop(update_id).answers:
            answer(None, error)

    # ----------------------------------------------------------------------------------------------------------------- ends

    def await_end(self, run_id: str, update_id: str, waiter: "asyncio.Future[UpdateResult]") -> None:
        """Let `waiter` hear how an accepted update ends, or that its run has ended first."""
        self._ends.setdefault((run_id, update_id), []).append(waiter)

    def give_up(self, run_id: str, update_id: str, waiter: "asyncio.Future[UpdateResult]") -> None:
        """Nobody listens any more."""
        waiters = self._ends.get((run_id, update_id), [])
        if waiter in waiters:
            waiters.remove(waiter)
        if not waiters:
            self._ends.pop((run_id, update_id), None)

    def _tell_end(self, result: UpdateResult) -> None:
        for waiter in self._ends.pop((result.run_id, result.update_id), ()):
            if not waiter.done():
                waiter.set_result(result)

    # ----------------------------------------------------------------------------------------------------------------- over

    def fail(self, error: PerdureError) -> None:
        """Nobody will be told anything else."""
        for update_id in list(self._waiting):
            self._refuse(update_id, error)
        ends, self._ends = self._ends, {}
        for waiters in ends.values():
            _fail(waiters, error)


def cut_off(run_id: str) -> Unavailable:
    """What whoever waits for an update's end hears when its run has ended first."""
    return Unavailable(f"run {run_id} ended before the update's handler did: send the update again, under the same update id")


def _fail(waiters: "list[asyncio.Future[UpdateResult]]", error: PerdureError) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_exception(error)


def lost() -> WriteLost:
    return WriteLost("the run's last write failed; send the update again, under the same update id")


def _events(transition: Transition) -> Iterator[AnyEvent]:
    for change in transition.runs:
        yield from change.events


def _refusals(request: AnyRequest, reply: object) -> tuple[RefusedUpdate, ...]:
    if isinstance(request, Report) and request.refused and isinstance(reply, Reported) and reply.accepted:
        return request.refused
    return ()
