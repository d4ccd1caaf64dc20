"""Commands recorded, and the ends of runs."""

from collections.abc import Callable
from typing import Any, Final

from perdure.core import events as ev
from perdure.core.machine.applying.memory import remember, remember_update
from perdure.core.machine.applying.places import appended, command_appended
from perdure.core.machine.attributes import merged
from perdure.core.payload import size_of
from perdure.core.state import CHILDREN, AcceptedUpdate, ActivityState, ChildState, ExternalState, RunState, WorkflowState


def _activity_scheduled(state: WorkflowState, event: ev.ActivityScheduled) -> None:
    run = command_appended(state, event)
    run.activities[event.id] = ActivityState(event=event)
    run.ordinals[event.name] = event.ordinal
    run.bytes += size_of(event.input)


def _activity_cancel_requested(state: WorkflowState, event: ev.ActivityCancelRequested) -> None:
    activity = command_appended(state, event).activities.get(event.command)
    if activity is not None:
        activity.cancel_requested = True


def _timer_started(state: WorkflowState, event: ev.TimerStarted) -> None:
    command_appended(state, event).timers[event.id] = event


def _timer_cancelled(state: WorkflowState, event: ev.TimerCancelled) -> None:
    command_appended(state, event).timers.pop(event.command, None)


def _attributes_set(state: WorkflowState, event: ev.AttributesSet) -> None:
    run = command_appended(state, event)
    run.attributes, run.datetimes = merged(run.attributes, run.datetimes, event)


def _details_set(state: WorkflowState, event: ev.DetailsSet) -> None:
    command_appended(state, event).details = event.details


def _update_accepted(state: WorkflowState, event: ev.UpdateAccepted) -> None:
    run = command_appended(state, event)
    run.bytes += size_of(event.input)
    if run.updates is None:
        run.updates = {}
    run.updates[event.id] = event.update_id
    if run.owed:
        run.owed.pop(event.update_id, None)
    remember_update(
        state.limits, state.update_ids, event.update_id, AcceptedUpdate(time=event.time, run_id=run.run_id, command=event.id)
    )


def _update_ended(state: WorkflowState, event: ev.UpdateCompleted | ev.UpdateFailed) -> None:
    run = command_appended(state, event)
    if run.updates is not None:
        run.updates.pop(event.command, None)
    if isinstance(event, ev.UpdateCompleted):
        run.bytes += len(event.result)


def _child_requested(state: WorkflowState, event: ev.ChildRequested) -> None:
    run = command_appended(state, event)
    if run.children is None:
        run.children = {}
    run.children[event.id] = ChildState(event=event, request_id=run.message_id(event.id))
    run.ordinals[CHILDREN] = run.ordinals.get(CHILDREN, 0) + 1
    run.bytes += size_of(event.input)


def _child_cancel_requested(state: WorkflowState, event: ev.ChildCancelRequested) -> None:
    child = (command_appended(state, event).children or {}).get(event.command)
    if child is not None:
        child.cancel = event


def _external_requested(state: WorkflowState, event: ev.ExternalSignalRequested | ev.ExternalCancelRequested) -> None:
    run = command_appended(state, event)
    if run.externals is None:
        run.externals = {}
    run.externals[event.id] = ExternalState(event=event, request_id=run.message_id(event.id))
    if isinstance(event, ev.ExternalSignalRequested):
        run.bytes += size_of(event.input)


def _plain_command(state: WorkflowState, event: ev.CommandEvent) -> None:
    command_appended(state, event)


def _close(state: WorkflowState, run: RunState, event: Any) -> None:
    if run.children is not None and isinstance(event, ev.ContinuedAsNew):
        _hand_down(state, run.children)
    run.children = run.externals = None
    run.closing = event
    run.status = "continued" if isinstance(event, ev.ContinuedAsNew) else event.type
    run.activities = {}
    run.timers = {}
    run.unnoted = []
    run.quarantine = None
    run.claim = None
    if run.updates or run.owed:
        for update_id in (*(run.updates or {}).values(), *(run.owed or ())):
            state.update_ids.pop(update_id, None)  # it was not carried out to its end, and may be sent again
    run.updates = run.owed = None


def _hand_down(state: WorkflowState, children: dict[int, ChildState]) -> None:
    """Children outlive a run that continues as new: the chain's last close is the one that matters to them."""
    for child in children.values():
        if child.event.on_parent_close != "abandon":
            state.kin = state.kin or {}
            state.kin[child.request_id] = child


def _closed_by_code(state: WorkflowState, event: ev.ClosingEvent) -> None:
    _close(state, command_appended(state, event), event)


def _closed_by_engine(state: WorkflowState, event: ev.Terminated | ev.TimedOut) -> None:
    _close(state, appended(state, event), event)
    if isinstance(event, ev.Terminated) and event.request_id:
        remember(state.limits, state.terminate_ids, event.request_id, event.time)


COMMANDS: Final[dict[type, Callable[[WorkflowState, Any], None]]] = {
    ev.ActivityScheduled: _activity_scheduled,
    ev.ActivityCancelRequested: _activity_cancel_requested,
    ev.TimerStarted: _timer_started,
    ev.TimerCancelled: _timer_cancelled,
    ev.VersionMarked: _plain_command,
    ev.SideEffectRecorded: _plain_command,
    ev.ChildRequested: _child_requested,
    ev.ChildCancelRequested: _child_cancel_requested,
    ev.ExternalSignalRequested: _external_requested,
    ev.ExternalCancelRequested: _external_requested,
    ev.AttributesSet: _attributes_set,
    ev.DetailsSet: _details_set,
    ev.UpdateAccepted: _update_accepted,
    ev.UpdateCompleted: _update_ended,
    ev.UpdateFailed: _update_ended,
    ev.Completed: _closed_by_code,
    ev.Failed: _closed_by_code,
    ev.Cancelled: _closed_by_code,
    ev.ContinuedAsNew: _closed_by_code,
    ev.Terminated: _closed_by_engine,
    ev.TimedOut: _closed_by_engine,
}
