"""Inputs: what the code is fed, and what that settles."""

from collections.abc import Callable
from typing import Any, Final

from perdure.core import events as ev
from perdure.core.machine.applying.memory import remember
from perdure.core.machine.applying.places import input_appended
from perdure.core.payload import size_of
from perdure.core.state import RunState, WorkflowState


def _started(state: WorkflowState, event: ev.Started) -> None:
    run = RunState(started=event, attributes=event.attributes, datetimes=event.attribute_datetimes, paused=event.paused)
    if event.paused:
        run.status = "paused"
    if event.start_delay:
        run.delayed_until = event.time + event.start_delay
    if event.updates:
        run.owed = {update.update_id: update for update in event.updates}
    run.length = run.last_input = event.id
    run.last_time = event.time
    run.bytes = size_of(event.input)
    state.run = run
    state.start_request_id = event.request_id
    if state.kin is not None and (not event.continued_from or event.attempt > 1):
        state.kin = None  # another chain begins, or another attempt: the children of the one that failed were told of its end
    if event.parent is not None:
        _child_of(state, event)


def _child_of(state: WorkflowState, event: ev.Started) -> None:
    if state.child_starts is None:
        state.child_starts = {}
    starts = state.child_starts
    starts.setdefault(event.request_id, event.run_id)
    if len(starts) > state.limits.remembered_ids_max:
        del starts[next(iter(starts))]


def _activity_answered(
    state: WorkflowState, event: ev.ActivityCompleted | ev.ActivityFailed | ev.ActivityTimedOut | ev.ActivityCancelled
) -> None:
    run = input_appended(state, event)
    run.activities.pop(event.command, None)
    if event.command in run.unnoted:
        run.unnoted.remove(event.command)
    if isinstance(event, ev.ActivityCompleted):
        run.bytes += len(event.result)


def _timer_fired(state: WorkflowState, event: ev.TimerFired) -> None:
    input_appended(state, event).timers.pop(event.command, None)


def _signal_received(state: WorkflowState, event: ev.SignalReceived) -> None:
    run = input_appended(state, event)
    run.unseen_signals.append(event)
    run.bytes += size_of(event.input)
    if event.signal_id:
        remember(state.limits, state.signal_ids, event.signal_id, event.time)


def _cancel_requested(state: WorkflowState, event: ev.CancelRequested) -> None:
    run = input_appended(state, event)
    run.unseen_cancels.append(event)
    if event.request_id:
        remember(state.limits, state.cancel_ids, event.request_id, event.time)


def _reset(state: WorkflowState, event: ev.Reset) -> None:
    run = input_appended(state, event)
    run.reset_to, run.reset_at = event.run_id, event.time
    for activity in run.activities.values():
        activity.again_at = event.time
    if event.request_id:
        _remember_reset(state, event)
    if event.updates:
        run.owed = (run.owed or {}) | {update.update_id: update for update in event.updates}


def _remember_reset(state: WorkflowState, event: ev.Reset) -> None:
    ids = state.reset_ids = state.reset_ids or {}
    ids.setdefault(event.request_id, event.run_id)
    if len(ids) > state.limits.remembered_ids_max:
        del ids[next(iter(ids))]


def _child_started(state: WorkflowState, event: ev.ChildStarted) -> None:
    child = (input_appended(state, event).children or {}).get(event.command)
    if child is not None:
        child.run_id = event.run_id


def _child_over(state: WorkflowState, event: ev.ChildStartFailed | ev.ChildClosed) -> None:
    run = input_appended(state, event)
    if run.children is not None:
        run.children.pop(event.command, None)
        run.children = run.children or None
    if isinstance(event, ev.ChildClosed):
        run.bytes += len(event.result)


def _external_answered(
    state: WorkflowState,
    event: ev.ExternalSignalDelivered | ev.ExternalSignalFailed | ev.ExternalCancelDelivered | ev.ExternalCancelFailed,
) -> None:
    run = input_appended(state, event)
    if run.externals is not None:
        run.externals.pop(event.command, None)
        run.externals = run.externals or None


INPUTS: Final[dict[type, Callable[[WorkflowState, Any], None]]] = {
    ev.Started: _started,
    ev.ActivityCompleted: _activity_answered,
    ev.ActivityFailed: _activity_answered,
    ev.ActivityTimedOut: _activity_answered,
    ev.ActivityCancelled: _activity_answered,
    ev.TimerFired: _timer_fired,
    ev.SignalReceived: _signal_received,
    ev.ChildStarted: _child_started,
    ev.ChildStartFailed: _child_over,
    ev.ChildClosed: _child_over,
    ev.ExternalSignalDelivered: _external_answered,
    ev.ExternalSignalFailed: _external_answered,
    ev.ExternalCancelDelivered: _external_answered,
    ev.ExternalCancelFailed: _external_answered,
    ev.CancelRequested: _cancel_requested,
    ev.Reset: _reset,
}
