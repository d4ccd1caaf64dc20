"""Starting runs, and finding them: start (with or without a signal), list, count."""

from collections.abc import Callable
from datetime import datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from perdure.core.errors import InvalidArgument
from perdure.core.listing.grammar import parse
from perdure.core.requests import OnConflict, Reuse, SignalBody, StartWorkflow
from perdure.core.tasks import PRIORITY_MAX
from perdure.ports import Chance, Frontend, RunFilter
from perdure.sdk.attributes import written
from perdure.sdk.duration import bound, length
from perdure.sdk.payload_bound import limits_of
from perdure.server.arguments import named_payloads, payload, payloads
from perdure.server.parameters import Id, OptionalId, Room, Seconds
from perdure.server.route import HttpAnswer, HttpRequest, Route, answer
from perdure.server.run_view import Count, RunList, summary_of

if TYPE_CHECKING:
    from perdure.core.replies import RunStarted

ITEMS_MAX: Final = 1_000
"""Runs of one page."""
QUERY_CHARS_MAX: Final = 10_000

Attributed = str | int | float | bool | list[str]
IDEMPOTENCY_KEY: Final = "idempotency-key"


class SignalIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A signal that goes with a start."""

    name: Id
    input: Raw | UnsetType = UNSET
    """Its value; without one it has none."""
    signal_id: OptionalId = ""
    """The same id to a workflow id is delivered once. Empty: a fresh one."""


class StartBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run to be started."""

    type: Id
    """The workflow type."""
    id: OptionalId = ""
    """The workflow id. Empty: one made here, from the Idempotency-Key where there is one."""
    input: list[Raw] = []
    """Its arguments, in order."""
    keywords: dict[str, Raw] = {}
    """Its arguments by name."""
    queue: Id = "default"
    on_conflict: OnConflict | None = None
    """What an open run of that id means. Null: `fail`, or `attach` when there is a signal."""
    reuse: Reuse = "always"
    """Whether the id of a closed run may be used again."""
    timeout: Seconds | None = None
    """Bound on the run."""
    memo: dict[Id, Raw] = {}
    """For people."""
    attributes: dict[Id, Attributed] = {}
    """For listing."""
    attribute_datetimes: list[str] = []
    """Names of the attributes that are datetimes: ISO 8601 text with an offset."""
    origin: Id = "default"
    """Whose quota the start counts against."""
    start_delay: Seconds = 0
    """So long after the start the code begins."""
    priority: Annotated[int, Meta(ge=-PRIORITY_MAX, le=PRIORITY_MAX)] = 0
    """Higher goes first."""
    signal: SignalIn | None = None
    """Delivered to the open run of that id, or the first message of the one that is started."""


class StartAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`attached`: the run was there already (status 200 then)."""

    workflow_id: str
    run_id: str
    attached: bool = False


class ListQuery(Room, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which runs, and how many of them."""

    query: Annotated[str, Meta(max_length=QUERY_CHARS_MAX, description="A list query; empty: all runs")] = ""
    limit: Annotated[int, Meta(ge=1, le=ITEMS_MAX)] = 100
    cursor: Annotated[str, Meta(max_length=10_000, description="The `cursor` of the page before")] = ""


class CountQuery(Room, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which runs."""

    query: Annotated[str, Meta(max_length=QUERY_CHARS_MAX, description="A list query; empty: all runs")] = ""


class Starting:
    """Routes that begin with no run in particular."""

    def __init__(self, frontend: Frontend, chance: Chance) -> None:
        self._frontend = frontend
        self._chance = chance
        self._payload_bytes_max = limits_of(frontend).payload_bytes_max

    def table(self) -> tuple[Route, ...]:
        """The routes."""
        return (
            Route(
                method="POST",
                path="/api/v1/workflows",
                name="start_workflow",
                summary="Start a run",
                description="Answered when the start is durable. Repeated with its Idempotency-Key it gets the run it made, open or closed.",
                tag="Workflows",
                permission="operate",
                handler=self.start,
                query=Room,
                body=StartBody,
                answers={201: StartAnswer, 200: StartAnswer},
                errors=("WORKFLOW_ALREADY_STARTED", "LIMIT_EXCEEDED", "HISTORY_DAMAGED"),
                takes_idempotency_key=True,
            ),
            Route(
                method="GET",
                path="/api/v1/workflows",
                name="list_workflows",
                summary="List runs, newest first",
                description="A bad list query is refused with the column at which it goes wrong, in `details.column`.",
                tag="Workflows",
                permission="read",
                handler=self.list,
                query=ListQuery,
                answers={200: RunList},
            ),
            Route(
                method="GET",
                path="/api/v1/workflow-count",
                name="count_workflows",
                summary="Count runs",
                tag="Workflows",
                permission="read",
                handler=self.count,
                query=CountQuery,
                answers={200: Count},
            ),
        )

    async def start(self, request: HttpRequest) -> HttpAnswer:
        start = self._start_of(request)
        reply: RunStarted = await self._frontend.call(start)
        found = StartAnswer(workflow_id=start.workflow_id, run_id=reply.run_id, attached=reply.attached)
        return answer(found, 200 if reply.attached else 201)

    def _start_of(self, request: HttpRequest) -> StartWorkflow:
        body: StartBody = request.body
        namespace: str = request.query.namespace
        chance, size = self._chance, self._payload_bytes_max
        key = idempotency_key(request)
        attributes, datetimes = _attributes(body)
        return StartWorkflow(
            namespace=namespace,
            workflow_id=body.id or (_id_from(namespace, key) if key else chance.run_id()),
            workflow_type=body.type,
            run_id=chance.run_id(),
            seed=chance.seed(),
            request_id=key or chance.token(),
            queue=body.queue,
            input=payloads(body.input, "input", size),
            keywords=named_payloads(body.keywords, "keywords", size),
            on_conflict=body.on_conflict or ("fail" if body.signal is None else "attach"),
            reuse=body.reuse,
            timeout=bound(body.timeout, "timeout"),
            memo=named_payloads(body.memo, "memo", size),
            attributes=attributes,
            attribute_datetimes=datetimes,
            origin=body.origin,
            priority=body.priority,
            start_delay=length(body.start_delay, "start_delay"),
            signal=None if body.signal is None else self._signal_of(body.signal),
        )

    def _signal_of(self, given: SignalIn) -> SignalBody:
        values = () if given.input is UNSET else (payload(given.input, "signal.input", self._payload_bytes_max),)
        return SignalBody(name=given.name, input=values, signal_id=given.signal_id or self._chance.token())

    async def list(self, request: HttpRequest) -> HttpAnswer:
        query: ListQuery = request.query
        page = await self._frontend.runs(_filter(query.namespace, query.query), query.limit, query.cursor)
        return answer(RunList(items=tuple(map(summary_of, page.items)), cursor=page.cursor or None))

    async def count(self, request: HttpRequest) -> HttpAnswer:
        query: CountQuery = request.query
        return answer(Count(count=await self._frontend.count(_filter(query.namespace, query.query))))


def idempotency_key(request: HttpRequest) -> str:
    """The `Idempotency-Key` header; empty when there is none. Raises `InvalidArgument` for one that is no UTF-8."""
    given = request.headers.get(IDEMPOTENCY_KEY, "")
    if given.isascii():
        return given
    try:
        return given.encode("latin-1").decode()
    except UnicodeDecodeError:
        raise InvalidArgument("the Idempotency-Key is not UTF-8 text") from None


def _id_from(namespace: str, key: str) -> str:
    """A workflow id for a start without one, the same when it is repeated: else each repetition would start a run of its own."""
    return blake2b(f"{namespace}\0{key}".encode(), digest_size=16, person=b"workflow id").hexdigest()


def _filter(namespace: str, query: str) -> RunFilter:
    if query:
        parse(query)  # here rather than in the store: a bad one is told before anything is waited for
    return RunFilter(namespace=namespace, query=query)


def _attributes(body: StartBody) -> tuple[dict[str, Any], tuple[str, ...]]:
    if not body.attributes and not body.attribute_datetimes:
        return {}, ()
    values: dict[str, Any] = dict(body.attributes)
    for name in body.attribute_datetimes:
        values[name] = _moment(name, values.get(name), datetime.fromisoformat)
    return written(values, "attributes")


def _moment(name: str, value: object, read: Callable[[str], datetime]) -> datetime:
    try:
        return read(value if isinstance(value, str) else "")
    except ValueError:
        raise InvalidArgument(f"attributes[{name!r}] is no ISO 8601 datetime, though attribute_datetimes says so") from None
