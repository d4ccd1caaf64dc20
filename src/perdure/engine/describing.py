"""Describing a run: from memory where it is, from its record where it is over, and only what is durable."""

from msgspec.structs import replace

from perdure.core.description import Description, describe
from perdure.core.machine.apply import apply, in_order
from perdure.core.machine.targets import not_found
from perdure.core.state import WorkflowState
from perdure.engine import damaged
from perdure.engine.owner import error_of
from perdure.engine.waiting import House
from perdure.ports import Record


async def describe_run(house: House, namespace: str, workflow_id: str, run_id: str, now: int) -> Description:
    """A run as it is now, durable. Raises `NotFound`."""
    house.check_running()
    live = await house.owner((namespace, workflow_id)).load((namespace, workflow_id))
    run = live.state.run
    if run is None:
        raise error_of(not_found(live.state, run_id))
    if run_id and run_id != run.run_id:
        record = await house.record(namespace, workflow_id, run_id)
        state = _state_of(namespace, record)
        assert state.run is not None
        return describe(state, state.run, now)
    description = describe(live.state, run, now, house.is_served)
    if run.closing is None and (unfit := house.why_nobody(live.state)):
        description = replace(description, standstill=description.standstill + unfit)
    if live.updates is not None:
        description = replace(description, pending=description.pending + live.updates.pending())
    if live.uncommitted:  # what it says leaves only when it is durable
        if live.held is not None:
            house.owner((namespace, workflow_id)).release(live)
        await house.settled()
    return description


def _state_of(namespace: str, record: Record) -> WorkflowState:
    """The state of a run that is not the current one of its workflow id."""
    if record.damage is not None:
        return damaged.state_of(namespace, record)
    state = WorkflowState(namespace=namespace, workflow_id=record.workflow_id)
    for entry in in_order(record.events, record.notes):
        apply(state, entry)
    return state
