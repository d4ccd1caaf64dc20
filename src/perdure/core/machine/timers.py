"""Timers: fired once, never early, and only while nobody cancelled them."""

from perdure.core.events import TimerFired
from perdure.core.machine.limiting import fail_if_too_long
from perdure.core.machine.outcome import Decided, Draft, only
from perdure.core.machine.targets import current_run
from perdure.core.replies import Taken
from perdure.core.requests import TimerDue
from perdure.core.state import WorkflowState


def timer_due(state: WorkflowState, request: TimerDue, now: int) -> Decided:
    run = current_run(state, request)
    timer = run.timers.get(request.command) if run is not None else None
    if run is None or timer is None:
        return only(Taken(duplicate=True))
    draft = Draft(state, run, now)
    if now < timer.due:
        draft.wake(timer.due, request)
        return draft.outcome(Taken(run_id=run.run_id))
    draft.add(TimerFired(id=draft.next_id, time=draft.time, command=request.command))
    fail_if_too_long(draft)
    return draft.outcome(Taken(run_id=run.run_id))
