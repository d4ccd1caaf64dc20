"""Interceptors: code of the application around client calls, activities and workflows, for tracing, measuring, context that travels along.

Each method gets the call and `next`, which goes on to the interceptor behind it and at last to the thing itself. The first of a list is the
outermost. Where none is given, nothing of this is on the way.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Literal, TypeAlias, TypeVar

from perdure.core.errors import InvalidArgument
from perdure.sdk.workflow import Workflow

ClientCallKind: TypeAlias = Literal[
    "start",
    "signal",
    "query",
    "update",
    "cancel",
    "terminate",
    "pause",
    "resume",
    "reset",
    "complete_activity",
    "fail_activity",
    "result",
]

_C = TypeVar("_C")
Around: TypeAlias = Callable[[_C, Callable[[_C], Awaitable[Any]]], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCall:
    """What a client asks of a run. `name` is the workflow type, or the name of the signal, query or update; `args` are plain JSON values.

    `memo` is that of a start: what an interceptor puts there is part of the run, and read with `workflow.info().memo`.
    """

    kind: ClientCallKind
    workflow_id: str
    run_id: str = ""
    name: str = ""
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict[str, Any])
    memo: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityCall:
    """One attempt of an activity; `activity.info()` tells the rest. Handing on another one calls the function with other arguments."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowCall:
    """The code of a run from its start to its end; `workflow.info()` tells the rest. Handing on another one calls it with other arguments."""

    type: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Interceptor:
    """Override what you want to stand around; the rest goes straight through.

    Whatever `next` raises may be caught, and must be raised again unless the call is to end otherwise.
    """

    async def call(self, call: ClientCall, next: Callable[[ClientCall], Awaitable[Any]]) -> Any:
        """Around a call of a client. What `next` gives is the engine's answer: return it as it is."""
        return await next(call)

    async def execute_activity(self, call: ActivityCall, next: Callable[[ActivityCall], Awaitable[Any]]) -> Any:
        """Around each attempt of an activity, in the worker's loop; also when the function runs on a thread or in another process."""
        return await next(call)

    async def execute_workflow(self, call: WorkflowCall, next: Callable[[WorkflowCall], Awaitable[Any]]) -> Any:
        """Around a run's code. It is workflow code itself: replayed, guarded, deterministic; what it asks for is in the history."""
        return await next(call)


def interceptors_of(given: object) -> tuple[Interceptor, ...]:
    """Those of `interceptors=`. Raises `InvalidArgument` for what is none."""
    found: tuple[Any, ...] = tuple(given) if isinstance(given, Iterable) else (given,)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    for each in found:
        if not isinstance(each, Interceptor):
            raise InvalidArgument(f"interceptors are instances of perdure.Interceptor, not {each!r}")
    return found


def around_calls(interceptors: Sequence[Interceptor]) -> "Around[ClientCall] | None":
    """All that stand around client calls as one; None when none does."""
    return _around([each.call for each in interceptors if type(each).call is not Interceptor.call])


def around_activities(interceptors: Sequence[Interceptor]) -> "Around[ActivityCall] | None":
    """All that stand around activities as one; None when none does."""
    standing = [each for each in interceptors if type(each).execute_activity is not Interceptor.execute_activity]
    return _around([each.execute_activity for each in standing])


def around_workflow(definition: Workflow[..., Any], interceptors: Sequence[Interceptor]) -> Workflow[..., Any]:
    """The workflow with all of them around its code; the very same one when none stands there."""
    standing = [each for each in interceptors if type(each).execute_workflow is not Interceptor.execute_workflow]
    around = _around([each.execute_workflow for each in standing])
    return definition if around is None else definition.with_code(_wrapped(definition, around))


def _wrapped(definition: Workflow[..., Any], around: "Around[WorkflowCall]") -> Callable[..., Any]:
    fn = definition.fn
    own = 0 if definition.cls is None else 1

    @wraps(fn)
    async def run(*args: Any, **kwargs: Any) -> Any:
        async def innermost(call: WorkflowCall) -> Any:
            return await fn(*args[:own], *call.args, **call.kwargs)

        return await around(WorkflowCall(type=definition.name, args=args[own:], kwargs=kwargs), innermost)

    return run


def _around(methods: "Sequence[Around[_C]]") -> "Around[_C] | None":
    if not methods:
        return None
    *outer, last = methods
    around = last
    for method in reversed(outer):
        around = _joined(method, around)
    return around


def _joined(outer: "Around[_C]", inner: "Around[_C]") -> "Around[_C]":
    async def around(call: _C, next: Callable[[_C], Awaitable[Any]]) -> Any:
        async def behind(call: _C) -> Any:
            return await inner(call, next)

        return await outer(call, behind)

    return around
