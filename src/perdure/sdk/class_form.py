"""The class form of a workflow: what `@workflow` finds in a class, and what it refuses there.

The class stays the class its author wrote; its definition is kept in it under one name. A subclass is a workflow only when it is
decorated itself. Everything is looked at once, when the class is decorated, so that a mistake shows at import.
"""

import inspect
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import update_wrapper
from types import MappingProxyType, MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, NamedTuple, ParamSpec, TypeVar, cast, overload

from perdure.core.errors import InvalidArgument
from perdure.sdk.handlers import AnyHandler, Handler, QueryHandler, SignalHandler, UpdateHandler

if TYPE_CHECKING:
    from perdure.sdk.workflow import Workflow

P = ParamSpec("P")
R = TypeVar("R")

_KEPT: Final = "__perdure_workflow__"


class RunMethod(Generic[P, R]):
    """The method decorated with `@workflow.run`. On the class it is the workflow, on an instance the plain method."""

    fn: Callable[..., Coroutine[Any, Any, Any]]
    __qualname__: str

    def __init__(self, fn: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> None:
        if not inspect.isfunction(fn) or not inspect.iscoroutinefunction(fn):
            raise InvalidArgument(f"@workflow.run takes an async method of a workflow class, not {fn!r}")
        if not inspect.signature(fn).parameters:
            raise InvalidArgument(f"run method {fn.__qualname__} takes no self: it must be a method of the workflow class")
        update_wrapper(self, fn)
        self.fn = fn

    @overload
    def __get__(self, obj: None, owner: type) -> "Workflow[P, R]": ...
    @overload
    def __get__(self, obj: object, owner: type) -> Callable[P, Coroutine[Any, Any, R]]: ...
    def __get__(self, obj: Any, owner: type) -> Any:
        if obj is not None:
            return MethodType(self.fn, obj)
        return definition_of(owner) or self

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        """Reached through a class that is no workflow."""
        raise InvalidArgument(f"{self.__qualname__} belongs to no workflow: put @workflow on top of its class")

    def __repr__(self) -> str:
        return f"<run method {self.__qualname__}>"


class ClassForm(NamedTuple):
    """What a workflow class consists of."""

    run: RunMethod[..., Any]
    signals: Mapping[str, SignalHandler[..., Any]]
    queries: Mapping[str, QueryHandler[..., Any]]
    updates: Mapping[str, UpdateHandler[..., Any, Any]]


def definition_of(cls: type) -> "Workflow[..., Any] | None":
    """The workflow that a class was made by its own `@workflow`; None when it has none."""
    definition: Workflow[..., Any] | None = vars(cls).get(_KEPT)
    return definition if definition is not None and definition.cls is cls else None


def keep(definition: "Workflow[..., Any]") -> None:
    """Let the class know its definition."""
    setattr(cast("type", definition.cls), _KEPT, definition)


def form_of(cls: type) -> ClassForm:
    """The run method and handlers of a class, inherited ones included. Raises `InvalidArgument` for what cannot be a workflow."""
    _check_construction(cls)
    members = {name: inspect.getattr_static(cls, name) for name in dir(cls)}
    _check_overrides(cls, members)
    runs: list[RunMethod[..., Any]] = [member for member in members.values() if isinstance(member, RunMethod)]
    if len(runs) != 1:
        found = ", ".join(run.__qualname__ for run in runs) or "none"
        raise InvalidArgument(f"workflow class {cls.__name__} needs exactly one method with @workflow.run: it has {found}")
    handlers = _by_name(cls, [member for member in members.values() if isinstance(member, Handler)])
    return ClassForm(
        runs[0],
        MappingProxyType({name: handler for name, handler in handlers.items() if isinstance(handler, SignalHandler)}),
        MappingProxyType({name: handler for name, handler in handlers.items() if isinstance(handler, QueryHandler)}),
        MappingProxyType({name: handler for name, handler in handlers.items() if isinstance(handler, UpdateHandler)}),
    )


def _by_name(cls: type, handlers: list[Any]) -> dict[str, AnyHandler]:
    by_name: dict[str, AnyHandler] = {}
    for handler in handlers:
        other = by_name.get(handler.name)
        if other is not None and other is not handler:
            raise InvalidArgument(
                f"workflow class {cls.__name__} has two handlers named {handler.name!r}: the {other.kind} {other.__qualname__}"
                f" and the {handler.kind} {handler.__qualname__}"
            )
        by_name[handler.name] = handler
    return by_name


def _check_construction(cls: type) -> None:
    """A run's object is made by the engine, which has nothing to give it."""
    if inspect.isabstract(cls):
        raise InvalidArgument(f"workflow class {cls.__name__} is abstract: decorate the classes that can be made")
    for maker in (inspect.getattr_static(cls, "__init__"), cls.__new__):
        for parameter in _own_parameters(maker):
            if parameter.default is parameter.empty and parameter.kind not in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
                raise InvalidArgument(
                    f"{cls.__name__}.{maker.__name__} needs {parameter.name!r}, but a run's object is made without arguments:"
                    " its input goes to the method with @workflow.run"
                )


def _own_parameters(maker: Any) -> Iterator[inspect.Parameter]:
    try:
        parameters = iter(inspect.signature(maker).parameters.values())
    except (TypeError, ValueError):  # built in, and without a signature to look at
        return
    next(parameters, None)
    yield from parameters


def _check_overrides(cls: type, members: dict[str, Any]) -> None:
    """A plain method that hides a handler would silently take it away."""
    for base in cls.__mro__[1:]:
        for name, hidden in vars(base).items():
            if isinstance(hidden, (Handler, RunMethod)) and not isinstance(members.get(name), (Handler, RunMethod)):
                kind = "run" if isinstance(hidden, RunMethod) else cast("AnyHandler", hidden).kind
                raise InvalidArgument(
                    f"{cls.__name__}.{name} hides {hidden.__qualname__}, which is decorated: put @workflow.{kind} on it as well"
                )
