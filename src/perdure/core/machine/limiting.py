"""What happens to a run that outgrows its limits: it fails, with a failure that names the limit, its value and the setting."""

from perdure.core.events import CLOSING_KINDS, CommandEvent, Failed
from perdure.core.failure import Failure
from perdure.core.limits import Limits
from perdure.core.machine.outcome import Draft
from perdure.core.machine.runs import notify_closed


def limit_failure(message: str) -> Failure:
    return Failure(
        type="LimitExceeded", message=message, module="perdure.core.errors", qualname="LimitExceeded", non_retryable=True
    )


def fail_run(draft: Draft, message: str, seen: int = 0) -> None:
    """Close the run here, as of the input `seen` at least. `at` 0: no code asked for it, and replay does not expect it to."""
    run = draft.run
    based_on = max(run.seen_to, seen, *(event.based_on for event in draft.events if isinstance(event, CommandEvent)))
    draft.add(
        Failed(
            id=draft.next_id,
            time=draft.time,
            at=0,
            based_on=based_on,
            failure=limit_failure(message),
            unseen_signals=sum(1 for signal in run.unseen_signals if signal.id > based_on),
        )
    )
    notify_closed(draft)


def fail_if_too_long(draft: Draft, seen: int = 0) -> None:
    """Fail the run when its history reached the limit and it is not closing anyway.

    `seen` is the input up to which a decision without commands has come: of one that only ever listens, nothing else would be noticed.
    """
    limit = draft.run.started.limits.history_max
    if draft.length < limit or draft.changes or not (draft.events or seen):
        return
    if draft.events and type(draft.events[-1]) in CLOSING_KINDS:
        return
    fail_run(
        draft,
        f"history holds {draft.length} events; the limit (history_events_max) is {limit}: "
        "continue as new before (see workflow.info().continue_as_new_suggested)",
        seen,
    )


def too_large(limits: Limits, commands: int, size: int) -> str | None:
    """Why a decision of so many commands and payload bytes fails its run, or None."""
    if commands > limits.decision_commands_max:
        return f"one decision holds {commands} commands; the limit (decision_commands_max) is {limits.decision_commands_max}"
    if size > limits.decision_bytes_max:
        return f"one decision holds {size} payload bytes; the limit (decision_bytes_max) is {limits.decision_bytes_max}"
    return None
