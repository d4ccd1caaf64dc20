"""What workflow code can ask for. Every command names `at`, the input that was being fed when it was asked.

Commands refer to earlier ones by `target`: the number of that command's event when it is recorded, else minus its place (1-based)
among the commands of the same report, so that a report may start and cancel a timer it has never seen a number for.
"""

from typing import TypeAlias

from msgspec import Struct

from perdure.core.events import Attribute, OnCancel, OnParentClose
from perdure.core.failure import Failure
from perdure.core.payload import NULL, Payload
from perdure.core.retry import RetryPolicy


class Command(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type"):
    """One thing asked for; `at` is the number of the input being fed."""

    at: int

    @property
    def type(self) -> str:
        return str(self.__struct_config__.tag)


class ScheduleActivity(Command, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="schedule_activity"):
    name: str
    input: tuple[Payload, ...] = ()
    keywords: dict[str, Payload] = {}
    queue: str = ""
    retry: RetryPolicy = RetryPolicy()
    start_to_close: int = 0
    schedule_to_close: int = 0
    schedule_to_start: int = 0
    heartbeat: int = 0
    local: bool = False
    process: bool = False
    priority: int = 0
    summary: str = ""
    idempotency_key: str = ""
    on_cancel: OnCancel = "try"


class CancelActivity(Command, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="cancel_activity"):
    target: int


class StartTimer(Command, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="start_timer"):
    delay: int
    summary: str = ""


class CancelTimer(Command, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="cancel_timer"):
    target: int


class MarkVersion(Command, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="mark_version"):
    change_id: str
    version: int


class RecordSideEffect(Command, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="record_side_effect"):
    result: Payload = NULL
    failure: Failure | None = None
    """What the function raised; then there is no result."""


class RequestChild(Command, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="request_child"):
    workflow_type: str
    workflow_id: str = ""
    """Empty: made by the owner of origin run id + ordinal."""
    input: tuple[Payload, ...] = ()
    keywords: dict[str, Payload] = {}
    queue: str = ""
    timeout: int = 0
    retry: RetryPolicy | None = None
    on_parent_close: OnParentClose = "terminate"
    memo: dict[str, Payload] = {}
    attributes: dict[str, Attribute] = {}
    attribute_datetimes: tuple[str, ...] = ()
    priority: int = 0
    summary: str = ""


class CancelChild(Command, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="cancel_child"):
    target: int
    reason: str = ""


class SignalExternal(Command, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="signal_external"):
    workflow_id: str
    name: str
    input: tuple[Payload, ...] = ()
    keywords: dict[str, Payload] = {}
    child: int = 0


class CancelExternal(Command, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="cancel_external"):
    workflow_id: str
    reason: str = ""


class SetAttributes(Command, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="set_attributes"):
    attributes: dict[str, Attribute]
    datetimes: tuple[str, ...] = ()


class SetDetails(Command, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="set_details"):
    details: str


class AcceptUpdate(Command, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="accept_update"):
    name: str
    update_id: str
    fed_at: int
    input: tuple[Payload, ...] = ()
    keywords: dict[str, Payload] = {}


class CompleteUpdate(Command, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="complete_update"):
    update_id: str
    target: int
    result: Payload = NULL


class FailUpdate(Command, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="fail_update"):
    update_id: str
    target: int
    failure: Failure


class CompleteWorkflow(Command, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="complete_workflow"):
    result: Payload = NULL


class FailWorkflow(Command, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="fail_workflow"):
    failure: Failure


class CancelWorkflow(Command, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="cancel_workflow"):
    reason: str = ""


class ContinueAsNew(Command, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="continue_as_new"):
    workflow_type: str = ""
    """Empty: the same type."""
    input: tuple[Payload, ...] = ()
    keywords: dict[str, Payload] = {}
    untaken: tuple[int, ...] = ()


ClosingCommand: TypeAlias = CompleteWorkflow | FailWorkflow | CancelWorkflow | ContinueAsNew

AnyCommand: TypeAlias = (
    ScheduleActivity
    | CancelActivity
    | StartTimer
    | CancelTimer
    | MarkVersion
    | RecordSideEffect
    | RequestChild
    | CancelChild
    | SignalExternal
    | CancelExternal
    | SetAttributes
    | SetDetails
    | AcceptUpdate
    | CompleteUpdate
    | FailUpdate
    | ClosingCommand
)
