"""The client: starting runs and reaching them, the same whether the engine lives in this process or behind a wire."""

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Literal, Self, TypedDict, TypeVar, Unpack, cast, get_args, overload

from perdure.core.errors import InvalidArgument, NondeterminismError
from perdure.core.listing.grammar import parse
from perdure.core.payload import Payload
from perdure.core.replies import RunStarted, Status
from perdure.core.requests import OnConflict, Reuse, SignalBody, StartWorkflow, UpdateWorkflow
from perdure.core.tasks import PRIORITY_MAX
from perdure.ports import Chance, Frontend, RunFilter
from perdure.sdk.attributes import AttributeValue, written
from perdure.sdk.call import Call
from perdure.sdk.completing import ActivityCompletion
from perdure.sdk.context import refuse_in_workflow
from perdure.sdk.duration import Duration, aware, bound, instant, length
from perdure.sdk.handle import Handle
from perdure.sdk.handlers import SignalCall, SignalHandler, UpdateCall, UpdateHandler
from perdure.sdk.messages import message_of
from perdure.sdk.options import choice, free_text, identifier, whole
from perdure.sdk.payload_bound import bound_of, bounded
from perdure.sdk.payloads import CONVERTER, Signature
from perdure.sdk.views import WorkflowSummary, summary_of
from perdure.sdk.workflow import Workflow, workflow_of

R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")

LIST_MAX: Final = 1_000
"""Rows of one page."""

CURSOR_CHARS_MAX: Final = 10_000
STATUSES: Final[tuple[Status, ...]] = tuple(sorted(get_args(Status)))
CONFLICTS: Final[tuple[OnConflict, ...]] = get_args(OnConflict)
REUSES: Final[tuple[Reuse, ...]] = get_args(Reuse)

StatusName = Literal[
    "running", "completed", "failed", "cancelled", "terminated", "timed_out", "continued", "quarantined", "paused"
]


class RunOptions(TypedDict, total=False):
    """What may be said of a new run."""

    queue: str | None
    reuse: Reuse
    timeout: Duration | None
    memo: Mapping[str, object] | None
    attributes: Mapping[str, AttributeValue] | None
    origin: str
    priority: int | None
    start_delay: Duration | None
    request_id: str | None


class StartOptions(RunOptions, total=False):
    """What `start` and `execute` take beside the workflow and its arguments."""

    id: str | None
    on_conflict: OnConflict


class Client(ActivityCompletion):
    """Reaches runs of one namespace through a frontend. Every method is safe to call again: requests carry ids."""

    def __init__(
        self,
        frontend: Frontend,
        chance: Chance,
        namespace: str = "default",
        *,
        close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`close` lets go of a connection that is the client's own."""
        self.frontend = frontend
        self._close = close
        self.namespace = identifier(namespace, "namespace")
        self.payload_bytes_max = bound_of(frontend)
        self._chance = chance

    async def close(self) -> None:
        """Let go of the connection: calls under way and later ones raise `Unavailable`. Does nothing for a node's own client. Idempotent."""
        refuse_in_workflow("client.close()")
        if self._close is not None:
            await self._close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def reach(self, call: str) -> Frontend:
        """The frontend, for this call. Raises `NondeterminismError` in workflow code, whose history would know nothing of it."""
        refuse_in_workflow(call)
        return self.frontend

    def fresh_run(self) -> dict[str, Any]:
        """The id and seed of a run that a reset is to begin."""
        return {"new_run_id": self._chance.run_id(), "seed": self._chance.seed()}

    def fresh_id(self) -> str:
        """A new id no one else has."""
        return self._chance.token()

    # --------------------------------------------------------------------------------------------------------------- start

    @overload
    async def start(self, workflow: Call[R], /, **options: Unpack[StartOptions]) -> Handle[R]: ...
    @overload
    async def start(self, workflow: str, /, *args: object, **options: Unpack[StartOptions]) -> Handle[Any]: ...
    @overload
    async def start(self, workflow: Callable[[], Call[R]], /, **options: Unpack[StartOptions]) -> Handle[R]: ...
    @overload
    async def start(self, workflow: Callable[[A], Call[R]], a: A, /, **options: Unpack[StartOptions]) -> Handle[R]: ...
    @overload
    async def start(self, workflow: Callable[[A, B], Call[R]], a: A, b: B, /, **options: Unpack[StartOptions]) -> Handle[R]: ...
    @overload
    async def start(
        self, workflow: Callable[[A, B, C], Call[R]], a: A, b: B, c: C, /, **options: Unpack[StartOptions]
    ) -> Handle[R]: ...
    @overload
    async def start(
        self, workflow: Callable[[A, B, C, D], Call[R]], a: A, b: B, c: C, d: D, /, **options: Unpack[StartOptions]
    ) -> Handle[R]: ...
    @overload
    async def start(
        self, workflow: Callable[[A, B, C, D, E], Call[R]], a: A, b: B, c: C, d: D, e: E, /, **options: Unpack[StartOptions]
    ) -> Handle[R]: ...
    @overload
    async def start(
        self,
        workflow: Callable[[A, B, C, D, E, F], Call[R]],
        a: A,
        b: B,
        c: C,
        d: D,
        e: E,
        f: F,
        /,
        **options: Unpack[StartOptions],
    ) -> Handle[R]: ...
    async def start(self, workflow: Any, /, *args: Any, **options: Any) -> Handle[Any]:
        """Start a run and return its handle once the start is durable.

        `workflow` is a call (`fulfil(order)`), a workflow with its positional arguments, or a type name with them. Behind a name nothing
        is known of the workflow here, only by its workers: what its decorator says of `queue`, `timeout` and `retry` does not hold, the
        queue is "default" unless given, and a run that fails stays failed. `id` is the
        workflow id, a fresh one when left out. `on_conflict` says what an open run of that id means: `fail` raises
        `WorkflowAlreadyStarted`, `attach` gives its handle, `terminate` ends it first. `reuse` says whether the id of a closed run may be
        used again. `timeout` bounds the run. `memo` is for people, `attributes` are for listing; code reads both in
        `workflow.info()`. `priority` (-1,000 to 1,000): higher goes first. With `start_delay` the run exists at once and its code begins
        so long after; what comes meanwhile waits for that, and `timeout` counts from then. A start repeated with its `request_id` gets the run it made, open or closed.

        Raises `WorkflowAlreadyStarted`, `InvalidArgument`, `PayloadTooLarge`, `ResourceExhausted`, `Unavailable`.
        """
        return await self._start("client.start()", workflow, args, options)

    async def _start(self, call: str, workflow: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Handle[Any]:
        _refuse_start(call, workflow)
        request, definition = self._start_request(workflow, args, **options)
        reply: RunStarted = await self.frontend.call(request)
        return Handle(self, request.workflow_id, None, definition, started=reply.run_id)

    @overload
    async def execute(self, workflow: Call[R], /, **options: Unpack[StartOptions]) -> R: ...
    @overload
    async def execute(self, workflow: str, /, *args: object, **options: Unpack[StartOptions]) -> Any: ...
    @overload
    async def execute(self, workflow: Callable[[], Call[R]], /, **options: Unpack[StartOptions]) -> R: ...
    @overload
    async def execute(self, workflow: Callable[[A], Call[R]], a: A, /, **options: Unpack[StartOptions]) -> R: ...
    @overload
    async def execute(self, workflow: Callable[[A, B], Call[R]], a: A, b: B, /, **options: Unpack[StartOptions]) -> R: ...
    @overload
    async def execute(
        self, workflow: Callable[[A, B, C], Call[R]], a: A, b: B, c: C, /, **options: Unpack[StartOptions]
    ) -> R: ...
    @overload
    async def execute(
        self, workflow: Callable[[A, B, C, D], Call[R]], a: A, b: B, c: C, d: D, /, **options: Unpack[StartOptions]
    ) -> R: ...
    @overload
    async def execute(
        self, workflow: Callable[[A, B, C, D, E], Call[R]], a: A, b: B, c: C, d: D, e: E, /, **options: Unpack[StartOptions]
    ) -> R: ...
    @overload
    async def execute(
        self,
        workflow: Callable[[A, B, C, D, E, F], Call[R]],
        a: A,
        b: B,
        c: C,
        d: D,
        e: E,
        f: F,
        /,
        **options: Unpack[StartOptions],
    ) -> R: ...
    async def execute(self, workflow: Any, /, *args: Any, **options: Any) -> Any:
        """`start` and `result` in one. Takes what `start` takes and raises what either raises."""
        handle = await self._start("client.execute()", workflow, args, options)
        return await handle.result()

    async def signal_with_start(
        self,
        call: Call[R],
        signal: SignalCall | str,
        value: Any = None,
        *,
        id: str,
        signal_id: str | None = None,
        **options: Unpack[RunOptions],
    ) -> Handle[R]:
        """Signal the open run of `id`, or start one whose first message it is. A remembered `signal_id` starts and signals nothing."""
        _refuse_start("client.signal_with_start()", call)
        body = self.signal_body(signal, () if isinstance(signal, SignalCall) and value is None else (value,), {}, signal_id)
        given: dict[str, Any] = {**options, "id": id, "on_conflict": "attach", "signal": body}
        return await self._start("client.signal_with_start()", call, (), given)

    def _start_request(
        self,
        workflow: Any,
        args: tuple[Any, ...],
        *,
        id: str | None = None,
        queue: str | None = None,
        on_conflict: OnConflict = "fail",
        reuse: Reuse = "always",
        timeout: Duration | None = None,
        memo: Mapping[str, object] | None = None,
        attributes: Mapping[str, AttributeValue] | None = None,
        origin: str = "default",
        priority: int | None = None,
        start_delay: Duration | None = None,
        request_id: str | None = None,
        signal: SignalBody | None = None,
    ) -> tuple[StartWorkflow, Workflow[..., Any] | None]:
        with bounded(self.payload_bytes_max):
            name, definition, values, keywords = _target(workflow, args)
            kept = {} if memo is None else _memo(memo)
        chance = self._chance
        own_queue = definition.queue if definition is not None else ""
        named, datetimes = ({}, ()) if attributes is None else written(attributes, "attributes")
        own_timeout = definition.timeout if definition is not None else 0
        request = StartWorkflow(
            namespace=self.namespace,
            workflow_id=chance.run_id() if id is None else identifier(id, "workflow id"),
            workflow_type=name,
            run_id=chance.run_id(),
            seed=chance.seed(),
            request_id=chance.token() if request_id is None else identifier(request_id, "request id"),
            queue=own_queue or "default" if queue is None else identifier(queue, "queue"),
            input=values,
            keywords=keywords,
            on_conflict=choice(on_conflict, "on_conflict", CONFLICTS),
            reuse=choice(reuse, "reuse", REUSES),
            timeout=bound(timeout, "timeout") if timeout is not None else own_timeout,
            memo=kept,
            attributes=named,
            attribute_datetimes=datetimes,
            origin=identifier(origin, "origin"),
            priority=0 if priority is None else whole(priority, "priority", -PRIORITY_MAX, PRIORITY_MAX),
            start_delay=0 if start_delay is None else length(start_delay, "start_delay"),
            retry=definition.retry if definition is not None else None,
            signal=signal,
        )
        return request, definition

    def signal_body(self, signal: Any, args: tuple[Any, ...], keywords: dict[str, Any], signal_id: str | None) -> SignalBody:
        """A signal as it travels, under an id that is fresh when none is given."""
        with bounded(self.payload_bytes_max):
            name, values, named = message_of(signal, args, keywords, SignalHandler, SignalCall)
        return SignalBody(
            name=name,
            input=values,
            keywords=named,
            signal_id=self._chance.token() if signal_id is None else identifier(signal_id, "signal id"),
        )

    def update_request(
        self,
        workflow_id: str,
        run_id: str,
        update: Any,
        args: tuple[Any, ...],
        update_id: str | None,
        workflow: Workflow[..., Any] | None,
    ) -> tuple[UpdateWorkflow, Signature | None]:
        """An update as it travels, under an id that is fresh when none is given; and how its answer is read, where that is known."""
        with bounded(self.payload_bytes_max):
            name, values, keywords = message_of(update, args, {}, UpdateHandler, UpdateCall)
        handler: Any = update.handler if isinstance(update, UpdateCall) else update
        if isinstance(update, str):
            handler = workflow.updates.get(update) if workflow is not None else None
        request = UpdateWorkflow(
            namespace=self.namespace,
            workflow_id=workflow_id,
            run_id=run_id,
            update_id=self._chance.token() if update_id is None else identifier(update_id, "update id"),
            name=name,
            input=values,
            keywords=keywords,
        )
        return request, None if handler is None else handler.signature

    # ------------------------------------------------------------------------------------------------------------- reading

    @overload
    def handle(self, id: str, run_id: str | None = None) -> Handle[Any]: ...
    @overload
    def handle(self, id: str, run_id: str | None = None, *, workflow: Callable[..., Call[R]]) -> Handle[R]: ...
    def handle(self, id: str, run_id: str | None = None, workflow: Any = None) -> Handle[Any]:
        """A handle to a workflow id, or to one run of it. No I/O: whether it exists shows when it is used.

        Raises `InvalidArgument` for what can be no id.
        """
        definition = workflow_of(workflow)
        return Handle(
            self,
            identifier(id, "workflow id"),
            None if run_id is None or run_id == "" else identifier(run_id, "run id"),
            definition,
        )

    def list(
        self,
        query: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        *,
        status: StatusName | Sequence[StatusName] | None = None,
        type: str | None = None,
        started_after: datetime | None = None,
        started_before: datetime | None = None,
    ) -> "Listing":
        """Runs, newest first. Awaited it gives one page with `.items` and `.cursor`; `async for` walks all of them.

        `query` says which: `status = 'running' and attr.customer = 'c1'`, with and / or / not, comparisons, `in (…)`, `starts_with`,
        `is null`, over workflow_id, run_id, type, status, queue, started_at, closed_at, length, parent, build and attr.NAME. The other
        arguments narrow it further: `started_after` is inclusive, `started_before` exclusive, both must be aware. `limit` (1 to
        1,000) bounds a page; `cursor` is where the page before ended. Raises `InvalidArgument`, for a bad query with its `column`.
        """
        return Listing(
            self,
            _filter(self.namespace, query, status, type, started_after, started_before),
            whole(limit, "limit", 1, LIST_MAX),
            free_text(cursor, "cursor", CURSOR_CHARS_MAX),
        )

    async def count(
        self,
        query: str | None = None,
        *,
        status: StatusName | Sequence[StatusName] | None = None,
        type: str | None = None,
        started_after: datetime | None = None,
        started_before: datetime | None = None,
    ) -> int:
        """How many runs `list` would give for the same arguments."""
        filter = _filter(self.namespace, query, status, type, started_after, started_before)
        return await self.reach("client.count()").count(filter)


class Page:
    """One page of runs; `cursor` is None on the last one."""

    __slots__ = ("cursor", "items")

    def __init__(self, items: list[WorkflowSummary], cursor: str | None) -> None:
        self.items = items
        self.cursor = cursor


class Listing:
    """What `Client.list` gives: awaitable for one page, async-iterable for everything."""

    def __init__(self, client: Client, filter: RunFilter, limit: int, cursor: str) -> None:
        self._client = client
        self._filter = filter
        self._limit = limit
        self._cursor = cursor

    async def _page(self, cursor: str) -> Page:
        page = await self._client.reach("client.list()").runs(self._filter, self._limit, cursor)
        return Page([summary_of(run) for run in page.items], page.cursor or None)

    def __await__(self) -> Generator[Any, None, Page]:
        return self._page(self._cursor).__await__()

    async def __aiter__(self) -> AsyncIterator[WorkflowSummary]:
        cursor: str | None = self._cursor
        while cursor is not None:
            page = await self._page(cursor)
            for item in page.items:
                yield item
            cursor = page.cursor


def _target(workflow: Any, args: tuple[Any, ...]) -> tuple[str, Workflow[..., Any] | None, Any, Any]:
    if isinstance(workflow, Call):
        definition: Any = cast("Any", workflow).definition
        if not isinstance(definition, Workflow):
            raise InvalidArgument(f"{definition.name} is an activity; only workflows can be started")
        if args:
            raise InvalidArgument(f"the call {workflow!r} has its arguments already")
        taken: Workflow[..., Any] = cast("Workflow[..., Any]", definition)
        values, keywords = taken.signature.bind(workflow.args, workflow.kwargs, taken.name)
        return taken.name, taken, values, keywords
    if isinstance(workflow, Workflow):
        known: Workflow[..., Any] = cast("Workflow[..., Any]", workflow)
        values, keywords = known.signature.bind(args, {}, known.name)
        return known.name, known, values, keywords
    if isinstance(workflow, str):
        name = identifier(workflow, "workflow type")
        return name, None, tuple(CONVERTER.encode(value, f"{name} argument {n}") for n, value in enumerate(args, 1)), {}
    if (made := workflow_of(workflow)) is not None:
        run = f"{made.__qualname__}.{made.fn.__name__}"
        raise InvalidArgument(f"start {run}(…), not the class: {made.__qualname__}(…) would only make an object")
    raise InvalidArgument(f"start takes a workflow call, a workflow or a type name, not {workflow!r}")


def _refuse_start(call: str, workflow: Any) -> None:
    try:
        refuse_in_workflow(call)
    except NondeterminismError:
        if isinstance(workflow, Call):
            cast("Any", workflow).close()  # nobody forgot to await it
        raise


def _memo(memo: object) -> dict[str, Payload]:
    if not isinstance(memo, Mapping):
        raise InvalidArgument(f"memo must be a mapping of names to values, not a {type(memo).__name__}")
    items = cast("Mapping[str, object]", memo).items()
    return {identifier(key, "memo key"): CONVERTER.encode(value, f"memo[{key!r}]") for key, value in items}


def _filter(
    namespace: str,
    query: str | None,
    status: Any,
    type: str | None,
    started_after: datetime | None,
    started_before: datetime | None,
) -> RunFilter:
    """What `list` and `count` were asked for, as one query."""
    if query is not None and not isinstance(cast("object", query), str):
        raise InvalidArgument(f"query must be text, not a {query.__class__.__name__}")
    text = "" if query is None else str.__str__(query)
    parse(text)  # so that its column is one of what was written, whatever is added
    parts = [f"({text})"] if text.strip() else []
    if statuses := _statuses(status):
        parts.append(f"status in ({', '.join(map(_quoted, statuses))})")
    if type:
        parts.append(f"type = {_quoted(identifier(type, 'workflow type'))}")
    if started_after is not None:
        parts.append(f"started_at >= {_moment(started_after, 'started_after')}")
    if started_before is not None:
        parts.append(f"started_at < {_moment(started_before, 'started_before')}")
    return RunFilter(namespace=namespace, query=text if len(parts) < 2 and text.strip() else " and ".join(parts))


def _statuses(status: Any) -> Sequence[str]:
    names: Any = () if status is None else (status,) if isinstance(status, str) else status
    if not isinstance(names, Iterable):
        raise InvalidArgument(f"status must be one of {', '.join(STATUSES)} or several of them, not {status!r}")
    return [choice(cast("Any", name), "status", STATUSES) for name in cast("Iterable[object]", names)]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _moment(given: datetime, what: str) -> str:
    return _quoted(aware(instant(given, what)).isoformat())
