"""Handlers: the methods of a workflow class that answer signals, queries and updates, and calls of them as values.

A handler stands in its class as a descriptor. On the class it is a value (`Cart.add("x")` says what to send and does nothing), on an
instance it is the plain method. It is looked at once, when the class is defined, and never changes; nothing here knows of runs.
"""

import inspect
from collections.abc import Callable, Coroutine, Mapping
from functools import cached_property, update_wrapper
from types import MappingProxyType, MethodType
from typing import Any, ClassVar, Concatenate, Final, Generic, Literal, ParamSpec, Self, TypeVar, cast, overload

from perdure.core.errors import InvalidArgument
from perdure.core.payload import Payload
from perdure.sdk.options import identifier
from perdure.sdk.payloads import Signature

HandlerKind = Literal["signal", "query", "update"]

P = ParamSpec("P")
R = TypeVar("R")
M = TypeVar("M")
"""What the method gives when it is called through an instance."""
R_co = TypeVar("R_co", covariant=True)
V = TypeVar("V", bound=Callable[..., object])


class HandlerCall:
    """One handler with its arguments, as a value for a handle. Making one does nothing."""

    __slots__ = ("args", "handler", "kwargs")

    handler: Any
    """The `Handler`. (Its class is a descriptor, which type checkers would look through here.)"""
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __init__(self, handler: "Handler[..., Any]", args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.handler = handler
        self.args = args
        self.kwargs = kwargs

    def bind(self) -> tuple[tuple[Payload, ...], dict[str, Payload]]:
        """The arguments as payloads. Raises `TypeError` for wrong ones, `InvalidArgument` for what cannot be encoded."""
        bound: tuple[tuple[Payload, ...], dict[str, Payload]] = self.handler.bind(self.args, self.kwargs)
        return bound

    def __repr__(self) -> str:
        given = [repr(value) for value in self.args]
        given += [f"{name}={value!r}" for name, value in self.kwargs.items()]
        return f"<{self.handler.kind} {self.handler.name}({', '.join(given)})>"


class SignalCall(HandlerCall):
    """A signal to send."""

    __slots__ = ()


class QueryCall(HandlerCall, Generic[R_co]):
    """A question that gives an `R`."""

    __slots__ = ()


class UpdateCall(HandlerCall, Generic[R_co]):
    """An update that gives an `R`."""

    __slots__ = ()


class Handler(Generic[P, M]):
    """A decorated method. `fn` is the plain function, which takes the instance first; `name` is what callers say."""

    kind: ClassVar[HandlerKind]
    fn: Callable[..., Any]
    name: str
    is_async: bool
    __qualname__: str

    def __init__(self, fn: Callable[Concatenate[Any, P], M], name: str | None = None) -> None:
        _check_method(fn, self.kind)
        update_wrapper(cast("Any", self), fn)
        self.fn = fn
        self.name = identifier(cast("Any", fn).__name__ if name is None else name, f"{self.kind} name")
        self.is_async = inspect.iscoroutinefunction(fn)

    @cached_property
    def signature(self) -> Signature:
        """How its arguments and its answer travel, without the instance. Made at the first use, as hints may name later classes."""
        return Signature.of(self.fn, skip_self=True)

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Payload, ...], dict[str, Payload]]:
        """Arguments as payloads. Raises `TypeError` for wrong ones, `InvalidArgument` for what cannot be encoded."""
        return self.signature.bind(args, kwargs, f"{self.kind} {self.name}")

    @overload
    def __get__(self, obj: None, owner: type) -> Self: ...
    @overload
    def __get__(self, obj: object, owner: type) -> Callable[P, M]: ...
    def __get__(self, obj: Any, owner: type) -> Any:
        return self if obj is None else MethodType(self.fn, obj)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name} of {self.__qualname__.rpartition('.')[0]}>"


class SignalHandler(Handler[P, M]):
    """Takes a message and answers nothing; may be async, and then runs as a task of the run."""

    kind = "signal"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> SignalCall:
        return SignalCall(self, args, kwargs)


class QueryHandler(Handler[P, R]):
    """Answers a question without changing anything; never async."""

    kind = "query"

    def __init__(self, fn: Callable[Concatenate[Any, P], R], name: str | None = None) -> None:
        super().__init__(fn, name)
        if self.is_async:
            raise InvalidArgument(f"query {self.__qualname__} is async: a query answers at once and waits for nothing")

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> QueryCall[R]:
        return QueryCall(self, args, kwargs)


class UpdateHandler(Handler[P, M], Generic[P, R, M]):
    """Changes a run and answers. `check` is its validator, a plain function that takes the instance first, if it has one."""

    kind = "update"
    check: Callable[..., None] | None = None

    def validator(self, fn: V) -> V:
        """Decorates the method that looks at an update's arguments first, and raises to refuse it. It must be plain, not async.

        Raises `InvalidArgument` for what cannot be one, and when there is one already.
        """
        _check_method(fn, "validator")
        if inspect.iscoroutinefunction(fn):
            raise InvalidArgument(f"validator {fn.__qualname__} is async: it judges at once and waits for nothing")
        if self.check is not None:
            raise InvalidArgument(f"update {self.name} has a validator already: {self.check.__qualname__}")
        self.check = cast("Any", fn)
        return fn

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> UpdateCall[R]:
        return UpdateCall(self, args, kwargs)


AnyHandler = SignalHandler[..., Any] | QueryHandler[..., Any] | UpdateHandler[..., Any, Any]

NO_SIGNALS: Final[Mapping[str, SignalHandler[..., Any]]] = MappingProxyType({})
NO_QUERIES: Final[Mapping[str, QueryHandler[..., Any]]] = MappingProxyType({})
NO_UPDATES: Final[Mapping[str, UpdateHandler[..., Any, Any]]] = MappingProxyType({})
"""What workflow functions have: one empty mapping for all of them."""


class SignalDecorator:
    """`@workflow.signal(name=…)`."""

    def __init__(self, name: str | None) -> None:
        self._name = name

    @overload
    def __call__(
        self, fn: Callable[Concatenate[Any, P], Coroutine[Any, Any, None]], /
    ) -> SignalHandler[P, Coroutine[Any, Any, None]]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Any, P], None], /) -> SignalHandler[P, None]: ...
    def __call__(self, fn: Any, /) -> SignalHandler[..., Any]:
        return SignalHandler(fn, self._name)


class QueryDecorator:
    """`@workflow.query(name=…)`."""

    def __init__(self, name: str | None) -> None:
        self._name = name

    def __call__(self, fn: Callable[Concatenate[Any, P], R], /) -> QueryHandler[P, R]:
        return QueryHandler(fn, self._name)


class UpdateDecorator:
    """`@workflow.update(name=…)`."""

    def __init__(self, name: str | None) -> None:
        self._name = name

    @overload
    def __call__(
        self, fn: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]], /
    ) -> UpdateHandler[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Any, P], R], /) -> UpdateHandler[P, R, R]: ...
    def __call__(self, fn: Any, /) -> UpdateHandler[..., Any, Any]:
        return UpdateHandler(fn, self._name)


def _check_method(fn: object, kind: str) -> None:
    for wrapper in (staticmethod, classmethod):
        if isinstance(fn, wrapper):
            raise InvalidArgument(
                f"@workflow.{kind} does not go with @{wrapper.__name__}: it takes a method of the workflow class"
            )
    if not inspect.isfunction(fn):
        raise InvalidArgument(f"a {kind} is a method of a workflow class, not {fn!r}")
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise InvalidArgument(f"{kind} {fn.__qualname__} yields: it must be a plain or async method")
    first = next(iter(inspect.signature(fn).parameters.values()), None)
    if first is None or first.kind in {first.KEYWORD_ONLY, first.VAR_KEYWORD}:
        raise InvalidArgument(f"{kind} {fn.__qualname__} takes no self: it must be a method of the workflow class")
