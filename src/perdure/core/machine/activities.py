"""Activities between their schedule and their answer: claims, attempts that fail, retries, timeouts, cancel. Beats: see `beats`."""

from hashlib import blake2b
from math import ceil

from perdure.core.events import ActivityCancelled, ActivityFailed, ActivityScheduled, ActivityTimedOut
from perdure.core.failure import Failure, FailureKind
from perdure.core.ids import idempotency_key
from perdure.core.machine.limiting import fail_if_too_long
from perdure.core.machine.outcome import Decided, Draft, only
from perdure.core.machine.targets import current_run
from perdure.core.notes import ActivityClaimed, AttemptFailed, HeartbeatNoted
from perdure.core.payload import is_absent
from perdure.core.replies import ActivityClaim, NotWanted, Taken
from perdure.core.replies import ActivityClaimed as ActivityClaimReply
from perdure.core.requests import ActivityDue, ClaimActivity, ReleaseActivity
from perdure.core.retry import RetryPolicy, retry_delay
from perdure.core.state import ActivityState, RunState, WorkflowState
from perdure.core.tasks import CancelNotice, Task
from perdure.core.volatile import Alive, ClaimLife, ClaimReleased, ClaimUnnoted

MICRO = 1_000_000

RELEASE_PAUSE = MICRO
"""An attempt given back untouched is offered again after so many microseconds."""


def task_of(state: WorkflowState, run: RunState, scheduled: ActivityScheduled, attempt: int) -> Task:
    """The pointer to one attempt."""
    return Task(
        namespace=state.namespace,
        workflow_id=state.workflow_id,
        run_id=run.started.run_id,
        queue=scheduled.queue or run.started.queue,
        command=scheduled.id,
        attempt=attempt,
        sticky=run.sticky if scheduled.local else "",
        priority=scheduled.priority or run.started.priority,
    )


def due(draft: Draft, command: int, attempt: int, kind: str, token: str = "") -> ActivityDue:
    state = draft.state
    return ActivityDue(
        namespace=state.namespace,
        workflow_id=state.workflow_id,
        run_id=draft.run.run_id,
        command=command,
        attempt=attempt,
        kind=kind,  # type: ignore[arg-type]
        token=token,
    )


# ----------------------------------------------------------------------------------------------------------------- claim


def claim_activity(state: WorkflowState, request: ClaimActivity, now: int) -> Decided:
    run = current_run(state, request)
    activity = run.activities.get(request.command) if run is not None else None
    if run is None or activity is None:
        return only(NotWanted(reason="the activity has ended or its run is closed"))
    if activity.attempt != request.attempt:
        return only(NotWanted(reason=f"attempt {activity.attempt} is the current one"))
    if activity.claim is not None:
        if activity.claim.token == request.token:
            return _claimed_again(Draft(state, run, now), activity, activity.claim, request)
        return only(NotWanted(reason="claimed by another worker"))
    if activity.cancel_requested or activity.retry_at > now:
        return only(NotWanted(reason="not due"))
    draft = Draft(state, run, now)
    note = ActivityClaimed(
        id=draft.next_note,
        time=now,
        after=draft.length,
        command=request.command,
        attempt=request.attempt,
        worker=request.worker,
        token=request.token,
        incarnation=request.incarnation,
    )
    if must_be_durable(activity.event, activity.attempt):
        draft.note(note)
        if request.lives_for:
            draft.volatile.append(ClaimLife(request.command, request.lives_for))
    else:
        draft.volatile.append(ClaimUnnoted(note, request.lives_for))
    reply = granted(draft, activity.event, note, activity, request.lives_for)
    return draft.outcome(ActivityClaimReply(claim=reply))


def _claimed_again(draft: Draft, activity: ActivityState, note: ActivityClaimed, request: ClaimActivity) -> Decided:
    """The same claim once more: its reply was lost, or the worker presents it to a new owner, which learns that the worker lives."""
    draft.volatile += [ClaimLife(request.command, request.lives_for), Alive(request.command, draft.now)]
    reply = granted(draft, activity.event, note, activity, request.lives_for)
    return draft.outcome(ActivityClaimReply(claim=reply))


def must_be_durable(scheduled: ActivityScheduled, attempt: int) -> bool:
    """A claim on which a policy depends is written before the attempt runs: the last allowed one, or one with a bound on waiting."""
    return bool(scheduled.schedule_to_start) or 0 < scheduled.retry.max_attempts <= attempt


def granted(
    draft: Draft, scheduled: ActivityScheduled, note: ActivityClaimed, activity: ActivityState | None, lives_for: int
) -> ActivityClaim:
    """What the worker is told, with the wakes that watch over the attempt."""
    state, run = draft.state, draft.run
    deadlines: list[int] = []
    if scheduled.start_to_close:
        deadlines.append(note.time + scheduled.start_to_close)
        draft.wake(deadlines[-1], due(draft, scheduled.id, note.attempt, "start_to_close"))
    if scheduled.schedule_to_close:
        since = scheduled.time if activity is None else activity.since
        deadlines.append(since + scheduled.schedule_to_close)
    if scheduled.heartbeat:
        draft.wake(note.time + scheduled.heartbeat, due(draft, scheduled.id, note.attempt, "heartbeat"))
    if lives_for:
        draft.wake(note.time + lives_for, due(draft, scheduled.id, note.attempt, "lost", note.token))
    return ActivityClaim(
        namespace=state.namespace,
        workflow_id=state.workflow_id,
        run_id=run.started.run_id,
        scheduled=scheduled,
        attempt=note.attempt,
        token=note.token,
        queue=scheduled.queue or run.started.queue,
        idempotency_key=scheduled.idempotency_key
        or idempotency_key(
            state.namespace,
            state.workflow_id,
            run.started.origin_run_id or run.started.run_id,
            scheduled.name,
            scheduled.ordinal,
        ),
        claimed_at=note.time,
        deadline=min(deadlines, default=0),
        **({} if activity is None or is_absent(activity.heartbeat) else {"heartbeat_details": activity.heartbeat}),
    )


def release_activity(state: WorkflowState, request: ReleaseActivity, now: int) -> Decided:
    """Give a claim back: the attempt did not run and may be claimed again."""
    run = current_run(state, request)
    activity = run.activities.get(request.command) if run is not None else None
    if run is None or activity is None or activity.claim is None or activity.claim.token != request.token:
        return only(Taken(duplicate=True))
    draft = Draft(state, run, now)
    if activity.cancel_requested:
        draft.add(_cancelled(draft, activity))
    else:
        _give_back(draft, activity)
        task = task_of(state, run, activity.event, activity.attempt)
        if request.unknown:
            draft.tasks.append(task)  # somebody else may know it
        else:
            # Not at once: the worker that gave it back is likely to be asked again.
            draft.wake(now + RELEASE_PAUSE, task)
    return draft.outcome(Taken(run_id=run.run_id))


def _give_back(draft: Draft, activity: ActivityState) -> None:
    """Forget a claim that only memory holds; take back, by a claim of nobody, one that is written."""
    scheduled, attempt = activity.event, activity.attempt
    if activity.claim_noted:
        draft.note(
            ActivityClaimed(
                id=draft.next_note,
                time=draft.time,
                after=draft.length,
                command=scheduled.id,
                attempt=attempt,
                worker="",
                token="",
            )
        )
    else:
        draft.volatile.append(ClaimReleased(scheduled.id))
    if scheduled.schedule_to_start and attempt == 1:
        draft.wake(activity.since + scheduled.schedule_to_start, due(draft, scheduled.id, 1, "schedule_to_start"))


# ----------------------------------------------------------------------------------------------------- ends of attempts


def _cancelled(draft: Draft, activity: ActivityState, failure: Failure | None = None) -> ActivityCancelled:
    return ActivityCancelled(
        id=draft.next_id, time=draft.time, command=activity.event.id, attempt=activity.attempt, failure=failure
    )


def cancel_unclaimed(draft: Draft, activity: ActivityState) -> None:
    """Cancel asked for: an attempt nobody runs ends at once; a running one is told."""
    if activity.claim is None:
        draft.add(_cancelled(draft, activity))
    elif not activity.claim.outside:  # else nobody runs it: its next heartbeat is told
        draft.cancels.append((activity.claim.worker, CancelNotice(token=activity.claim.token)))


def attempt_failed(
    draft: Draft, activity: ActivityState, failure: Failure | None, kind: FailureKind, *, cancelled: bool = False
) -> None:
    """One attempt ended without a result: note it, then try again later or answer the activity for good."""
    scheduled = activity.event
    _note_details(draft, activity)
    if cancelled and activity.cancel_requested:
        draft.add(_cancelled(draft, activity, failure))
        return
    delay = _next_delay(draft, activity, failure, kind)
    again = delay is not None and not activity.cancel_requested
    retry_at = draft.now + delay if delay is not None and again else 0
    draft.note(
        AttemptFailed(
            id=draft.next_note,
            time=draft.time,
            after=draft.length,
            command=scheduled.id,
            attempt=activity.attempt,
            kind=kind,
            failure=failure,
            retry_at=retry_at,
        )
    )
    if delay is None:
        _answer(draft, activity, failure, kind)
    elif not again:
        draft.add(_cancelled(draft, activity, failure))
    elif delay > 0:
        draft.wake(retry_at, task_of(draft.state, draft.run, scheduled, activity.attempt + 1))
    else:
        draft.tasks.append(task_of(draft.state, draft.run, scheduled, activity.attempt + 1))


def _answer(draft: Draft, activity: ActivityState, failure: Failure | None, kind: FailureKind) -> None:
    command, attempt = activity.event.id, activity.attempt
    if kind == "error" and failure is not None:
        draft.add(ActivityFailed(id=draft.next_id, time=draft.time, command=command, attempt=attempt, failure=failure))
    else:
        last = failure or activity.last_failure
        draft.add(
            ActivityTimedOut(id=draft.next_id, time=draft.time, command=command, attempt=attempt, kind=kind, failure=last)
        )


def _note_details(draft: Draft, activity: ActivityState) -> None:
    """What the attempt last said of itself, for the next one."""
    if not is_absent(activity.beat_details) and activity.beat_details is not activity.heartbeat:
        draft.note(
            HeartbeatNoted(
                id=draft.next_note,
                time=draft.time,
                after=draft.length,
                command=activity.event.id,
                attempt=activity.attempt,
                details=activity.beat_details,
            )
        )


def _next_delay(draft: Draft, activity: ActivityState, failure: Failure | None, kind: FailureKind) -> int | None:
    """Microseconds until the next attempt, or None when there is none."""
    scheduled, retry = activity.event, activity.event.retry
    if kind in {"schedule_to_close", "schedule_to_start"}:
        return None
    if retry.max_attempts and activity.attempt >= retry.max_attempts:
        return None
    if failure is not None and is_final(failure, retry):
        return None
    if kind == "lost":
        delay = 0
    elif failure is not None and failure.next_retry_delay >= 0:
        delay = failure.next_retry_delay
    else:
        delay = ceil(retry_delay(retry, activity.attempt, chance_of(draft.run.run_id, scheduled.id, activity.attempt)) * MICRO)
    if scheduled.schedule_to_close and draft.now + delay >= activity.since + scheduled.schedule_to_close:
        return None
    return delay


def is_final(failure: Failure, retry: RetryPolicy) -> bool:
    """True when the failure, or one in its cause chain, says or is said not to be worth another attempt."""
    names = set(retry.non_retryable)
    for link in failure.chain():
        if link.non_retryable or link.type in names or (names and not names.isdisjoint(link.bases)):
            return True
    return False


def chance_of(run_id: str, command: int, attempt: int) -> float:
    """Where in the jitter this retry falls: the same for the same attempt, whoever decides it."""
    digest = blake2b(f"{run_id}\0{command}\0{attempt}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


# -------------------------------------------------------------------------------------------------- bounds


def activity_due(state: WorkflowState, request: ActivityDue, now: int) -> Decided:
    """A bound of an attempt may have passed. Asks again later when it has not; says nothing when it no longer matters."""
    run = current_run(state, request)
    activity = run.activities.get(request.command) if run is not None else None
    if run is None or activity is None:
        return only(Taken(duplicate=True))
    instant = _bound(activity, request)
    if instant is None:
        return only(Taken(duplicate=True))
    draft = Draft(state, run, now)
    if now < instant:
        draft.wake(instant, request)
        return draft.outcome(Taken(run_id=run.run_id))
    if activity.claim is not None:
        draft.cancels.append((activity.claim.worker, CancelNotice(token=activity.claim.token)))
    attempt_failed(draft, activity, None, request.kind)
    fail_if_too_long(draft)
    return draft.outcome(Taken(run_id=run.run_id))


def _bound(activity: ActivityState, request: ActivityDue) -> int | None:
    """The instant at which this bound is passed, or None when it does not apply (any more)."""
    if request.kind == "lost":
        claim = activity.claim
        if claim is None or request.attempt != activity.attempt or request.token != claim.token or claim.outside:
            return None
        return lost_at(activity, claim)
    instant = _timeout(activity, request)
    return None if instant is None else max(instant, activity.spared_until)


def lost_at(activity: ActivityState, claim: ActivityClaimed) -> int:
    """The instant at which the claim is lost without another sign of life."""
    return max(activity.alive_at, activity.beat_at, claim.time) + activity.lives_for


def _timeout(activity: ActivityState, request: ActivityDue) -> int | None:
    scheduled, claim = activity.event, activity.claim
    if request.kind == "schedule_to_close":
        return activity.since + scheduled.schedule_to_close if scheduled.schedule_to_close else None
    if request.attempt != activity.attempt:
        return None
    if request.kind == "schedule_to_start":
        waiting = claim is None and activity.attempt == 1 and scheduled.schedule_to_start
        return activity.since + scheduled.schedule_to_start if waiting else None
    if claim is None:
        return None
    if request.kind == "start_to_close":
        return claim.time + scheduled.start_to_close if scheduled.start_to_close else None
    return max(activity.beat_at, claim.time) + scheduled.heartbeat if scheduled.heartbeat else None
