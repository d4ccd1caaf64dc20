"""How code ends its run: complete, fail, cancel, and continue as new with everything the successor must not miss."""

from perdure.core import commands as cm
from perdure.core import events as ev
from perdure.core.machine.attributes import merged
from perdure.core.machine.outcome import Draft
from perdure.core.machine.runs import begin, notify_closed
from perdure.core.requests import Report


def may_close(draft: Draft, report: Report, refusals_max: int) -> bool:
    """False while there are signals its sender has not seen, but only so many times in a row; continue-as-new is never refused."""
    if isinstance(report.closing, cm.ContinueAsNew):
        return True
    run = draft.run
    unseen = any(signal.id > report.based_on for signal in run.unseen_signals)
    return not unseen or run.close_refusals >= refusals_max


def close(draft: Draft, report: Report, based_on: int) -> None:
    """Append the closing event, and open the successor where there is one."""
    command = report.closing
    assert command is not None
    if isinstance(command, cm.ContinueAsNew):
        _continue(draft, report, command, based_on)
        return
    unseen = report.untaken + sum(1 for signal in draft.run.unseen_signals if signal.id > report.based_on)
    head = {"id": draft.next_id, "time": draft.time, "at": command.at, "based_on": based_on, "unseen_signals": unseen}
    if isinstance(command, cm.CompleteWorkflow):
        draft.add(ev.Completed(result=command.result, **head))
    elif isinstance(command, cm.FailWorkflow):
        draft.add(ev.Failed(failure=command.failure, **head))
    else:
        draft.add(ev.Cancelled(reason=command.reason, **head))
    notify_closed(draft, by_code=True)


def _continue(draft: Draft, report: Report, command: cm.ContinueAsNew, based_on: int) -> None:
    started = draft.run.started
    draft.add(
        ev.ContinuedAsNew(
            id=draft.next_id,
            time=draft.time,
            at=command.at,
            based_on=based_on,
            next_run_id=report.next_run_id,
            workflow_type=command.workflow_type or started.workflow_type,
            input=command.input,
            keywords=command.keywords,
            untaken=command.untaken,
        )
    )
    notify_closed(draft, by_code=True, goes_on=True)
    run = draft.run
    attributes, datetimes = run.attributes, run.datetimes
    for event in draft.events:
        if isinstance(event, ev.AttributesSet):
            attributes, datetimes = merged(attributes, datetimes, event)
    successor = ev.Started(
        id=1,
        time=draft.time,
        workflow_type=command.workflow_type or started.workflow_type,
        queue=started.queue,
        run_id=report.next_run_id,
        seed=report.next_seed,
        input=command.input,
        keywords=command.keywords,
        request_id=started.request_id,
        timeout=started.timeout,
        retry=started.retry,
        parent=started.parent,
        memo=started.memo,
        attributes=attributes,
        attribute_datetimes=datetimes,
        origin=started.origin,
        priority=started.priority,
        continued_from=run.run_id,
        first_run_id=started.first_run_id or run.run_id,
        paused=run.paused,
        limits=started.limits,
    )
    begin(draft, successor, carried=_carried(draft, report, command))


def _carried(draft: Draft, report: Report, command: cm.ContinueAsNew) -> "list[ev.SignalReceived | ev.CancelRequested]":
    """Signals nobody took, every signal after `at` and every cancel request after `at`, in order, renumbered from 2.

    What lies after `at` is unseen by every decision but this one, so the state still holds it.
    """
    wanted = set(command.untaken)
    later: dict[int, ev.SignalReceived | ev.CancelRequested] = {s.id: s for s in report.carried if s.id in wanted}
    later.update({s.id: s for s in draft.run.unseen_signals if s.id > command.at or s.id in wanted})
    later.update({c.id: c for c in draft.run.unseen_cancels if c.id > command.at})
    out: list[ev.SignalReceived | ev.CancelRequested] = []
    for old in sorted(later):
        event = later[old]
        number = len(out) + 2
        if isinstance(event, ev.SignalReceived):
            out.append(
                ev.SignalReceived(
                    id=number,
                    time=draft.time,
                    name=event.name,
                    input=event.input,
                    keywords=event.keywords,
                    signal_id=event.signal_id,
                    carried_from=old,
                )
            )
        else:
            out.append(ev.CancelRequested(id=number, time=draft.time, reason=event.reason, request_id=event.request_id))
    return out
