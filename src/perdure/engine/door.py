"""What is checked of a client's request before it reaches an owner: ids and names, so that nothing odd is ever written down."""

from perdure.core.errors import InvalidArgument
from perdure.core.ids import fault_of_id
from perdure.core.requests import AnyRequest, RequestCancel, SignalWorkflow, StartWorkflow, TerminateWorkflow


def check(request: AnyRequest) -> None:
    """Raise `InvalidArgument` naming what is wrong with a client's request."""
    _id("workflow id", request.workflow_id)
    _id("namespace", request.namespace)
    if isinstance(request, StartWorkflow):
        _id("workflow type", request.workflow_type)
        _id("queue", request.queue)
        _id("request id", request.request_id)
        if request.timeout < 0:
            raise InvalidArgument("timeout must not be negative")
        if request.signal is not None:
            _id("signal name", request.signal.name)
            _id("signal id", request.signal.signal_id)
    elif isinstance(request, SignalWorkflow):
        _id("signal name", request.signal.name)
        _id("signal id", request.signal.signal_id)
    elif isinstance(request, (RequestCancel, TerminateWorkflow)) and request.request_id:
        _id("request id", request.request_id)


def _id(what: str, value: object) -> None:
    fault = fault_of_id(value)
    if fault is not None:
        raise InvalidArgument(f"{what} {fault}")
