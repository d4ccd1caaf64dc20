"""Another run after one that failed: whether there is one, and when.

The successor is the same start once more (input, memo and attributes as they were then), with the next attempt number and the wait as its
start delay, in the same commit. What nobody has taken of the failed run's signals comes along; those it took are gone with it. Only a failure
that left the code is tried again: a run that was cancelled, terminated, timed out or outgrew a limit is not.
"""

from math import ceil

from perdure.core.events import Started, UpdateBody
from perdure.core.failure import Failure
from perdure.core.machine.activities import MICRO, chance_of, is_final
from perdure.core.requests import Report
from perdure.core.retry import retry_delay
from perdure.core.state import RunState


def next_attempt_in(run: RunState, failure: Failure) -> int | None:
    """Microseconds until the next attempt of a run whose code failed like that; None when there is none."""
    started = run.started
    retry = started.retry
    if retry is None or (retry.max_attempts and started.attempt >= retry.max_attempts) or is_final(failure, retry):
        return None
    if failure.next_retry_delay >= 0:
        return failure.next_retry_delay
    return ceil(retry_delay(retry, started.attempt, chance_of(run.run_id, 0, started.attempt)) * MICRO)


def next_attempt(run: RunState, report: Report, delay: int, time: int, owed: tuple[UpdateBody, ...] = ()) -> Started:
    """How that attempt begins; `owed` are the updates it takes over."""
    started = run.started
    return Started(
        id=1,
        time=time,
        workflow_type=started.workflow_type,
        queue=started.queue,
        run_id=report.next_run_id,
        seed=report.next_seed,
        input=started.input,
        keywords=started.keywords,
        request_id=started.request_id,
        timeout=started.timeout,
        retry=started.retry,
        attempt=started.attempt + 1,
        parent=started.parent,
        memo=started.memo,
        attributes=started.attributes,
        attribute_datetimes=started.attribute_datetimes,
        origin=started.origin,
        priority=started.priority,
        start_delay=delay,
        continued_from=run.run_id,
        first_run_id=started.first_run_id or run.run_id,
        paused=run.paused,
        limits=started.limits,
        encoded=started.encoded,
        updates=owed,
    )
