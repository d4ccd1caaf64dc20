"""Law `woken`: what must bring an open run forward, read off its state alone.

The engine asks at start-up (everything) and in its sweeps (what should have happened by now).
"""

from perdure.core.machine.activities import lost_at, task_of
from perdure.core.machine.claims import workflow_task
from perdure.core.machine.outcome import Waker
from perdure.core.machine.runs import wakes_of_start
from perdure.core.requests import ActivityDue, AnyRequest, StartDue, TimerDue, WorkflowClaimDue
from perdure.core.state import ActivityState, RunState, WorkflowState
from perdure.core.tasks import Task


def tasks_of(state: WorkflowState, now: int) -> list[Task]:
    """Every task that should be with a worker or on its way to one at `now`."""
    run = state.run
    if run is None or run.closing is not None:
        return []
    tasks = [
        task_of(state, run, activity.event, activity.attempt)
        for activity in run.activities.values()
        if activity.claim is None and activity.retry_at <= now
    ]
    if run.wants_decision and run.claim is None:
        tasks.append(workflow_task(state, run))
    return tasks


def wakes_of(state: WorkflowState) -> list[Waker]:
    """Every instant at which something of this workflow id is or was due, and what to bring then."""
    run = state.run
    if run is None or run.closing is not None:
        return []
    head = {"namespace": state.namespace, "workflow_id": state.workflow_id, "run_id": run.run_id}
    wakes: list[Waker] = [
        (timer.due, TimerDue(namespace=state.namespace, workflow_id=state.workflow_id, run_id=run.run_id, command=command))
        for command, timer in run.timers.items()
    ]
    for activity in run.activities.values():
        wakes += _activity_wakes(state, run, activity)
    wakes += [
        waker
        for waker in wakes_of_start(state, run.started, run.reset_at)
        if run.delayed_until or type(waker[1]) is not StartDue
    ]
    if run.claim is not None and run.claim.lives_for:
        wakes.append((run.claim.dies_at, WorkflowClaimDue(**head, token=run.claim.token)))
    return wakes


def matters(state: WorkflowState, target: AnyRequest | Task) -> bool:
    """False when a wake that was set for `target` is certain to change nothing: what it was set for is over."""
    run = state.run
    if run is None or run.closing is not None or run.run_id != getattr(target, "run_id", ""):
        return False
    if isinstance(target, TimerDue):
        return target.command in run.timers
    if isinstance(target, StartDue):
        return bool(run.delayed_until)
    if isinstance(target, WorkflowClaimDue):
        return run.claim is not None and run.claim.token == target.token
    if isinstance(target, Task) and not target.command:
        return True
    if isinstance(target, (ActivityDue, Task)):
        activity = run.activities.get(target.command)
        # The bound on all attempts is set once, with the first.
        return activity is not None and (
            activity.attempt == target.attempt or getattr(target, "kind", "") == "schedule_to_close"
        )
    return True


def _activity_wakes(state: WorkflowState, run: RunState, activity: ActivityState) -> list[Waker]:
    scheduled, claim = activity.event, activity.claim
    bounds: list[tuple[int, str, str]] = []
    if scheduled.schedule_to_close:
        bounds.append((activity.since + scheduled.schedule_to_close, "schedule_to_close", ""))
    if claim is None:
        if scheduled.schedule_to_start and activity.attempt == 1:
            bounds.append((activity.since + scheduled.schedule_to_start, "schedule_to_start", ""))
    else:
        if scheduled.start_to_close:
            bounds.append((claim.time + scheduled.start_to_close, "start_to_close", ""))
        if scheduled.heartbeat:
            bounds.append((max(activity.beat_at, claim.time) + scheduled.heartbeat, "heartbeat", ""))
        if activity.lives_for:
            bounds.append((lost_at(activity, claim), "lost", claim.token))
    wakes: list[Waker] = [
        (
            max(instant, activity.spared_until),
            ActivityDue(
                namespace=state.namespace,
                workflow_id=state.workflow_id,
                run_id=run.run_id,
                command=scheduled.id,
                attempt=activity.attempt,
                kind=kind,  # type: ignore[arg-type]
                token=token,
            ),
        )
        for instant, kind, token in bounds
    ]
    if claim is None and activity.retry_at:
        wakes.append((activity.retry_at, task_of(state, run, scheduled, activity.attempt)))
    return wakes
