"""Workflows: the decorator, and the verbs workflow code may use while it runs.

Every verb reaches the run through `current_workflow()` and raises `OutsideContext` where there is none. No verb reads a clock, draws
chance or does I/O: what they answer is a function of the history.
"""

import inspect
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from functools import cached_property, update_wrapper
from random import Random
from typing import Any, Concatenate, Final, Generic, NoReturn, ParamSpec, Protocol, TypeVar, Unpack, cast, overload
from uuid import UUID

from perdure.core.commands import ContinueAsNew
from perdure.core.errors import InvalidArgument, NondeterminismError, OutsideContext
from perdure.core.events import OnParentClose, SignalReceived
from perdure.core.payload import NULL, Payload
from perdure.core.retry import RetryPolicy
from perdure.core.texts import DETAILS_CHARS_MAX
from perdure.sdk.attributes import AttributeValue, written
from perdure.sdk.call import Call
from perdure.sdk.child import ChildHandle, ExternalWorkflow, run_child, start_child
from perdure.sdk.class_form import RunMethod, definition_of, form_of, keep
from perdure.sdk.context import WorkflowContext, current_workflow
from perdure.sdk.duration import Duration, aware, bound, instant, microseconds
from perdure.sdk.handlers import (
    NO_QUERIES,
    NO_SIGNALS,
    NO_UPDATES,
    QueryDecorator,
    QueryHandler,
    SignalDecorator,
    SignalHandler,
    UpdateDecorator,
    UpdateHandler,
)
from perdure.sdk.info import RunInfo
from perdure.sdk.logger import WORKFLOW_LOGGER, WorkflowLogger
from perdure.sdk.options import WorkflowCallOptions, WorkflowOptions, free_text, identifier, refuse_unknown, retry_policy, whole
from perdure.sdk.options import summary as checked_summary
from perdure.sdk.payloads import CONVERTER, Signature
from perdure.sdk.saga import Saga

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
C = TypeVar("C", bound=type)

VERSION_MAX: Final = 2**63 - 1
"""The largest integer that is sure to be read back wherever JSON is."""


class Workflow(Generic[P, R]):
    """A decorated workflow function or class. Calling it gives a `Call[R]` for `client.start` and `client.execute`.

    `fn` is the function itself, `name` the type name; `queue` (empty: the start's), `timeout` (microseconds, 0: none) and `retry` are
    what a start takes unless it says otherwise. In class form `cls` is the class, `fn` its run method, which takes the instance first,
    and `signals`, `queries` and `updates` are its handlers by name.
    """

    fn: Callable[..., Coroutine[Any, Any, R]]
    cls: type | None = None
    signals: Mapping[str, SignalHandler[..., Any]] = NO_SIGNALS
    queries: Mapping[str, QueryHandler[..., Any]] = NO_QUERIES
    updates: Mapping[str, UpdateHandler[..., Any, Any]] = NO_UPDATES
    name: str
    queue: str
    timeout: int
    retry: RetryPolicy | None
    __name__: str
    __qualname__: str

    def __init__(self, fn: Callable[P, Coroutine[Any, Any, R]], options: WorkflowOptions) -> None:
        update_wrapper(self, fn)
        self.fn = fn
        self._take(options)

    @classmethod
    def of_class(cls, form: type, options: WorkflowOptions) -> "Workflow[..., Any]":
        """The workflow that a class is. Raises `InvalidArgument` for what cannot be one."""
        definition: Workflow[..., Any] = cls.__new__(cls)
        update_wrapper(definition, form, updated=())
        definition.cls = form
        run, definition.signals, definition.queries, definition.updates = form_of(form)
        definition.fn = run.fn
        definition._take(options)
        return definition

    def _take(self, options: WorkflowOptions) -> None:
        name, queue = options.get("name"), options.get("queue")
        self.name = identifier(self.__name__ if name is None else name, "workflow name")
        self.queue = "" if queue is None else identifier(queue, "queue")
        self.timeout = bound(options.get("timeout"), "timeout")
        self.retry = retry_policy(options.get("retry"))

    @cached_property
    def signature(self) -> Signature:
        """How arguments and result travel. Made at the first use: hints may name classes that are defined further down."""
        return Signature.of(self.fn, skip_self=self.cls is not None)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        return Call(self, args, kwargs)

    def options(self, **changes: Unpack[WorkflowCallOptions]) -> "Workflow[P, R]":
        """The same workflow with other options, for one call or many. A key left out keeps its value, None takes it away.

        Raises `InvalidArgument` for a value out of its bounds.
        """
        refuse_unknown(changes, WorkflowCallOptions.__optional_keys__, "a workflow's call")
        copy: Workflow[P, R] = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        if "queue" in changes:
            queue = changes["queue"]
            copy.queue = "" if queue is None else identifier(queue, "queue")
        if "timeout" in changes:
            copy.timeout = bound(changes["timeout"], "timeout")
        if "retry" in changes:
            copy.retry = retry_policy(changes["retry"])
        return copy

    def with_code(self, fn: Callable[..., Coroutine[Any, Any, Any]]) -> "Workflow[P, R]":
        """The same workflow, its arguments and result as they are, running `fn`."""
        copy: Workflow[P, R] = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, fn=fn, signature=self.signature)
        return copy

    def begin(self, context: WorkflowContext | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Coroutine[Any, Any, Any]:
        """The coroutine of one call: a child workflow of `context`, or the function itself outside workflow code."""
        if context is not None:
            return run_child(context, self, args, kwargs)
        return self.fn(*args, **kwargs) if self.cls is None else self.fn(self.cls(), *args, **kwargs)

    def __repr__(self) -> str:
        return f"<workflow {self.name}>"


class WorkflowDecorator(Protocol):
    """What `@workflow(…)` with options gives."""

    @overload
    def __call__(self, fn: C, /) -> C: ...
    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...


class WorkflowNamespace:
    """`workflow`: the decorator, and the verbs of a running workflow. The verbs raise `OutsideContext` where none runs."""

    @overload
    def __call__(self, fn: C, /) -> C: ...
    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...
    @overload
    def __call__(self, /, **options: Unpack[WorkflowOptions]) -> WorkflowDecorator: ...
    def __call__(self, fn: Any = None, /, **options: Any) -> Any:
        """Make an async function a workflow, or a class with one `@workflow.run` method, which stays the class it is.

        Raises `InvalidArgument` for what cannot be one and for options out of their bounds.
        """
        given = cast("WorkflowOptions", options)
        refuse_unknown(given, WorkflowOptions.__optional_keys__, "a workflow")

        def decorate(fn: Any) -> Any:
            if isinstance(fn, type):
                keep(Workflow.of_class(fn, given))
                return fn
            _check(fn)
            return Workflow(fn, given)

        return decorate if fn is None else decorate(fn)

    def run(self, fn: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]], /) -> RunMethod[P, R]:
        """Marks the async method of a workflow class that is its main: it takes the run's input and gives its result."""
        return RunMethod(fn)

    @overload
    def signal(
        self, fn: Callable[Concatenate[Any, P], Coroutine[Any, Any, None]], /
    ) -> SignalHandler[P, Coroutine[Any, Any, None]]: ...
    @overload
    def signal(self, fn: Callable[Concatenate[Any, P], None], /) -> SignalHandler[P, None]: ...
    @overload
    def signal(self, /, *, name: str | None = None) -> SignalDecorator: ...
    def signal(self, fn: Any = None, /, *, name: str | None = None) -> Any:
        """Makes a method of a workflow class take the signals of its name (or of `name`), in the order of the history.

        An async one runs as a task of the run. An exception that leaves it fails the run, as if main had raised it.
        """
        return SignalDecorator(name) if fn is None else SignalHandler(fn, name)

    @overload
    def query(self, fn: Callable[Concatenate[Any, P], R], /) -> QueryHandler[P, R]: ...
    @overload
    def query(self, /, *, name: str | None = None) -> QueryDecorator: ...
    def query(self, fn: Any = None, /, *, name: str | None = None) -> Any:
        """Makes a plain method of a workflow class answer queries of its name (or of `name`). It must change nothing."""
        return QueryDecorator(name) if fn is None else QueryHandler(fn, name)

    @overload
    def update(
        self, fn: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]], /
    ) -> UpdateHandler[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def update(self, fn: Callable[Concatenate[Any, P], R], /) -> UpdateHandler[P, R, R]: ...
    @overload
    def update(self, /, *, name: str | None = None) -> UpdateDecorator: ...
    def update(self, fn: Any = None, /, *, name: str | None = None) -> Any:
        """Makes a method of a workflow class carry out updates of its name (or of `name`); `@that_method.validator` may refuse them."""
        if fn is None:
            return UpdateDecorator(name)
        handler: UpdateHandler[..., Any, Any] = UpdateHandler(fn, name)
        return handler

    def info(self) -> RunInfo:
        """What this run knows of itself, as of the input being fed."""
        return RunInfo.of(_running("info"))

    def now(self) -> datetime:
        """The recorded time of the input being fed, as an aware UTC datetime; the same on every replay."""
        return aware(_running("now").now())

    def time(self) -> float:
        """`now()` as seconds since the epoch."""
        return _running("time").now() / 1_000_000

    def random(self) -> Random:
        """The run's own generator, seeded when the run started; always the same object."""
        return _running("random").random()

    def uuid4(self) -> UUID:
        """A UUID drawn from the run's generator."""
        return UUID(int=_running("uuid4").random().getrandbits(128), version=4)

    def uuid7(self) -> UUID:
        """A UUID that sorts by `now()`, the rest drawn from the run's generator."""
        context = _running("uuid7")
        millis, micros = divmod(context.now(), 1_000)
        head = (millis << 16 | 0x7000 | micros * 4096 // 1_000) << 64
        return UUID(int=head | 2 << 62 | context.random().getrandbits(62))

    async def sleep(self, delay: Duration, summary: str | None = None) -> None:
        """A durable timer of `delay` seconds (or a timedelta), never early; zero or less only yields. `summary` says what it waits for."""
        context = _running("sleep")
        await context.sleep(microseconds(delay, "sleep"), checked_summary(summary))

    async def sleep_until(self, when: datetime, summary: str | None = None) -> None:
        """A durable timer until `when`; one that has passed only yields. Raises `InvalidArgument` for a naive datetime."""
        context = _running("sleep_until")
        await context.sleep(instant(when, "sleep_until") - context.now(), checked_summary(summary))

    @overload
    async def receive(self, name: str) -> Any: ...
    @overload
    async def receive(self, name: str, type: type[T]) -> T: ...
    @overload
    async def receive(self, name: str, type: object) -> Any: ...
    async def receive(self, name: str, type: Any = Any) -> Any:
        """The value of the next signal of that name nobody took, also one that came before the wait.

        Raises `InvalidArgument` naming the signal when its value is no `type`; that signal is then used up.
        """
        signal = await _running("receive").receive(identifier(name, "signal name"))
        return CONVERTER.decode(_value(signal), type, f"signal {name}")

    async def wait_until(self, predicate: Callable[[], object]) -> None:
        """Return when `predicate()` is true, at once when it is already; `asyncio.timeout` around it bounds the wait.

        It is tried after each input, in the order of the waits, and must only look: asking for anything durable, making tasks or drawing
        chance in it raises `NondeterminismError`. What it raises is raised here. Raises `InvalidArgument` for an async one.
        """
        context = _running("wait_until")
        if inspect.iscoroutinefunction(predicate) or not callable(cast("object", predicate)):
            raise InvalidArgument(f"wait_until takes a plain function without arguments, not {predicate!r}")
        await context.wait_until(predicate)

    def all_handlers_finished(self) -> bool:
        """True when no async handler of this run is under way; wait until then before you return or continue as new."""
        return _running("all_handlers_finished").handlers_running == 0

    def version(self, change_id: str, min: int, max: int) -> int:
        """Which variant of a change this run takes: `max` in new runs, what was recorded in old ones, 0 where the change came later.

        Raises `NondeterminismError` when that lies outside [`min`, `max`]: the code for it is gone.
        """
        context = _running("version")
        change_id = identifier(change_id, "change id")
        min, max = (whole(bound, f"version({change_id!r})", 0, VERSION_MAX) for bound in (min, max))
        if min > max:
            raise InvalidArgument(f"version({change_id!r}) needs min <= max, not {min} and {max}")
        taken = context.version(change_id, min, max)
        if not min <= taken <= max:
            raise NondeterminismError(f"the run took version {taken} of {change_id!r}; this code knows {min} to {max}")
        return taken

    def patched(self, change_id: str) -> bool:
        """True when this run takes the new path of a change, false in runs that passed here before it was made."""
        return self.version(change_id, 0, 1) == 1

    @overload
    def side_effect(self, fn: Callable[[], T]) -> T: ...
    @overload
    def side_effect(self, fn: Callable[[], object], type: type[T]) -> T: ...
    def side_effect(self, fn: Callable[[], Any], type: Any = None) -> Any:
        """Call `fn` now, record its value and return it; every replay returns the recorded one without calling.

        The value comes back as the payload reads: by `type`, else by the return hint of `fn`, else as plain JSON. What `fn` raises is
        recorded and raised again in its place, as with activities.
        """
        context = _running("side_effect")
        if inspect.iscoroutinefunction(fn):
            raise InvalidArgument("side_effect takes a plain function; async work belongs in an activity")

        def produce() -> Payload:
            return CONVERTER.encode(fn(), "side_effect")

        return CONVERTER.decode(context.side_effect(produce), _result_type(fn) if type is None else type)

    def set_attributes(self, attributes: Mapping[str, AttributeValue | None], /) -> None:
        """Set attributes of this run, on top of those it has; None takes one away. Runs are listed by them.

        Values are `str, int, float, bool`, aware `datetime` or `list[str]`. Raises `InvalidArgument` or `LimitExceeded`, and nothing is set.
        """
        context = _running("set_attributes")
        context.set_attributes(*written(attributes, "set_attributes", unset=True))

    def set_details(self, text: str, /) -> None:
        """Say in a few words how the run stands, for people: `describe` shows it. At most 20,000 characters."""
        context = _running("set_details")
        context.set_details(free_text(text, "details", DETAILS_CHARS_MAX))

    def continue_as_new(self, *args: Any, **kwargs: Any) -> NoReturn:
        """End this run and start its successor under the same workflow id, with these arguments; never returns.

        Raises `InvalidArgument` or `TypeError`, and the run goes on, when they do not fit the workflow.
        """
        context = _running("continue_as_new")
        definition = getattr(context, "definition", None)
        if isinstance(definition, Workflow):
            values, keywords = definition.signature.bind(args, kwargs, definition.name)
        else:
            values = tuple(CONVERTER.encode(value, f"continue_as_new argument {place}") for place, value in enumerate(args, 1))
            keywords = {name: CONVERTER.encode(value, f"continue_as_new argument {name}") for name, value in kwargs.items()}
        context.continue_as_new(ContinueAsNew(at=context.at, input=values, keywords=keywords))

    @overload
    async def start_child(
        self, workflow: Call[R], /, *, id: str | None = None, on_parent_close: OnParentClose = "terminate"
    ) -> ChildHandle[R]: ...
    @overload
    async def start_child(
        self, workflow: str, /, *args: object, id: str | None = None, on_parent_close: OnParentClose = "terminate"
    ) -> ChildHandle[Any]: ...
    async def start_child(
        self, workflow: Any, /, *args: Any, id: str | None = None, on_parent_close: OnParentClose = "terminate"
    ) -> ChildHandle[Any]:
        """Start a child workflow and return its handle once it has started; await the handle for the result.

        `workflow` is a call (`ship(order)`) or a type name with its arguments. `id` is the child's workflow id, one made of this run's id
        and a count when left out. `on_parent_close` says what becomes of the child when this run (with all that it continues as) closes
        first. Raises `ChildWorkflowError` of kind `start_failed` when the id is taken, `InvalidArgument`, `PayloadTooLarge`.
        """
        return await start_child(_running("start_child"), workflow, args, id, on_parent_close)

    def external(self, id: str) -> ExternalWorkflow:
        """Another workflow of this namespace, to signal or cancel. Whether it exists shows when it is used."""
        return ExternalWorkflow(identifier(id, "workflow id"))

    def is_replaying(self) -> bool:
        """True while the code runs over what was decided before. For logs and metrics only: never let a decision depend on it."""
        return _running("is_replaying").is_replaying()

    def saga(self) -> Saga:
        """A block whose compensations run, last first, when it fails."""
        return Saga()

    @property
    def logger(self) -> WorkflowLogger:
        """A logger that is silent while replaying and whose records carry workflow_id and run_id."""
        return WORKFLOW_LOGGER


def _running(verb: str) -> WorkflowContext:
    context = current_workflow()
    if context is None:
        raise OutsideContext(f"workflow.{verb}() can only be called in workflow code that a worker is running")
    return context


def _value(signal: SignalReceived) -> Payload:
    if signal.keywords or len(signal.input) > 1:
        raise InvalidArgument(
            f"signal {signal.name} carries {len(signal.input) + len(signal.keywords)} values; receive takes one"
        )
    return signal.input[0] if signal.input else NULL


def _result_type(fn: Callable[[], Any]) -> Any:
    if isinstance(fn, type):
        return fn
    try:
        return inspect.get_annotations(fn, eval_str=True).get("return", Any)
    except (NameError, TypeError):  # a hint out of reach, or a callable that has none
        return Any


def _check(fn: object) -> None:
    for wrapper in (staticmethod, classmethod):
        if isinstance(fn, wrapper):
            raise InvalidArgument(f"@workflow stands below @{wrapper.__name__}, next to the function")
    if isinstance(fn, Workflow) or not inspect.iscoroutinefunction(fn):
        raise InvalidArgument(f"@workflow takes an async function or a class, not {fn!r}")


def workflow_of(thing: object) -> Workflow[..., Any] | None:
    """The definition that a workflow or a workflow class stands for; None for anything else."""
    if isinstance(thing, Workflow):
        return cast("Workflow[..., Any]", thing)
    return definition_of(thing) if isinstance(thing, type) else None


workflow = WorkflowNamespace()
