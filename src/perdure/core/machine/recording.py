"""From a command to the event that records it. One small function per kind; what closes a run is for `closing`."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from perdure.core import commands as cm
from perdure.core import events as ev
from perdure.core.machine.activities import cancel_unclaimed, due
from perdure.core.machine.attributes import bytes_of
from perdure.core.machine.messages import cancel_of, external_of, start_of
from perdure.core.machine.outcome import Draft
from perdure.core.payload import size_of
from perdure.core.requests import TimerDue
from perdure.core.state import CHILDREN, ChildState, ExternalState


class Recorder:
    """Records the commands of one report, resolving what they refer to and counting activities by name."""

    __slots__ = ("accepted", "children", "draft", "ordinals", "placed", "scheduled", "size")

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.placed: list[int] = []
        """Event numbers of the commands of this report, in order."""
        self.scheduled: list[ev.ActivityScheduled] = []
        self.ordinals: dict[str, int] = {}
        self.accepted: set[str] | None = None
        """Ids of the updates this report accepts."""
        self.children: dict[int, ChildState] | None = None
        """Asked for in this report."""
        self.size = 0

    def record(self, command: cm.AnyCommand, based_on: int) -> None:
        """Append the event of `command`, which must be `recordable`."""
        self.placed.append(self.draft.next_id)
        _RECORD[type(command)](self, command, based_on)

    def target(self, target: int) -> int:
        """Event number of a command referred to: its number, or minus its place in this report."""
        return target if target > 0 else self.placed[-target - 1]

    def placeable(self, commands: tuple[cm.AnyCommand, ...]) -> bool:
        """False when one of `commands` refers to a place this report does not have before it."""
        place = len(self.placed)
        for command in commands:
            if type(command) in _AIMED and not -place <= command.target != 0:  # type: ignore[union-attr]
                return False
            place += 1
        return True

    def ordinal(self, name: str) -> int:
        known = self.ordinals.get(name)
        if known is None:
            known = self.draft.run.ordinals.get(name, 0)
        self.ordinals[name] = known + 1
        return known + 1


def recordable(command: cm.AnyCommand) -> bool:
    """False for what closes a run: that stands alone, at the end of a report."""
    return type(command) in _RECORD


def _schedule(recorder: Recorder, command: cm.ScheduleActivity, based_on: int) -> None:
    draft = recorder.draft
    event = ev.ActivityScheduled(
        id=draft.next_id,
        time=draft.time,
        at=command.at,
        based_on=based_on,
        name=command.name,
        ordinal=recorder.ordinal(command.name),
        input=command.input,
        keywords=command.keywords,
        queue=command.queue,
        retry=command.retry,
        start_to_close=command.start_to_close,
        schedule_to_close=command.schedule_to_close,
        schedule_to_start=command.schedule_to_start,
        heartbeat=command.heartbeat,
        local=command.local,
        process=command.process,
        priority=command.priority,
        summary=command.summary,
        idempotency_key=command.idempotency_key,
        on_cancel=command.on_cancel,
    )
    draft.add(event)
    recorder.scheduled.append(event)
    recorder.size += size_of(event.input)
    if event.schedule_to_close:
        draft.wake(event.time + event.schedule_to_close, due(draft, event.id, 1, "schedule_to_close"))
    if event.schedule_to_start:
        draft.wake(event.time + event.schedule_to_start, due(draft, event.id, 1, "schedule_to_start"))


def _cancel_activity(recorder: Recorder, command: cm.CancelActivity, based_on: int) -> None:
    draft = recorder.draft
    target = recorder.target(command.target)
    draft.add(ev.ActivityCancelRequested(id=draft.next_id, time=draft.time, at=command.at, based_on=based_on, command=target))
    activity = draft.run.activities.get(target)
    if activity is not None:
        if not draft.answers(target):
            cancel_unclaimed(draft, activity)
        return
    for event in recorder.scheduled:
        if event.id == target:
            recorder.scheduled.remove(event)
            draft.add(ev.ActivityCancelled(id=draft.next_id, time=draft.time, command=target))
            return


def _start_timer(recorder: Recorder, command: cm.StartTimer, based_on: int) -> None:
    draft = recorder.draft
    event = ev.TimerStarted(
        id=draft.next_id,
        time=draft.time,
        at=command.at,
        based_on=based_on,
        delay=command.delay,
        due=draft.time + command.delay,
        summary=command.summary,
    )
    draft.add(event)
    state = draft.state
    draft.wake(
        event.due,
        TimerDue(namespace=state.namespace, workflow_id=state.workflow_id, run_id=draft.run.started.run_id, command=event.id),
    )


def _cancel_timer(recorder: Recorder, command: cm.CancelTimer, based_on: int) -> None:
    draft = recorder.draft
    target = recorder.target(command.target)
    draft.add(ev.TimerCancelled(id=draft.next_id, time=draft.time, at=command.at, based_on=based_on, command=target))


def _mark_version(recorder: Recorder, command: cm.MarkVersion, based_on: int) -> None:
    draft = recorder.draft
    draft.add(
        ev.VersionMarked(
            id=draft.next_id,
            time=draft.time,
            at=command.at,
            based_on=based_on,
            change_id=command.change_id,
            version=command.version,
        )
    )


def _side_effect(recorder: Recorder, command: cm.RecordSideEffect, based_on: int) -> None:
    draft = recorder.draft
    draft.add(
        ev.SideEffectRecorded(
            id=draft.next_id,
            time=draft.time,
            at=command.at,
            based_on=based_on,
            result=command.result,
            failure=command.failure,
        )
    )
    recorder.size += len(command.result)


def _set_attributes(recorder: Recorder, command: cm.SetAttributes, based_on: int) -> None:
    draft = recorder.draft
    draft.add(
        ev.AttributesSet(
            id=draft.next_id,
            time=draft.time,
            at=command.at,
            based_on=based_on,
            attributes=command.attributes,
            datetimes=command.datetimes,
        )
    )
    recorder.size += bytes_of(command.attributes)


def _set_details(recorder: Recorder, command: cm.SetDetails, based_on: int) -> None:
    draft = recorder.draft
    draft.add(ev.DetailsSet(id=draft.next_id, time=draft.time, at=command.at, based_on=based_on, details=command.details))
    recorder.size += len(command.details)


def _accept_update(recorder: Recorder, command: cm.AcceptUpdate, based_on: int) -> None:
    draft = recorder.draft
    draft.add(
        ev.UpdateAccepted(
            id=draft.next_id,
            time=draft.time,
            at=command.at,
            based_on=based_on,
            name=command.name,
            update_id=command.update_id,
            fed_at=command.fed_at,
            input=command.input,
            keywords=command.keywords,
        )
    )
    if recorder.accepted is None:
        recorder.accepted = set()
    recorder.accepted.add(command.update_id)
    recorder.size += size_of(command.input)


def _complete_update(recorder: Recorder, command: cm.CompleteUpdate, based_on: int) -> None:
    draft = recorder.draft
    draft.add(
        ev.UpdateCompleted(
            id=draft.next_id,
            time=draft.time,
            at=command.at,
            based_on=based_on,
            update_id=command.update_id,
            command=recorder.target(command.target),
            result=command.result,
        )
    )
    recorder.size += len(command.result)


def _fail_update(recorder: Recorder, command: cm.FailUpdate, based_on: int) -> None:
    draft = recorder.draft
    draft.add(
        ev.UpdateFailed(
            id=draft.next_id,
            time=draft.time,
            at=command.at,
            based_on=based_on,
            update_id=command.update_id,
            command=recorder.target(command.target),
            failure=command.failure,
        )
    )


def _request_child(recorder: Recorder, command: cm.RequestChild, based_on: int) -> None:
    draft = recorder.draft
    run = draft.run
    ordinal = recorder.ordinal(CHILDREN)
    event = ev.ChildRequested(
        id=draft.next_id,
        time=draft.time,
        at=command.at,
        based_on=based_on,
        workflow_type=command.workflow_type,
        workflow_id=command.workflow_id or f"{run.started.origin_run_id or run.started.run_id}.{ordinal}",
        input=command.input,
        keywords=command.keywords,
        queue=command.queue,
        timeout=command.timeout,
        retry=command.retry,
        on_parent_close=command.on_parent_close,
        memo=command.memo,
        attributes=command.attributes,
        attribute_datetimes=command.attribute_datetimes,
        priority=command.priority,
        summary=command.summary,
    )
    draft.add(event)
    child = ChildState(event=event, request_id=run.message_id(event.id))
    if recorder.children is None:
        recorder.children = {}
    recorder.children[event.id] = child
    recorder.size += size_of(event.input)
    draft.deliver(start_of(draft.state, run, child))


def _cancel_child(recorder: Recorder, command: cm.CancelChild, based_on: int) -> None:
    draft = recorder.draft
    target = recorder.target(command.target)
    event = ev.ChildCancelRequested(
        id=draft.next_id, time=draft.time, at=command.at, based_on=based_on, command=target, reason=command.reason
    )
    draft.add(event)
    child = (recorder.children or {}).get(target) or (draft.run.children or {}).get(target)
    if child is not None:
        draft.deliver(cancel_of(draft.state, replace(child, cancel=event)))


def _signal_external(recorder: Recorder, command: cm.SignalExternal, based_on: int) -> None:
    draft = recorder.draft
    event = ev.ExternalSignalRequested(
        id=draft.next_id,
        time=draft.time,
        at=command.at,
        based_on=based_on,
        workflow_id=command.workflow_id,
        name=command.name,
        input=command.input,
        keywords=command.keywords,
        child=command.child,
    )
    recorder.size += size_of(event.input)
    _external(draft, event)


def _cancel_external(recorder: Recorder, command: cm.CancelExternal, based_on: int) -> None:
    draft = recorder.draft
    event = ev.ExternalCancelRequested(
        id=draft.next_id,
        time=draft.time,
        at=command.at,
        based_on=based_on,
        workflow_id=command.workflow_id,
        reason=command.reason,
    )
    _external(draft, event)


def _external(draft: Draft, event: ev.ExternalSignalRequested | ev.ExternalCancelRequested) -> None:
    draft.add(event)
    state = ExternalState(event=event, request_id=draft.run.message_id(event.id))
    draft.deliver(external_of(draft.state, draft.run, state))


_AIMED = frozenset({cm.CancelActivity, cm.CancelTimer, cm.CancelChild, cm.CompleteUpdate, cm.FailUpdate})

_RECORD: dict[type, Callable[[Recorder, Any, int], None]] = {
    cm.ScheduleActivity: _schedule,
    cm.CancelActivity: _cancel_activity,
    cm.StartTimer: _start_timer,
    cm.CancelTimer: _cancel_timer,
    cm.MarkVersion: _mark_version,
    cm.RecordSideEffect: _side_effect,
    cm.SetAttributes: _set_attributes,
    cm.SetDetails: _set_details,
    cm.AcceptUpdate: _accept_update,
    cm.CompleteUpdate: _complete_update,
    cm.FailUpdate: _fail_update,
    cm.RequestChild: _request_child,
    cm.CancelChild: _cancel_child,
    cm.SignalExternal: _signal_external,
    cm.CancelExternal: _cancel_external,
}
