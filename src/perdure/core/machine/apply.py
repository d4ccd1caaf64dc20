"""The only writer of state. One small function per kind of entry; each says what that entry changes and nothing else.

Applying all events and notes of a workflow id in order gives its state (law `fold`); volatile entries touch volatile fields only.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from perdure.core import events as ev
from perdure.core import notes as nt
from perdure.core import volatile as vo
from perdure.core.limits import Limits
from perdure.core.machine.attributes import merged
from perdure.core.payload import ABSENT, size_of
from perdure.core.state import (
    CHILDREN,
    AcceptedUpdate,
    ActivityState,
    ChildState,
    ExternalState,
    RunState,
    WorkflowState,
)
from perdure.core.transition import Transition

Entry: TypeAlias = ev.AnyEvent | nt.AnyNote | vo.Volatile


def apply(state: WorkflowState, entry: Entry) -> None:
    """Change `state` as `entry` says. Entries of a run that is not the current one are the caller's mistake."""
    _APPLY[type(entry)](state, entry)


def apply_transition(state: WorkflowState, transition: Transition) -> None:
    """Apply everything a transition holds, in order."""
    for change in transition.runs:
        for event in change.events:
            _APPLY[type(event)](state, event)
        for note in change.notes:
            _APPLY[type(note)](state, note)
    if transition.outbox:
        if state.outgoing is None:
            state.outgoing = {}
        for message in transition.outbox:
            state.outgoing[message.request_id] = message


def in_order(events: Iterable[ev.AnyEvent], notes: Iterable[nt.AnyNote]) -> list[ev.AnyEvent | nt.AnyNote]:
    """Everything of one run in the order it was written: each note behind the event after which it was."""
    entries: list[tuple[int, int, ev.AnyEvent | nt.AnyNote]] = [(event.id, 0, event) for event in events]
    entries += [(note.after, note.id, note) for note in notes]
    return [entry for _, _, entry in sorted(entries, key=lambda item: item[:2])]


def _run(state: WorkflowState) -> RunState:
    assert state.run is not None, "an entry before the run's start"
    return state.run


def _appended(state: WorkflowState, event: ev.Event) -> RunState:
    run = state.run
    assert run is not None, "an entry before the run's start"
    assert event.id == run.length + 1, f"event {event.id} after {run.length}"
    run.length = event.id
    if event.time > run.last_time:
        run.last_time = event.time
    return run


def _input(state: WorkflowState, event: ev.Event) -> RunState:
    run = _appended(state, event)
    run.last_input = event.id
    return run


def _command(state: WorkflowState, event: ev.CommandEvent) -> RunState:
    run = _appended(state, event)
    if event.based_on > run.decided:
        run.decided = event.based_on
        _covered(run, event.based_on)
    return run


def _covered(run: RunState, based_on: int) -> None:
    if based_on <= run.covered:
        return
    run.covered = based_on
    if run.unseen_signals:
        run.unseen_signals = [signal for signal in run.unseen_signals if signal.id > based_on]
    if run.unseen_cancels:
        run.unseen_cancels = [cancel for cancel in run.unseen_cancels if cancel.id > based_on]


def remember(limits: Limits, ids: dict[str, int], key: str, time: int) -> None:
    """Remember an id, and forget what is too old or too much; oldest first."""
    ids.setdefault(key, time)
    oldest_allowed = time - limits.remembered_ids_age_s * 1_000_000
    while ids:
        oldest = next(iter(ids))
        if len(ids) <= limits.remembered_ids_max and ids[oldest] >= oldest_allowed:
            break
        del ids[oldest]


def remember_update(limits: Limits, ids: dict[str, AcceptedUpdate], key: str, accepted: AcceptedUpdate) -> None:
    """As `remember`, for updates. One accepted again (after a reset) counts from then, and its last outcome is the one that is told."""
    ids.pop(key, None)
    ids[key] = accepted
    oldest_allowed = accepted.time - limits.remembered_ids_age_s * 1_000_000
    while ids:
        oldest = next(iter(ids))
        if len(ids) <= limits.remembered_ids_max and ids[oldest].time >= oldest_allowed:
            break
        del ids[oldest]


# ---------------------------------------------------------------------------------------------------------------- inputs


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
    run = _input(state, event)
    run.activities.pop(event.command, None)
    if event.command in run.unnoted:
        run.unnoted.remove(event.command)
    if isinstance(event, ev.ActivityCompleted):
        run.bytes += len(event.result)


def _timer_fired(state: WorkflowState, event: ev.TimerFired) -> None:
    _input(state, event).timers.pop(event.command, None)


def _signal_received(state: WorkflowState, event: ev.SignalReceived) -> None:
    run = _input(state, event)
    run.unseen_signals.append(event)
    run.bytes += size_of(event.input)
    if event.signal_id:
        remember(state.limits, state.signal_ids, event.signal_id, event.time)


def _cancel_requested(state: WorkflowState, event: ev.CancelRequested) -> None:
    run = _input(state, event)
    run.unseen_cancels.append(event)
    if event.request_id:
        remember(state.limits, state.cancel_ids, event.request_id, event.time)


def _reset(state: WorkflowState, event: ev.Reset) -> None:
    run = _input(state, event)
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
    child = (_input(state, event).children or {}).get(event.command)
    if child is not None:
        child.run_id = event.run_id


def _child_over(state: WorkflowState, event: ev.ChildStartFailed | ev.ChildClosed) -> None:
    run = _input(state, event)
    if run.children is not None:
        run.children.pop(event.command, None)
        run.children = run.children or None
    if isinstance(event, ev.ChildClosed):
        run.bytes += len(event.result)


def _external_answered(
    state: WorkflowState,
    event: ev.ExternalSignalDelivered | ev.ExternalSignalFailed | ev.ExternalCancelDelivered | ev.ExternalCancelFailed,
) -> None:
    run = _input(state, event)
    if run.externals is not None:
        run.externals.pop(event.command, None)
        run.externals = run.externals or None


# -------------------------------------------------------------------------------------------------------------- commands


def _activity_scheduled(state: WorkflowState, event: ev.ActivityScheduled) -> None:
    run = _command(state, event)
    run.activities[event.id] = ActivityState(event=event)
    run.ordinals[event.name] = event.ordinal
    run.bytes += size_of(event.input)


def _activity_cancel_requested(state: WorkflowState, event: ev.ActivityCancelRequested) -> None:
    activity = _command(state, event).activities.get(event.command)
    if activity is not None:
        activity.cancel_requested = True


def _timer_started(state: WorkflowState, event: ev.TimerStarted) -> None:
    _command(state, event).timers[event.id] = event


def _timer_cancelled(state: WorkflowState, event: ev.TimerCancelled) -> None:
    _command(state, event).timers.pop(event.command, None)


def _attributes_set(state: WorkflowState, event: ev.AttributesSet) -> None:
    run = _command(state, event)
    run.attributes, run.datetimes = merged(run.attributes, run.datetimes, event)


def _details_set(state: WorkflowState, event: ev.DetailsSet) -> None:
    _command(state, event).details = event.details


def _update_accepted(state: WorkflowState, event: ev.UpdateAccepted) -> None:
    run = _command(state, event)
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
    run = _command(state, event)
    if run.updates is not None:
        run.updates.pop(event.command, None)
    if isinstance(event, ev.UpdateCompleted):
        run.bytes += len(event.result)


def _child_requested(state: WorkflowState, event: ev.ChildRequested) -> None:
    run = _command(state, event)
    if run.children is None:
        run.children = {}
    run.children[event.id] = ChildState(event=event, request_id=run.message_id(event.id))
    run.ordinals[CHILDREN] = run.ordinals.get(CHILDREN, 0) + 1
    run.bytes += size_of(event.input)


def _child_cancel_requested(state: WorkflowState, event: ev.ChildCancelRequested) -> None:
    child = (_command(state, event).children or {}).get(event.command)
    if child is not None:
        child.cancel = event


def _external_requested(state: WorkflowState, event: ev.ExternalSignalRequested | ev.ExternalCancelRequested) -> None:
    run = _command(state, event)
    if run.externals is None:
        run.externals = {}
    run.externals[event.id] = ExternalState(event=event, request_id=run.message_id(event.id))
    if isinstance(event, ev.ExternalSignalRequested):
        run.bytes += size_of(event.input)


def _plain_command(state: WorkflowState, event: ev.CommandEvent) -> None:
    _command(state, event)


# --------------------------------------------------------------------------------------------------------------- closing


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
    _close(state, _command(state, event), event)


def _closed_by_engine(state: WorkflowState, event: ev.Terminated | ev.TimedOut) -> None:
    _close(state, _appended(state, event), event)
    if isinstance(event, ev.Terminated) and event.request_id:
        remember(state.limits, state.terminate_ids, event.request_id, event.time)


# ----------------------------------------------------------------------------------------------------------------- notes


def _noted(state: WorkflowState, note: nt.Note) -> RunState:
    run = _run(state)
    run.notes = note.id
    return run


def _activity_claimed(state: WorkflowState, note: nt.ActivityClaimed) -> None:
    run = _noted(state, note)
    activity = run.activities.get(note.command)
    if activity is None:
        return
    if note.token:
        _claim(activity, note)
    else:
        _unclaim(activity)  # a claim that was written was given back
    activity.claim_noted = bool(note.token)
    if note.command in run.unnoted:
        run.unnoted.remove(note.command)


def _claim(activity: ActivityState, note: nt.ActivityClaimed) -> None:
    activity.attempt = note.attempt
    activity.claim = note
    activity.beat_at = max(activity.beat_at, note.time)
    if note.outside:
        activity.lives_for = 0  # its worker gives no more signs of life for it


def _unclaim(activity: ActivityState) -> None:
    activity.claim = None
    activity.claim_noted = False
    activity.beat_at = activity.lives_for = 0


def _attempt_failed(state: WorkflowState, note: nt.AttemptFailed) -> None:
    run = _noted(state, note)
    activity = run.activities.get(note.command)
    if activity is None:
        return
    activity.attempts_failed = note.attempt
    activity.attempt = note.attempt + 1
    activity.retry_at = note.retry_at
    activity.last_failure = note.failure or activity.last_failure
    _unclaim(activity)
    activity.beat_details = ABSENT
    activity.failures.append(note)
    limits = state.limits
    if len(activity.failures) > limits.attempt_notes_first + limits.attempt_notes_last:
        del activity.failures[limits.attempt_notes_first]
    if note.command in run.unnoted:
        run.unnoted.remove(note.command)


def _heartbeat_noted(state: WorkflowState, note: nt.HeartbeatNoted) -> None:
    activity = _noted(state, note).activities.get(note.command)
    if activity is not None:
        activity.heartbeat = note.details
        activity.noted_beat_at = note.time


def _seen(state: WorkflowState, note: nt.Seen) -> None:
    _covered(_noted(state, note), note.based_on)


def _quarantined(state: WorkflowState, note: nt.Quarantined) -> None:
    run = _noted(state, note)
    run.quarantine = note
    run.status = "quarantined"
    if note.build_id and note.build_id not in run.failed_builds:
        run.failed_builds.append(note.build_id)


def _build_refused(state: WorkflowState, note: nt.BuildRefused) -> None:
    _noted(state, note).refused_builds[note.build_id] = note.change_id


def _resumed(state: WorkflowState, note: nt.Resumed) -> None:
    run = _noted(state, note)
    run.quarantine = None
    if not note.by_build:
        run.paused = False
        run.pause_reason = ""
    run.status = "paused" if run.paused else "running"
    if not note.by_build:
        run.failed_builds = []
        run.refused_builds = {}


def _paused(state: WorkflowState, note: nt.Paused) -> None:
    run = _noted(state, note)
    run.paused = True
    run.pause_reason = note.reason
    if run.quarantine is None:
        run.status = "paused"


def _decided_by(state: WorkflowState, note: nt.DecidedBy) -> None:
    _noted(state, note).build_id = note.build_id


def _delivered(state: WorkflowState, note: nt.Delivered) -> None:
    _noted(state, note)
    if state.outgoing is not None:
        for request_id in note.messages:
            state.outgoing.pop(request_id, None)
        state.outgoing = state.outgoing or None
    if state.kin is not None:
        for request_id in note.children:
            state.kin.pop(request_id, None)
        state.kin = state.kin or None


def _plain_note(state: WorkflowState, note: nt.Note) -> None:
    _noted(state, note)


# -------------------------------------------------------------------------------------------------------------- volatile


def _claim_held(state: WorkflowState, entry: vo.WorkflowClaimHeld) -> None:
    _run(state).claim = entry.claim


def _claim_ended(state: WorkflowState, _entry: vo.WorkflowClaimEnded) -> None:
    _run(state).claim = None


def _close_refused(state: WorkflowState, _entry: vo.CloseRefused) -> None:
    _run(state).close_refusals += 1


def _seen_to(state: WorkflowState, entry: vo.SeenTo) -> None:
    run = _run(state)
    run.seen = max(run.seen, entry.based_on)


def _claim_unnoted(state: WorkflowState, entry: vo.ClaimUnnoted) -> None:
    run = _run(state)
    activity = run.activities[entry.note.command]
    _claim(activity, entry.note)
    activity.lives_for = entry.lives_for
    run.unnoted.append(entry.note.command)


def _claim_life(state: WorkflowState, entry: vo.ClaimLife) -> None:
    activity = _run(state).activities.get(entry.command)
    if activity is not None:
        activity.lives_for = entry.lives_for


def _claim_released(state: WorkflowState, entry: vo.ClaimReleased) -> None:
    run = _run(state)
    _unclaim(run.activities[entry.command])
    if entry.command in run.unnoted:
        run.unnoted.remove(entry.command)


def _beat(state: WorkflowState, entry: vo.Beat) -> None:
    activity = _run(state).activities[entry.command]
    activity.beat_at = entry.at
    if bytes(entry.details):
        activity.beat_details = entry.details


def _delay_over(state: WorkflowState, _entry: vo.DelayOver) -> None:
    _run(state).delayed_until = 0


def _held_warm(state: WorkflowState, entry: vo.HeldWarm) -> None:
    _run(state).sticky = entry.worker


_APPLY: dict[type, Callable[[WorkflowState, Any], None]] = {
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
    nt.ActivityClaimed: _activity_claimed,
    nt.AttemptFailed: _attempt_failed,
    nt.HeartbeatNoted: _heartbeat_noted,
    nt.Seen: _seen,
    nt.Quarantined: _quarantined,
    nt.BuildRefused: _build_refused,
    nt.Resumed: _resumed,
    nt.Paused: _paused,
    nt.SignalSetAside: _plain_note,
    nt.DecidedBy: _decided_by,
    nt.Delivered: _delivered,
    vo.WorkflowClaimHeld: _claim_held,
    vo.WorkflowClaimEnded: _claim_ended,
    vo.CloseRefused: _close_refused,
    vo.SeenTo: _seen_to,
    vo.ClaimUnnoted: _claim_unnoted,
    vo.ClaimLife: _claim_life,
    vo.ClaimReleased: _claim_released,
    vo.Beat: _beat,
    vo.HeldWarm: _held_warm,
    vo.DelayOver: _delay_over,
}
