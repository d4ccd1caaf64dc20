"""What is checked of a client's request before it reaches an owner: every field that would be written down, so that nothing odd ever is."""

from collections.abc import Iterable
from math import isfinite
from typing import Any

from perdure.core.codec import Unwritable, encode_transition
from perdure.core.errors import InvalidArgument
from perdure.core.events import UpdateAccepted
from perdure.core.ids import fault_of_id, is_plain
from perdure.core.queries import Query
from perdure.core.requests import AnyRequest, ResetWorkflow, SignalBody, SignalWorkflow, StartWorkflow, UpdateWorkflow
from perdure.core.tasks import PRIORITY_MAX
from perdure.core.texts import REASON_CHARS_MAX, fault_of_text
from perdure.core.transition import RunChange, Transition

_WHOLE_MAX = 2**63 - 1
_OPTIONAL_IDS = (("run_id", "run id"), ("request_id", "request id"))
"""Of what speaks to a run; empty text stands for none."""


def check(request: AnyRequest) -> None:
    """Raise `InvalidArgument` naming what is wrong with a client's request."""
    _check("workflow id", request.workflow_id)
    _check("namespace", request.namespace)
    if isinstance(request, StartWorkflow):
        _check_start(request)
        return
    if isinstance(request, SignalWorkflow):
        _check_signal(request.signal)
    elif isinstance(request, UpdateWorkflow):
        _check_update(request)
    elif isinstance(request, ResetWorkflow):
        _check("run id", request.new_run_id)
        _check_whole("seed", request.seed)
        _check_whole("event_id", request.event_id)
    for field, what in _OPTIONAL_IDS:
        given = getattr(request, field, "")
        if given != "":
            _check(what, given)
    reason = getattr(request, "reason", "")
    if reason != "":
        _check_text("reason", reason, REASON_CHARS_MAX)


def check_query(query: Query) -> None:
    """As `check`, of a query."""
    _check("workflow id", query.workflow_id)
    _check("namespace", query.namespace)
    _check("query name", query.name)
    if query.run_id != "":
        _check("run id", query.run_id)
    _check_keywords(query.keywords)
    _check_whole("timeout", query.timeout)


def _check_start(request: StartWorkflow) -> None:
    _check("workflow type", request.workflow_type)
    _check("run id", request.run_id)
    _check("queue", request.queue)
    _check("request id", request.request_id)
    _check("origin", request.origin)
    _check_whole("seed", request.seed)
    _check_whole("priority", request.priority)
    if not -PRIORITY_MAX <= request.priority <= PRIORITY_MAX:
        raise InvalidArgument(f"priority must lie between -{PRIORITY_MAX:,} and {PRIORITY_MAX:,}, not {request.priority:,}")
    _check_whole("timeout", request.timeout)
    _check_whole("start_delay", request.start_delay)
    if request.timeout < 0 or request.start_delay < 0:
        raise InvalidArgument("timeout and start_delay must not be negative")
    if request.memo or request.attributes or request.keywords or request.attribute_datetimes:
        _check_names("memo key", request.memo)
        _check_attributes(request.attributes)
        _check_names("attribute", request.attribute_datetimes)
        _check_keywords(request.keywords)
    if request.signal is not None:
        _check_signal(request.signal)


def _check_attributes(attributes: dict[str, Any]) -> None:
    _check_names("attribute", attributes)
    for name, value in attributes.items():
        if type(value) is float and not isfinite(value):
            raise InvalidArgument(f"attribute {name!r} must be a finite number")


def _check_signal(signal: SignalBody) -> None:
    _check("signal name", signal.name)
    _check("signal id", signal.signal_id)
    _check_keywords(signal.keywords)


def _check_update(update: UpdateWorkflow) -> None:
    """It is written down only when a decision takes it, and must not make that unwritable: so all of it is tried now."""
    _check("update name", update.name)
    _check("update id", update.update_id)
    _check_keywords(update.keywords)
    accepted = UpdateAccepted(
        id=1,
        time=0,
        at=1,
        based_on=1,
        name=update.name,
        update_id=update.update_id,
        fed_at=0,
        input=update.input,
        keywords=update.keywords,
    )
    try:
        encode_transition(Transition(workflow_id=update.workflow_id, runs=(RunChange(run_id="", events=(accepted,)),)))
    except Unwritable as error:
        raise InvalidArgument(f"update {update.name} {error}") from error


def _check_names(what: str, names: Iterable[Any]) -> None:
    for name in names:
        _check(what, name)


def _check_keywords(keywords: dict[str, Any]) -> None:
    for name in keywords:
        _check_text("keyword", name, REASON_CHARS_MAX)


def _check(what: str, value: object) -> None:
    if type(value) is str and is_plain(value):
        return
    fault = fault_of_id(value)
    if fault is None and type(value) is not str:
        fault = "must be plain text"
    if fault is not None:
        raise InvalidArgument(f"{what} {fault}")


def _check_text(what: str, value: object, chars_max: int) -> None:
    fault = fault_of_text(value, chars_max)
    if fault is None and type(value) is not str:
        fault = "must be plain text"
    if fault is not None:
        raise InvalidArgument(f"{what} {fault}")


def _check_whole(what: str, value: object) -> None:
    if type(value) is not int or not -_WHOLE_MAX <= value <= _WHOLE_MAX:
        raise InvalidArgument(f"{what} must be a whole number")
