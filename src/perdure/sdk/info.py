"""What running code may know of itself, in the form authors read: `workflow.info()` and `activity.info()`."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Self

from perdure.core.payload import is_absent
from perdure.sdk.attributes import AttributeValue, read
from perdure.sdk.context import ActivityContext, WorkflowContext
from perdure.sdk.duration import aware
from perdure.sdk.payloads import CONVERTER


class ParentRun(NamedTuple):
    """The run that asked for this one."""

    workflow_id: str
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """What a run knows of itself.

    `attributes` are as set so far. `history_length` is the number of the input being fed and `history_bytes` the size up to it, so both are the same on every replay;
    when `continue_as_new_suggested` turns true the history is long enough for its successor to take over.
    """

    namespace: str
    workflow_id: str
    run_id: str
    type: str
    queue: str
    attempt: int
    started_at: datetime
    parent: ParentRun | None
    memo: dict[str, Any]
    attributes: dict[str, AttributeValue]
    history_length: int
    history_bytes: int
    continue_as_new_suggested: bool

    @classmethod
    def of(cls, context: WorkflowContext) -> Self:
        """Read off the running workflow."""
        known = context.info()
        return cls(
            namespace=known.namespace,
            workflow_id=known.workflow_id,
            run_id=known.run_id,
            type=known.type,
            queue=known.queue,
            attempt=known.attempt,
            started_at=aware(known.started_at),
            parent=None if known.parent is None else ParentRun(*known.parent),
            memo={name: CONVERTER.decode(value, Any) for name, value in known.memo.items()},
            attributes=read(known.attributes, known.datetimes),
            history_length=known.history_length,
            history_bytes=known.history_bytes,
            continue_as_new_suggested=known.continue_as_new_suggested,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityInfo:
    """What an attempt of an activity knows of itself.

    `idempotency_key` is the same for every attempt and should be sent along with the effect; `heartbeat_details` is what the last
    attempt passed to `activity.heartbeat`; after `deadline` (aware UTC, None = no bound) this attempt's result is not taken any more.
    `task_token` is a secret: whoever has it may complete or fail this attempt (see `activity.complete_later`).
    """

    workflow_id: str
    run_id: str
    activity_id: int
    name: str
    attempt: int
    queue: str
    idempotency_key: str
    heartbeat_details: tuple[Any, ...]
    task_token: str = field(repr=False)
    deadline: datetime | None

    @classmethod
    def of(cls, context: ActivityContext) -> Self:
        """Read off the running attempt."""
        details = context.heartbeat_details
        return cls(
            workflow_id=context.workflow_id,
            run_id=context.run_id,
            activity_id=context.activity_id,
            name=context.name,
            attempt=context.attempt,
            queue=context.queue,
            idempotency_key=context.idempotency_key,
            heartbeat_details=() if is_absent(details) else tuple(CONVERTER.decode(details, list[Any])),
            task_token=context.task_token,
            deadline=None if context.deadline is None else aware(context.deadline),
        )
