"""Activities: ordinary functions with effects, and the verbs they may use while they run.

Awaited in workflow code, a call of one becomes a command and the answer its result; awaited anywhere else it runs the function here.
The step of a workflow passes through `Activity.__call__` and `_durably`: nothing there may look at signatures or build what could have
been built at decoration.
"""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from functools import cached_property, update_wrapper
from types import MethodType
from typing import Any, Concatenate, Generic, NoReturn, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

from perdure.core.commands import ScheduleActivity
from perdure.core.errors import ActivityError, InvalidArgument, OutsideContext
from perdure.core.events import ActivityCompleted, ActivityFailed, ActivityTimedOut
from perdure.core.failure import Failure, FailureKind
from perdure.sdk.call import Call
from perdure.sdk.context import ActivityAnswer, ActivityContext, CompletesLater, WorkflowContext, activity_context
from perdure.sdk.exceptions import to_exception, to_raisable
from perdure.sdk.info import ActivityInfo
from perdure.sdk.logger import ACTIVITY_LOGGER, ActivityLogger
from perdure.sdk.options import ActivityOptions, CallOptions, command_fields, identifier
from perdure.sdk.payloads import CONVERTER, Signature

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")


class Activity(Generic[P, R]):
    """A decorated function. Calling it gives a `Call[R]`; as a method it binds like any method, and on the class it leaves `self` out.

    `fn` is the function itself (bound, when it is a method of an instance), `name` the type name, `is_async` tells whether it wants a
    loop or a thread.
    """

    fn: Callable[P, Any]
    name: str
    is_async: bool
    __qualname__: str

    def __init__(self, fn: Callable[P, Any], name: str, fields: dict[str, Any]) -> None:
        update_wrapper(self, fn)
        self.fn = fn
        self.name = name
        self.is_async = inspect.iscoroutinefunction(fn)
        self._fields = fields
        self._owner: type | None = None

    def __set_name__(self, owner: type, name: str) -> None:
        # Only where it was defined: an activity of a module that a class merely also names is no method of it.
        if self.fn.__qualname__ == f"{owner.__qualname__}.{name}":
            self._owner = owner

    @cached_property
    def signature(self) -> Signature:
        """How arguments and result travel. Made at the first use: hints may name classes that are defined further down."""
        fn = self.fn.__func__ if isinstance(self.fn, MethodType) else self.fn
        return Signature.of(fn, skip_self=self._owner is not None)

    @property
    def queue(self) -> str:
        """The task queue it names; empty: its run's own."""
        return str(self._fields.get("queue", ""))

    @property
    def in_process(self) -> bool:
        """True when it asks for a process of its own, whatever a call of it may ask for."""
        return bool(self._fields.get("process"))

    @property
    def is_loose(self) -> bool:
        """True for a method without its instance: workflow code may call it, but it cannot run."""
        return self._owner is not None and not isinstance(self.fn, MethodType)

    @overload
    def __get__(self: "Activity[Concatenate[Any, Q], R]", obj: None, owner: type, /) -> "Activity[Q, R]": ...
    @overload
    def __get__(self: "Activity[Concatenate[S, Q], R]", obj: S, owner: type | None = None, /) -> "Activity[Q, R]": ...
    def __get__(self, obj: Any, owner: type | None = None, /) -> "Activity[Any, Any]":
        if obj is None or self._owner is None:
            return cast("Activity[Any, Any]", self)
        bound = MethodType(self.fn, obj)
        return self._copy(fn=bound, __wrapped__=bound, signature=self.signature)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        return Call(self, args, kwargs)

    def options(self, **changes: Unpack[CallOptions]) -> "Activity[P, R]":
        """The same activity with other options, for one call or many. A key left out keeps its value, None takes it away.

        Raises `InvalidArgument` for a value out of its bounds.
        """
        return self._copy(_fields=command_fields(changes, self._fields))

    def _copy(self, **changes: Any) -> "Activity[Any, Any]":
        copy: Activity[Any, Any] = object.__new__(Activity)  # pyright: ignore[reportUnknownVariableType]
        copy.__dict__.update(self.__dict__)
        copy.__dict__.update(changes)
        return copy

    def begin(self, context: WorkflowContext | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Coroutine[Any, Any, Any]:
        """The coroutine that does one call: a durable step of `context`, or the function itself."""
        if context is not None:
            return self._durably(context, args, kwargs)
        if self.is_loose:
            raise InvalidArgument(f"{self.__qualname__} is a method: outside a workflow call it on an instance")
        fn = cast("Callable[..., Any]", self.fn)
        return fn(*args, **kwargs) if self.is_async else _on_thread(fn, args, kwargs)

    async def _durably(self, context: WorkflowContext, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        signature = self.signature
        values, keywords = signature.bind(args, kwargs, self.name)
        command = ScheduleActivity(at=context.at, name=self.name, input=values, keywords=keywords, **self._fields)
        answer = await context.activity(command)
        if isinstance(answer, ActivityCompleted):
            return signature.result(answer.result)
        raise _error(self.name, answer)

    def __repr__(self) -> str:
        return f"<activity {self.name}>"


async def _on_thread(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    result = await asyncio.to_thread(fn, *args, **kwargs)
    # A plain function that hands out a coroutine (a decorator around an async one) is as good as async.
    return await result if inspect.isawaitable(result) else result


def _error(name: str, answer: ActivityAnswer) -> BaseException:
    """What the call raises for an answer that is no result."""
    if isinstance(answer, ActivityTimedOut):
        return _ended(name, answer.attempt, answer.kind, answer.failure)
    if not isinstance(answer, ActivityFailed):
        return asyncio.CancelledError(f"activity {name} was cancelled")
    failure = answer.failure
    if failure.kind != "error" and failure.type in {"", "ActivityError"}:
        return _ended(name, answer.attempt, failure.kind, failure.cause)
    error = to_raisable(failure)
    reason = ActivityError(f"activity {name} failed after {_attempts(answer.attempt)}", name=name, attempts=answer.attempt)
    reason.__cause__ = error.__cause__  # the chain goes on behind it: a non-retryable cause stays one
    error.__cause__ = reason
    return error


def _ended(name: str, attempts: int, kind: FailureKind, last: Failure | None) -> ActivityError:
    what = {"lost": "lost its worker", "cancelled": "was cancelled"}.get(kind, f"passed its {kind} timeout")
    error = ActivityError(f"activity {name} {what} after {_attempts(attempts)}", name=name, attempts=attempts, kind=kind)
    error.__cause__ = None if last is None else to_exception(last)
    return error


def _attempts(count: int) -> str:
    return "1 attempt" if count == 1 else f"{count} attempts"


class ActivityDecorator(Protocol):
    """What `@activity(…)` with options gives."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Activity[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Activity[P, R]: ...


class ActivityNamespace:
    """`activity`: the decorator, and the verbs of a running activity. The verbs raise `OutsideContext` where none runs."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Activity[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Activity[P, R]: ...
    @overload
    def __call__(self, /, **options: Unpack[ActivityOptions]) -> ActivityDecorator: ...
    def __call__(self, fn: Any = None, /, **options: Any) -> Any:
        """Make a function an activity. Raises `InvalidArgument` for what cannot be one and for options out of their bounds."""
        name = options.pop("name", None)
        fields = command_fields(cast("CallOptions", options))
        if name is not None:
            identifier(name, "activity name")

        def decorate(fn: Callable[..., Any]) -> Activity[..., Any]:
            _check(fn)
            return Activity(fn, identifier(fn.__name__ if name is None else name, "activity name"), fields)

        return decorate if fn is None else decorate(fn)

    def info(self) -> ActivityInfo:
        """What this attempt knows of itself."""
        return ActivityInfo.of(_running("info"))

    def heartbeat(self, *details: object) -> None:
        """Say that the attempt is alive, and remember `details` for the next one. Cheap: calls close together are merged."""
        _running("heartbeat").heartbeat(CONVERTER.encode(list(details), "heartbeat"))

    def is_cancelled(self) -> bool:
        """True when the workflow asked this activity to stop; async ones also see `CancelledError`."""
        return _running("is_cancelled").is_cancelled()

    def is_stopping(self) -> bool:
        """True when the worker is draining: a good moment to save progress and raise."""
        return _running("is_stopping").is_stopping()

    def complete_later(self) -> NoReturn:
        """End the function here and leave the attempt open, to be completed by whoever has `activity.info().task_token`; never returns.

        That is `client.complete_activity` or `client.fail_activity`, from any process, now or days later; `client.heartbeat_activity`
        keeps it alive. The attempt takes no slot of the worker meanwhile and outlives it; its bounds (start-to-close,
        schedule-to-close, heartbeat) go on running. Leaves the code as a BaseException that must not be caught.
        """
        _running("complete_later")
        raise CompletesLater

    @property
    def logger(self) -> ActivityLogger:
        """A logger whose records carry workflow_id, run_id, activity and attempt."""
        return ACTIVITY_LOGGER


def _running(verb: str) -> ActivityContext:
    context = activity_context.get()
    if context is None:
        raise OutsideContext(f"activity.{verb}() can only be called in an activity that a worker is running")
    return context


def _check(fn: object) -> None:
    for wrapper in (staticmethod, classmethod):
        if isinstance(fn, wrapper):
            raise InvalidArgument(f"@activity stands below @{wrapper.__name__}, next to the function")
    if not callable(fn) or isinstance(fn, type) or not hasattr(fn, "__name__"):
        raise InvalidArgument(f"@activity takes a function, not {fn!r}")
    if isinstance(fn, Activity) or inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise InvalidArgument(f"an activity returns one result: {fn!r} cannot be one")


activity = ActivityNamespace()
