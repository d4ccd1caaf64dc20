"""How code ends its run: complete, fail, cancel, and continue as new with everything the successor must not miss."""

from typing import Any

from perdure.core import commands as cm
from perdure.core import events as ev
from perdure.core.machine.attributes import merged
from perdure.core.machine.outcome import Draft
from perdure.core.machine.retrying import next_attempt, next_attempt_in
from perdure.core.machine.runs import begin, notify_closed
from perdure.core.machine.updates import still_owed
from perdure.core.requests import Report


def may_close(draft: Draft, report: Report, refusals_max: int) -> bool:
    """False while there are signals its sender has not seen, but only so many times in a row; what another run follows is never refused."""
    run, closing = draft.run, report.closing
    if isinstance(closing, cm.ContinueAsNew):
        return True
    if (
        run.started.retry is not None
        and isinstance(closing, cm.FailWorkflow)
        and next_attempt_in(run, closing.failure) is not None
    ):
        return True
    unseen = any(signal.id > report.based_on for signal in run.unseen_signals)
    return not unseen or run.close_refusals >= refusals_max


def close(draft: Draft, report: Report, based_on: int) -> None:
    """Append the closing event, and open the successor where there is one."""
    command = report.closing
    assert command is not None
    if isinstance(command, cm.ContinueAsNew):
        _continue(draft, report, command, based_on)
        return
    if draft.run.started.retry is not None and isinstance(command, cm.FailWorkflow):
        delay = next_attempt_in(draft.run, command.failure)
        if delay is not None:
            _try_again(draft, report, command, delay, based_on)
            return
    unseen = report.untaken + sum(1 for signal in draft.run.unseen_signals if signal.id > report.based_on)
    head: dict[str, Any] = {
        "id": draft.next_id,
        "time": draft.time,
        "at": command.at,
        "based_on": based_on,
        "unseen_signals": unseen,
    }
    if isinstance(command, cm.CompleteWorkflow):
        draft.add(ev.Completed(result=command.result, **head))
    elif isinstance(command, cm.FailWorkflow):
        draft.add(ev.Failed(failure=command.failure, **head))
    else:
        draft.add(ev.Cancelled(reason=command.reason, **head))
    notify_closed(draft, by_code=True)


def _try_again(draft: Draft, report: Report, command: cm.FailWorkflow, delay: int, based_on: int) -> None:
    draft.add(
        ev.Failed(
            id=draft.next_id,
            time=draft.time,
            at=command.at,
            based_on=based_on,
            failure=command.failure,
            next_run_id=report.next_run_id,
        )
    )
    notify_closed(draft, by_code=True)
    untaken = frozenset(signal.id for signal in report.carried)
    # Signals up to `based_on` that are not named as untaken went to handlers of the run that failed.
    carried = _carried(draft, report, untaken, signals_after=report.based_on, cancels_after=command.at)
    owed = still_owed(draft.run, draft.events)
    begin(draft, next_attempt(draft.run, report, delay, draft.time, owed), carried=carried)


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
        encoded=started.encoded,
        updates=still_owed(run, draft.events),
    )
    begin(
        draft,
        successor,
        carried=_carried(draft, report, frozenset(command.untaken), signals_after=command.at, cancels_after=command.at),
    )


def _carried(
    draft: Draft, report: Report, wanted: frozenset[int], *, signals_after: int, cancels_after: int
) -> "list[ev.SignalReceived | ev.CancelRequested]":
    """Signals nobody took, and every signal and cancel request after these numbers, in order, renumbered from 2.

    What lies after the input at which the code ended is unseen by every decision but this one, so the state still holds it.
    """
    later: dict[int, ev.SignalReceived | ev.CancelRequested] = {s.id: s for s in report.carried if s.id in wanted}
    later.update({s.id: s for s in draft.run.unseen_signals if s.id > signals_after or s.id in wanted})
    later.update({c.id: c for c in draft.run.unseen_cancels if c.id > cancels_after})
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
