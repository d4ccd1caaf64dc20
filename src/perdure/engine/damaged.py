"""A run part of whose history is lost, as its owner holds it: quarantined for good, with nothing that could make it go on.

No decision, timer or task comes of it. It can be described, listed, read as far as it is whole, and terminated; then, or when a start
ends it, its workflow id can be used again. One that had closed, in any other way than by being terminated, is quarantined too, so that the
damage is seen; while its end is whole it gives its result, and its workflow id is free as after any other.
"""

from typing import Final

from msgspec.structs import replace

from perdure.core.events import Started, Terminated
from perdure.core.machine import apply
from perdure.core.notes import Quarantined
from perdure.core.requests import AnyRequest, StartWorkflow, TerminateWorkflow
from perdure.core.state import RunState, WorkflowState
from perdure.ports import Record

_ALLOWED: Final[frozenset[type[AnyRequest]]] = frozenset({StartWorkflow, TerminateWorkflow})


def may_decide(request: AnyRequest) -> bool:
    """True for requests that need nothing of the history that is lost."""
    return type(request) in _ALLOWED


def state_of(namespace: str, record: Record) -> WorkflowState:
    """The state to answer from. What stands in it beside the run's closing is for descriptions only."""
    assert record.damage is not None
    damage = record.damage
    first = record.events[0] if record.events else None
    started = (
        replace(first, timeout=0)
        if isinstance(first, Started)
        else Started(id=1, time=0, workflow_type="", queue="", run_id=record.run_id, seed=0)
    )
    lost = Quarantined(id=damage.last_note, time=0, reason=damage.reason)
    run = RunState(
        started=replace(started, run_id=record.run_id),
        status="quarantined",
        length=damage.last_event,
        notes=damage.last_note,
        last_time=max((entry.time for entry in (*record.events, *record.notes)), default=0),
        covered=damage.last_event,
        quarantine=lost,
    )
    state = WorkflowState(namespace=namespace, workflow_id=record.workflow_id, run=run, start_request_id=started.request_id)
    if damage.closing is not None:
        run.length = damage.closing.id - 1
        apply(state, damage.closing)
        if not isinstance(damage.closing, Terminated):  # of a terminated one nothing more is wanted
            run.status, run.quarantine = "quarantined", lost
    return state
