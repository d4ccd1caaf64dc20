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


def fail_run(draft: Draft, message: str) -> None:
    """Close the run here. `at` 0: no code asked for it, and replay does not expect it to."""
    draft.add(
        Failed(
            id=draft.next_id,
            time=draft.time,
            at=0,
            based_on=max(draft.run.seen_to, *(event.based_on for event in draft.events if isinstance(event, CommandEvent)), 0),
            failure=limit_failure(message),
            unseen_signals=len(draft.run.unseen_signals),
        )
    )
    notify_closed(draft)


def fail_if_too_long(draft: Draft) -> None:
    """Fail the run when its history reached the limit and it is not closing anyway."""
    limit = draft.run.started.limits.history_max
    if draft.length < limit or draft.changes or not draft.events:
        return
    if type(draft.events[-1]) in CLOSING_KINDS:
        return
    fail_run(
        draft,
        f"history holds {draft.length} events; the limit (history_events_max) is {limit}: "
        "continue as new before (see workflow.info().continue_as_new_suggested)",
    )


def too_large(limits: Limits, commands: int, size: int) -> str | None:
    """Why a decision of so many commands and payload bytes fails its run, or None."""
    if commands > limits.decision_commands_max:
        return f"one decision holds {commands} commands; the limit (decision_commands_max) is {limits.decision_commands_max}"
    if size > limits.decision_bytes_max:
        return f"one decision holds {size} payload bytes; the limit (decision_bytes_max) is {limits.decision_bytes_max}"
    return None
