"""What is checked of a client's request before it reaches an owner: every field that would be written down, so that nothing odd ever is."""

from collections.abc import Iterable
from math import isfinite
from typing import Any

from perdure.core.codec import Unwritable, encode_transition
from perdure.core.errors import InvalidArgument
from perdure.core.events import UpdateAccepted
from perdure.core.ids import fault_of_id, is_plain
from perdure.core.limits import Limits
from perdure.core.queries import Query
from perdure.core.requests import AnyRequest, ResetWorkflow, SignalBody, SignalWorkflow, StartWorkflow, UpdateWorkflow
from perdure.core.tasks import PRIORITY_MAX
from perdure.core.texts import REASON_CHARS_MAX, fault_of_text
from perdure.core.transition import RunChange, Transition

_WHOLE_MAX = 2**63 - 1
_OPTIONAL_IDS = (("run_id", "run id"), ("request_id", "request id"))
"""Of what speaks to a run; empty text stands for none."""


class Door:
    """Checks requests under a node's limits."""

    def __init__(self, limits: Limits) -> None:
        self._id_bytes_max = limits.id_bytes_max

    def check(self, request: AnyRequest) -> None:
        """Raise `InvalidArgument` naming what is wrong with a client's request."""
        self._check("workflow id", request.workflow_id)
        self._check("namespace", request.namespace)
        if isinstance(request, StartWorkflow):
            self._check_start(request)
            return
        if isinstance(request, SignalWorkflow):
            self._check_signal(request.signal)
        elif isinstance(request, UpdateWorkflow):
            self._check_update(request)
        elif isinstance(request, ResetWorkflow):
            self._check("run id", request.new_run_id)
            self._check_whole("seed", request.seed)
            self._check_whole("event_id", request.event_id)
        for field, what in _OPTIONAL_IDS:
            given = getattr(request, field, "")
            if given != "":
                self._check(what, given)
        reason = getattr(request, "reason", "")
        if reason != "":
            self._check_text("reason", reason, REASON_CHARS_MAX)

    def check_query(self, query: Query) -> None:
        """As `check`, of a query."""
        self._check("workflow id", query.workflow_id)
        self._check("namespace", query.namespace)
        self._check("query name", query.name)
        if query.run_id != "":
            self._check("run id", query.run_id)
        self._check_keywords(query.keywords)
        self._check_whole("timeout", query.timeout)

    def _check_start(self, request: StartWorkflow) -> None:
        self._check("workflow type", request.workflow_type)
        self._check("run id", request.run_id)
        self._check("queue", request.queue)
        self._check("request id", request.request_id)
        self._check("origin", request.origin)
        self._check_whole("seed", request.seed)
        self._check_whole("priority", request.priority)
        if not -PRIORITY_MAX <= request.priority <= PRIORITY_MAX:
            raise InvalidArgument(f"priority must lie between -{PRIORITY_MAX:,} and {PRIORITY_MAX:,}, not {request.priority:,}")
        self._check_whole("timeout", request.timeout)
        self._check_whole("start_delay", request.start_delay)
        if request.timeout < 0 or request.start_delay < 0:
            raise InvalidArgument("timeout and start_delay must not be negative")
        if request.memo or request.attributes or request.keywords or request.attribute_datetimes:
            self._check_names("memo key", request.memo)
            self._check_attributes(request.attributes)
            self._check_names("attribute", request.attribute_datetimes)
            self._check_keywords(request.keywords)
        if request.signal is not None:
            self._check_signal(request.signal)

    def _check_attributes(self, attributes: dict[str, Any]) -> None:
        self._check_names("attribute", attributes)
        for name, value in attributes.items():
            if type(value) is float and not isfinite(value):
                raise InvalidArgument(f"attribute {name!r} must be a finite number")

    def _check_signal(self, signal: SignalBody) -> None:
        self._check("signal name", signal.name)
        self._check("signal id", signal.signal_id)
        self._check_keywords(signal.keywords)

    def _check_update(self, update: UpdateWorkflow) -> None:
        """It is written down only when a decision takes it, and must not make that unwritable: so all of it is tried now."""
        self._check("update name", update.name)
        self._check("update id", update.update_id)
        self._check_keywords(update.keywords)
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

    def _check_names(self, what: str, names: Iterable[Any]) -> None:
        for name in names:
            self._check(what, name)

    def _check_keywords(self, keywords: dict[str, Any]) -> None:
        for name in keywords:
            self._check_text("keyword", name, REASON_CHARS_MAX)

    def _check(self, what: str, value: object) -> None:
        if type(value) is str and is_plain(value) and len(value) <= self._id_bytes_max:
            return
        fault = fault_of_id(value, self._id_bytes_max)
        if fault is None and type(value) is not str:
            fault = "must be plain text"
        if fault is not None:
            raise InvalidArgument(f"{what} {fault}")

    def _check_text(self, what: str, value: object, chars_max: int) -> None:
        fault = fault_of_text(value, chars_max)
        if fault is None and type(value) is not str:
            fault = "must be plain text"
        if fault is not None:
            raise InvalidArgument(f"{what} {fault}")

    def _check_whole(self, what: str, value: object) -> None:
        if type(value) is not int or not -_WHOLE_MAX <= value <= _WHOLE_MAX:
            raise InvalidArgument(f"{what} must be a whole number")
