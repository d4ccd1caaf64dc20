"""What is checked of a client's request before it reaches an owner: ids and names, so that nothing odd is ever written down."""

from perdure.core.errors import InvalidArgument
from perdure.core.ids import fault_of_id, is_plain
from perdure.core.requests import AnyRequest, RequestCancel, SignalWorkflow, StartWorkflow, TerminateWorkflow


def check(request: AnyRequest) -> None:
    """Raise `InvalidArgument` naming what is wrong with a client's request."""
    _check("workflow id", request.workflow_id)
    _check("namespace", request.namespace)
    if isinstance(request, StartWorkflow):
        _check("workflow type", request.workflow_type)
        _check("queue", request.queue)
        _check("request id", request.request_id)
        if request.timeout < 0:
            raise InvalidArgument("timeout must not be negative")
        if request.signal is not None:
            _check("signal name", request.signal.name)
            _check("signal id", request.signal.signal_id)
    elif isinstance(request, SignalWorkflow):
        _check("signal name", request.signal.name)
        _check("signal id", request.signal.signal_id)
    elif isinstance(request, (RequestCancel, TerminateWorkflow)) and request.request_id:
        _check("request id", request.request_id)


def _check(what: str, value: object) -> None:
    if type(value) is str and is_plain(value):
        return
    fault = fault_of_id(value)
    if fault is not None:
        raise InvalidArgument(f"{what} {fault}")
