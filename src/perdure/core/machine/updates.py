"""Updates: what a client's means for a workflow id, which may still be accepted, and what becomes of those a reset cut off.

Those that wait are no part of any state: they live in the owner's memory and come with the claims and reports of workers. A run that
has accepted one remembers it until its handler has ended, and the workflow id remembers its id for as long as those of signals.
"""

from collections.abc import Collection, Iterable
from typing import Any, Final

from perdure.core.commands import AcceptUpdate, CompleteUpdate, FailUpdate
from perdure.core.events import AnyEvent, Reset, UpdateAccepted, UpdateBody, UpdateCompleted, UpdateFailed
from perdure.core.machine.outcome import Decided, only
from perdure.core.machine.targets import open_run
from perdure.core.replies import Rejection, UpdateResult, UpdateWaits
from perdure.core.requests import UpdateWorkflow
from perdure.core.state import RunState, WorkflowState


def update(state: WorkflowState, request: UpdateWorkflow, now: int) -> Decided:  # noqa: ARG001 – nothing is written of it yet
    """One that is remembered stands as it stands; a new one waits for the code of the open run."""
    run = state.run
    owed = run is not None and run.owed is not None and request.update_id in run.owed
    known = state.update_ids.get(request.update_id)
    if known is not None and not owed:
        return only(UpdateResult(run_id=known.run_id, update_id=request.update_id, status="accepted", command=known.command))
    found = open_run(state, request.run_id)
    if isinstance(found, Rejection):
        return found
    return only(UpdateWaits(run_id=found.run_id))


UPDATE_COMMANDS: Final = frozenset[type]({AcceptUpdate, CompleteUpdate, FailUpdate})


class OpenUpdates:
    """Updates of a run that are accepted and not ended, as one report goes through them."""

    __slots__ = ("_open", "_run", "_state", "_taken")

    def __init__(self, state: WorkflowState, run: RunState) -> None:
        self._state = state
        self._run = run
        self._open = {update_id: number for number, update_id in (run.updates or {}).items()}
        """By update id: what its end must refer to."""
        self._taken: set[str] = set()

    def take(self, command: Any, place: int) -> bool:
        """Go on with the command at `place` of the report; false when no run could have asked for it."""
        update_id: str = command.update_id
        if type(command) is not AcceptUpdate:
            target: int = command.target
            return self._open.pop(update_id, 0) == target
        if update_id in self._taken or not self._may_accept(update_id):
            return False
        self._taken.add(update_id)
        self._open[update_id] = -place
        return True

    def _may_accept(self, update_id: str) -> bool:
        """There is one execution: what was accepted before is not, unless a reset cut it off."""
        return update_id not in self._state.update_ids or (self._run.owed is not None and update_id in self._run.owed)


def still_waiting(waiting: Iterable[UpdateBody], *settled: Collection[str]) -> tuple[UpdateBody, ...]:
    """Those of `waiting` whose id is in none of `settled`."""
    return tuple(body for body in waiting if not any(body.update_id in ids for ids in settled))


def wants_code(run: RunState) -> bool:
    """Updates that wait for this run may be offered: it is open, not paused, and its code has begun or may begin."""
    return run.closing is None and not run.paused and not run.delayed_until


def redelivered(later: Iterable[AnyEvent]) -> tuple[UpdateBody, ...]:
    """What a reset owes the new run: the updates accepted among the events behind the point of the reset, in order.

    A reset among those events is undone with them: what it owed, taken again since or not, is owed by the new one. They go into
    `Reset.updates`. From there the state knows them as owed, the owner offers them with the next claim, and the code takes them again
    without asking a validator: a client was told that they are accepted.
    """
    owed: dict[str, UpdateBody] = {}
    for event in later:
        if isinstance(event, Reset):
            owed |= {update.update_id: update for update in event.updates if update.update_id not in owed}
        elif isinstance(event, UpdateAccepted):
            body = UpdateBody(
                update_id=event.update_id, name=event.name, input=event.input, keywords=event.keywords, accepted=True
            )
            owed.setdefault(event.update_id, body)
    return tuple(owed.values())


def still_owed(run: RunState, events: Iterable[AnyEvent]) -> tuple[UpdateBody, ...]:
    """What the run owes and `events`, decided now, have not taken: its successor starts with it."""
    if not run.owed:
        return ()
    taken = {event.update_id for event in events if isinstance(event, UpdateAccepted)}
    return tuple(body for update_id, body in run.owed.items() if update_id not in taken)


def standing(run_id: str, update_id: str, events: Iterable[AnyEvent]) -> UpdateResult | None:
    """How an update stands by the history of its run; None when that never accepted it."""
    found: UpdateResult | None = None
    for event in events:
        if isinstance(event, UpdateAccepted) and event.update_id == update_id:
            found = UpdateResult(run_id=run_id, update_id=update_id, status="accepted", command=event.id)
        elif found is not None and isinstance(event, (UpdateCompleted, UpdateFailed)) and event.command == found.command:
            return ended(run_id, event)
    return found


def ended(run_id: str, event: UpdateCompleted | UpdateFailed) -> UpdateResult:
    """How an update ended."""
    if isinstance(event, UpdateCompleted):
        return UpdateResult(
            run_id=run_id, update_id=event.update_id, status="completed", command=event.command, result=event.result
        )
    return UpdateResult(run_id=run_id, update_id=event.update_id, status="failed", command=event.command, failure=event.failure)
