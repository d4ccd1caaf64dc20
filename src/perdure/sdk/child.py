"""Children and other runs, as workflow code reaches them: awaiting a workflow's call, `workflow.start_child`, `workflow.external`."""

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast, get_args, overload

from perdure.core.commands import CancelExternal, RequestChild, SignalExternal
from perdure.core.errors import ChildWorkflowError, InvalidArgument, OutsideContext
from perdure.core.events import (
    ChildClosed,
    ChildStarted,
    ChildStartFailed,
    ExternalCancelFailed,
    ExternalSignalFailed,
    OnParentClose,
)
from perdure.core.payload import is_absent
from perdure.sdk.call import Call
from perdure.sdk.context import ChildRun, WorkflowContext, current_workflow
from perdure.sdk.exceptions import to_raisable
from perdure.sdk.handlers import SignalCall, SignalHandler
from perdure.sdk.messages import message_of
from perdure.sdk.options import choice, identifier
from perdure.sdk.options import reason as checked_reason
from perdure.sdk.payloads import CONVERTER

if TYPE_CHECKING:
    from perdure.sdk.workflow import Workflow

R_co = TypeVar("R_co", covariant=True)
A = TypeVar("A")
B = TypeVar("B")

POLICIES: Final[tuple[OnParentClose, ...]] = get_args(OnParentClose)


class ChildHandle(Generic[R_co]):
    """A child that has started: `id` is its workflow id, `run_id` its first run.

    Awaiting it gives the child's result, however often it continues as new, or raises what a call of it would. A task that is cancelled
    while it waits here asks the child to stop; `asyncio.shield` keeps it from that.
    """

    __slots__ = ("_child", "_definition", "_name", "id", "run_id")

    id: str
    run_id: str

    def __init__(self, child: ChildRun, started: ChildStarted, name: str, definition: "Workflow[..., Any] | None") -> None:
        self._child = child
        self._name = name
        self._definition = definition
        self.id = started.workflow_id
        self.run_id = started.run_id

    def __await__(self) -> Generator[Any, None, R_co]:
        return self._result().__await__()

    async def _result(self) -> R_co:
        _running(f"child {self.id}")
        return cast("R_co", _outcome(self._name, self._definition, await self._child.over()))

    @overload
    async def signal(self, signal: SignalCall, /) -> None: ...
    @overload
    async def signal(self, signal: str, /, value: Any = None) -> None: ...
    @overload
    async def signal(self, signal: Callable[[], SignalCall], /) -> None: ...
    @overload
    async def signal(self, signal: Callable[[A], SignalCall], a: A, /) -> None: ...
    @overload
    async def signal(self, signal: Callable[[A, B], SignalCall], a: A, b: B, /) -> None: ...
    async def signal(self, signal: Any, /, *args: Any, **value: Any) -> None:
        """Send the child a signal and wait until it is delivered.

        `signal` is a call (`Cart.add("x")`), a handler with its positional arguments, or a name with one value.
        Raises `WorkflowClosed`, `LimitExceeded` (too many unread), `InvalidArgument`, `PayloadTooLarge`.
        """
        await _signal(_running("child.signal()"), self.id, signal, args, value, self._child.number)

    async def cancel(self, reason: str | None = None) -> None:
        """Ask the child to stop. Does not wait for its end: await the handle for that. Once is enough; a closed child is left alone."""
        _running("child.cancel()")
        self._child.cancel(checked_reason(reason))

    def __repr__(self) -> str:
        return f"<ChildHandle {self.id!r} run {self.run_id}>"


class ExternalWorkflow:
    """Another workflow id of the same namespace, as workflow code reaches it. Making one does nothing."""

    __slots__ = ("id",)

    id: str

    def __init__(self, id: str) -> None:
        self.id = id

    @overload
    async def signal(self, signal: SignalCall, /) -> None: ...
    @overload
    async def signal(self, signal: str, /, value: Any = None) -> None: ...
    @overload
    async def signal(self, signal: Callable[[], SignalCall], /) -> None: ...
    @overload
    async def signal(self, signal: Callable[[A], SignalCall], a: A, /) -> None: ...
    @overload
    async def signal(self, signal: Callable[[A, B], SignalCall], a: A, b: B, /) -> None: ...
    async def signal(self, signal: Any, /, *args: Any, **value: Any) -> None:
        """Send its current run a signal and wait until it is delivered. `signal` is what it is for `ChildHandle.signal`.

        Raises `NotFound`, `WorkflowClosed`, `LimitExceeded` (too many unread), `InvalidArgument`, `PayloadTooLarge`.
        """
        await _signal(_running("external.signal()"), self.id, signal, args, value, 0)

    async def cancel(self, reason: str | None = None) -> None:
        """Ask its current run to stop and wait until that is delivered. Raises `NotFound`, `WorkflowClosed`."""
        context = _running("external.cancel()")
        command = CancelExternal(at=context.at, workflow_id=self.id, reason=checked_reason(reason))
        answer = await context.external(command)
        if isinstance(answer, ExternalCancelFailed):
            raise to_raisable(answer.failure)

    def __repr__(self) -> str:
        return f"<ExternalWorkflow {self.id!r}>"


async def run_child(
    context: WorkflowContext, definition: "Workflow[..., Any]", args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """What awaiting a workflow's call in workflow code does: start a child and wait for its end."""
    child = context.child(_request(context, definition, args, kwargs))
    return _outcome(definition.name, definition, await child.over())


async def start_child(
    context: WorkflowContext, workflow: object, args: tuple[Any, ...], id: str | None, on_parent_close: OnParentClose
) -> ChildHandle[Any]:
    """Start a child and wait until it has started. Raises `ChildWorkflowError` (kind `start_failed`) when it cannot."""
    call = _call_of(workflow, args)
    workflow_id = "" if id is None else identifier(id, "child workflow id")
    policy: OnParentClose = choice(on_parent_close, "on_parent_close", POLICIES)
    definition: Workflow[..., Any] | None = None
    if call is not None:
        definition = cast("Workflow[..., Any]", call.definition)
        command = _request(context, definition, call.args, call.kwargs, workflow_id, policy)
    else:
        name = identifier(cast("str", workflow), "workflow type")
        values = tuple(CONVERTER.encode(value, f"{name} argument {place}") for place, value in enumerate(args, 1))
        command = RequestChild(at=context.at, workflow_type=name, workflow_id=workflow_id, input=values, on_parent_close=policy)
    child = context.child(command)
    answer = await child.started()
    if not isinstance(answer, ChildStarted):
        raise _error(command.workflow_type, answer)
    return ChildHandle(child, answer, command.workflow_type, definition)


def _call_of(workflow: object, args: tuple[Any, ...]) -> Call[Any] | None:
    """The call that was given; None for a type name."""
    if isinstance(workflow, str):
        return None
    if not isinstance(workflow, Call):
        raise InvalidArgument(f"start_child takes a call of a workflow or a type name, not {workflow!r}")
    call: Call[Any] = cast("Any", workflow)
    call.close()  # nobody forgot to await it
    if not hasattr(call.definition, "timeout"):
        raise InvalidArgument(f"{call.definition.name} is an activity; only workflows can be children")
    if args:
        raise InvalidArgument(f"the call {call!r} has its arguments already")
    return call


def _request(
    context: WorkflowContext,
    definition: "Workflow[..., Any]",
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    workflow_id: str = "",
    on_parent_close: OnParentClose = "terminate",
) -> RequestChild:
    values, keywords = definition.signature.bind(args, kwargs, definition.name)
    return RequestChild(
        at=context.at,
        workflow_type=definition.name,
        workflow_id=workflow_id,
        input=values,
        keywords=keywords,
        queue=definition.queue,
        timeout=definition.timeout,
        retry=definition.retry,
        on_parent_close=on_parent_close,
    )


async def _signal(
    context: WorkflowContext, id: str, signal: Any, args: tuple[Any, ...], value: dict[str, Any], child: int
) -> None:
    name, payloads, keywords = message_of(signal, args, value, SignalHandler, SignalCall)
    command = SignalExternal(at=context.at, workflow_id=id, name=name, input=payloads, keywords=keywords, child=child)
    answer = await context.external(command)
    if isinstance(answer, ExternalSignalFailed):
        raise to_raisable(answer.failure)


def _outcome(name: str, definition: "Workflow[..., Any] | None", answer: ChildClosed | ChildStartFailed) -> Any:
    """A child's result by its return hint, or what it raises."""
    if isinstance(answer, ChildStartFailed) or answer.status != "completed":
        raise _error(name, answer)
    if is_absent(answer.result):
        return None
    if definition is not None:
        return definition.signature.result(answer.result)
    return CONVERTER.decode(answer.result, Any, f"result of {name}")


def _error(name: str, answer: ChildClosed | ChildStartFailed) -> Exception:
    """The child's own exception with a `ChildWorkflowError` as its cause; that error itself where there is none."""
    if isinstance(answer, ChildStartFailed):
        error = ChildWorkflowError(
            f"child workflow {name} ({answer.workflow_id}) could not be started: {answer.failure.message}",
            name=name,
            kind="start_failed",
        )
        error.__cause__ = to_raisable(answer.failure)
        return error
    about = f"child workflow {name} ({answer.workflow_id})"
    if answer.status == "failed" and answer.failure is not None:
        own = to_raisable(answer.failure)
        reason = ChildWorkflowError(f"{about} failed", name=name, attempts=answer.attempts)
        reason.__cause__ = own.__cause__  # the chain goes on behind it: a non-retryable cause stays one
        own.__cause__ = reason
        return own
    if answer.status == "timed_out":
        return ChildWorkflowError(f"{about} passed its timeout", name=name, attempts=answer.attempts, kind="timed_out")
    kind: Any = answer.status
    return ChildWorkflowError(f"{about} was {kind}", name=name, attempts=answer.attempts, kind=kind)


def _running(verb: str) -> WorkflowContext:
    context = current_workflow()
    if context is None:
        raise OutsideContext(f"{verb} can only be used in workflow code that a worker is running")
    return context
