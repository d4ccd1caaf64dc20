"""Every door of the house on one page: the Protocols behind which clock, disk, store, broker and engine stand.

Production, tests and simulation differ only in what stands behind these. Nothing here does anything.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from perdure.core.description import Description
from perdure.core.errors import ResourceExhausted
from perdure.core.events import AnyEvent, Attribute
from perdure.core.notes import AnyNote
from perdure.core.overview import (
    Component,
    Counters,
    Line,
    NewsItem,
    NodeFigures,
    QueueFigures,
    ShardFigures,
    Stats,
    WorkerFigures,
)
from perdure.core.queries import Query, QueryAnswer, QueryReply, TakeQuery
from perdure.core.replies import RunResult, Status, UpdateResult
from perdure.core.requests import AnyRequest
from perdure.core.state import is_closing
from perdure.core.tasks import CancelNotice, Kind, Task
from perdure.core.transition import Transition

if TYPE_CHECKING:
    from asyncio import Future


class Wake(Protocol):
    """What `Clock.call_at` gives back."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Time, as integer microseconds since the epoch (UTC). Never goes backwards within a process."""

    def now(self) -> int: ...

    def not_before(self, instant: int) -> None:
        """From here on it is at least `instant`: an earlier process wrote that time down, so it has been."""
        ...

    def call_at(self, instant: int, callback: Callable[[], None]) -> Wake:
        """Call back on the loop's thread at or after `instant`, never before."""
        ...

    async def sleep(self, duration: int) -> None:
        """Wait `duration` microseconds of this clock."""
        ...


class Chance(Protocol):
    """Randomness and fresh ids."""

    def run_id(self) -> str:
        """A uuid7 as text: fresh, and later ones sort later."""
        ...

    def token(self) -> str:
        """128 unguessable bits as text."""
        ...

    def seed(self) -> int:
        """63 random bits."""
        ...


class DiskFull(ResourceExhausted):
    """There is no room (or quota) left on the disk: nothing was written, what is there can be read, and a later try may succeed."""


class AppendFile(Protocol):
    """A file that only grows at its end. One writer, one append at a time."""

    @property
    def size(self) -> int:
        """Bytes that are durable, without room set aside behind them."""
        ...

    async def append(self, data: bytes) -> None:
        """Write `data` whole and make it durable (fdatasync).

        Raises `DiskFull` when there is no room: nothing of it counts then and what was written is cut back. Any other exception, of
        the sync above all, or being cancelled meanwhile, is final: the file refuses every later append with OSError.
        """
        ...

    def close(self) -> None:
        """Wait for an append that is under way, give back unused room, let go of the file. Idempotent."""
        ...


class Files(Protocol):
    """The disk, as the journal needs it. Names are relative paths with `/`, all below one directory."""

    def names(self, folder: str) -> Sequence[str]:
        """Names of the files in a folder, sorted, each with the folder in front; none when there is no such folder."""
        ...

    def size(self, name: str) -> int:
        """Length of a file in bytes."""
        ...

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset`; fewer only at the end of the file."""
        ...

    def truncate(self, name: str, size: int) -> None:
        """Cut a file and make the cut durable."""
        ...

    def open_append(self, name: str, *, room: int = 0) -> AppendFile:
        """Open or make a file (and its folder) for appending; making one is durable (directory fsync) when this returns.

        `room`: so many bytes at a time are set aside for it, as zeros behind its last byte, because a sync that need not make a file
        longer is faster. Where that cannot be done, appends go on without. Raises `DiskFull`.
        """
        ...

    def replace(self, name: str, by: str) -> None:
        """Let the file `by` take the place and name of `name`, all at once and durably. `by` must be durable."""
        ...

    def remove(self, name: str) -> None:
        """Delete a file durably; one that is not there is no error."""
        ...

    def free(self) -> int | None:
        """Bytes for which there is room on the disk; None where that cannot be told."""
        ...

    def lock(self) -> "Wake":
        """Take the directory's lock, or raise `Unavailable` naming the holder; `cancel()` of what is returned gives it back."""
        ...


class Lease(Struct, frozen=True, kw_only=True):
    """The right to write to shards, with the fencing number of each."""

    node: str
    range_ids: dict[int, int]


class CommitResult(Struct, frozen=True, kw_only=True, gc=False):
    """What became of one transition of a batch."""

    ok: bool
    reason: str = ""
    unwritable: bool = False
    """It is this very transition that cannot be written, now or ever, and not one that stands before it."""


class RunSummary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One row of a listing. Instants are microseconds; `closed_at` 0 = open."""

    namespace: str
    workflow_id: str
    run_id: str
    type: str
    status: Status
    queue: str
    started_at: int
    closed_at: int = 0
    length: int = 0
    parent: str = ""
    """Workflow id of the run that asked for it; empty for one that a client started."""
    build_id: str = ""
    attributes: dict[str, Attribute] = {}
    attribute_datetimes: tuple[str, ...] = ()
    """Names of the attributes that are datetimes; those are ISO 8601 text here."""


class RunFilter(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which runs to list: those of a namespace for which a list query (see `core.listing`) holds; an empty one holds for all."""

    namespace: str = "default"
    query: str = ""


class RunPage(Struct, frozen=True, kw_only=True):
    """Newest first by (started_at, run_id); `cursor` is empty on the last page."""

    items: tuple[RunSummary, ...]
    cursor: str = ""


class Damage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a run part of whose history is lost: why, how far whole entries reach, and its closing event if that is whole."""

    reason: str
    last_event: int = 0
    last_note: int = 0
    closing: AnyEvent | None = None


class DamagedRun(Struct, frozen=True, kw_only=True):
    """A run part of whose history is lost. `workflow_id` is empty when nothing whole says under which id it ran."""

    namespace: str
    workflow_id: str
    run_id: str
    reason: str


class Census(Struct, frozen=True, kw_only=True):
    """How many runs of all namespaces are open, and the run ids of those that are paused or quarantined (perhaps both)."""

    open: int
    paused: tuple[str, ...] = ()
    quarantined: tuple[str, ...] = ()


class Record(Struct, frozen=True, kw_only=True):
    """All that is kept of one run, in order. With `damage`, only what stands before the first entry that is lost."""

    workflow_id: str
    run_id: str
    events: tuple[AnyEvent, ...]
    notes: tuple[AnyNote, ...] = ()
    damage: Damage | None = None


def closing_of(record: Record) -> AnyEvent | None:
    """The event that ended a run, or None."""
    if record.damage is not None:
        return record.damage.closing
    return record.events[-1] if record.events and is_closing(record.events[-1]) else None


class Store(Protocol):
    """Where transitions are committed. One conformance suite runs against every implementation.

    `commit` is the only write. A batch is durable as a whole when it returns; transitions of one workflow id are in order. Results say
    which were refused: "fenced", or "refused: …" for one that cannot be written as JSON and those of its workflow id behind it in the
    batch. `ResourceExhausted` means that nothing of the batch was written and a later one may be; any other exception, that it is
    not known whether it was: the caller must stop using this object. Reads see committed transitions only.
    """

    async def open(self) -> None: ...

    async def close(self) -> None:
        """Stop cleanly. Idempotent."""
        ...

    async def acquire(self, node: str, shards: Sequence[int]) -> Lease: ...

    async def commit(self, lease: Lease, batch: Sequence[Transition]) -> Sequence[CommitResult]: ...

    def may_hold(self, namespace: str, workflow_id: str) -> bool:
        """False only when it is certain, without waiting, that nothing of this workflow id is kept."""
        ...

    async def load(self, namespace: str, workflow_id: str) -> Sequence[Transition]:
        """Every kept transition of a workflow id, in order, without what is left of earlier runs that are damaged. Empty when there is none.

        Raises `HistoryDamaged` when the last run is: nothing may be decided on it. `record` tells what is left of it.
        """
        ...

    async def open_workflows(self, shards: Sequence[int]) -> Sequence[tuple[str, str]]:
        """(namespace, workflow id) of every id that is not parked and whose last run is open, or whose outbox holds messages that are not noted as delivered."""
        ...

    def park(self, namespace: str, workflow_id: str, wake_at: int) -> None:
        """The open run of this workflow id only waits: nothing is due before `wake_at` (microseconds; 0 = ever). Holds until its next transition.

        Said when all its transitions are committed. It may be forgotten, by a crash above all: then the id is among `open_workflows` again.
        """
        ...

    async def waking(self, until: int) -> tuple[Sequence[tuple[str, str]], int]:
        """Parked workflow ids whose wake-up comes at `until` or before, soonest first, though perhaps not all at once; and the instant of the
        next one that is not among them (0: there is none)."""
        ...

    async def record(self, namespace: str, workflow_id: str, run_id: str = "") -> Record | None:
        """A run's events and notes; without `run_id` the last run's. None when it is not kept."""
        ...

    def damaged(self) -> Sequence[DamagedRun]:
        """Every run that is known to be damaged."""
        ...

    async def runs(self, filter: RunFilter, limit: int, cursor: str = "") -> RunPage:
        """One page, of everything that was committed when it was asked for. Raises `InvalidArgument` for a query, cursor or limit that is
        none; one for a query has its `column`."""
        ...

    async def count(self, filter: RunFilter) -> int: ...

    async def census(self) -> Census:
        """Who is open; asked once, at start-up."""
        ...


Answer = Callable[[Any, BaseException | None], None]

TaskKind = Kind


class WorkerIdentity(Struct, frozen=True, kw_only=True):
    """Who a worker is: a name fresh per incarnation, its build, and the owner process it lives in (empty: another one)."""

    worker: str
    build_id: str
    incarnation: str = ""


class Subscription(Protocol):
    """A worker's standing wish for tasks of one queue.

    Credits are the worker's, one count for each kind of task: all its subscriptions of that kind draw on it, so that a limit on what
    runs at once holds for any number of queues.
    """

    def grant(self, credits: int) -> None:
        """Allow the worker so many more deliveries of this kind, from any of its queues; a negative number takes that many back.

        What was on its way when credits were taken back still comes: over a wire a worker may be handed more than it has room for.
        """
        ...

    def cancel(self) -> None:
        """No delivery after this returns."""
        ...

    def give_back(self, task: Task) -> None:
        """A task that was delivered will not be claimed: offer it again, to whoever wants one. Also after `cancel`."""
        ...

    def lose(self) -> None:
        """As `cancel`, said by whoever carries the deliveries when the worker cannot be reached any more.

        With the last subscription of a worker its workflow claims end, and what was on its way to it is offered to others. Its activity
        claims live on as long as they would anyway: a worker cut off from its node goes on, and comes back with what it has.
        """
        ...


Deliver = Callable[[Task | CancelNotice], None]


class Broker(Protocol):
    """Carries tasks to subscribers: at least once, in no promised order. May lose everything; the sweeper makes up for it."""

    def publish(self, task: Task) -> bool:
        """Offer a task; true when a subscriber was handed it at once."""
        ...

    def subscribe(self, queue: str, kind: TaskKind, worker: str, deliver: Deliver, credits: int) -> Subscription: ...

    def served(self, queue: str, kind: TaskKind) -> bool:
        """True when somebody is subscribed."""
        ...

    def depth(self, queue: str, kind: TaskKind) -> int:
        """Tasks waiting for a subscriber."""
        ...

    def head(self, queue: str, kind: TaskKind) -> Task | None:
        """Of the tasks that wait for any subscriber at all, the one that goes next; None when there is none, or it cannot be told."""
        ...

    def lines(self) -> Sequence[Line]:
        """Every line there is, as it stands."""
        ...

    def credits(self, worker: str, kind: TaskKind) -> int:
        """Deliveries of a kind still allowed to a worker; 0 for one that is not subscribed."""
        ...


class Frontend(Protocol):
    """The engine, as clients, workers and the gateway reach it; in this process or through a wire.

    Errors are those of `core.errors`. A reply comes only when what it speaks of is durable.
    """

    def send(self, request: AnyRequest, answer: Answer) -> None:
        """Bring a request to the owner of its workflow id. `answer` is called once, on the loop's thread, perhaps before this returns:
        with the reply its kind calls for, or with None and the error."""
        ...

    def call(self, request: AnyRequest) -> "Future[Any]":
        """Like `send`, for those who await. Cancelling the future takes nothing back."""
        ...

    def subscribe(self, queue: str, kind: TaskKind, worker: "WorkerIdentity", deliver: Deliver, credits: int) -> Subscription:
        """Ask for tasks of a queue, adding `credits` to what the worker may be handed of that kind.

        Cancel notices for the worker come to the same `deliver` and cost no credit.
        """
        ...

    async def result(self, namespace: str, workflow_id: str, run_id: str = "", *, follow: bool = True) -> RunResult:
        """Wait until the run (and with `follow` every run it continued as) has closed."""
        ...

    async def update_result(self, namespace: str, workflow_id: str, run_id: str, update_id: str) -> UpdateResult:
        """Wait until an update that run has accepted is completed or failed.

        Raises `Unavailable` when the run ended before the handler did, `NotFound` when it has accepted no such update.
        """
        ...

    async def query(self, query: Query) -> QueryReply:
        """Have a worker answer a query. Raises `Unavailable` when none does in time, `NotFound` for a run or query there is not,
        `NondeterminismError` for a run that is quarantined or that no worker's code reproduces."""
        ...

    def take_query(self, request: TakeQuery, answer: Answer) -> None:
        """A worker was handed a query's task: `answer` gets a `QueryTaken` with what it needs, or a `QueryNotWanted`."""
        ...

    def answer_query(self, answer: QueryAnswer) -> None:
        """A worker's answer to a query it took. The first one counts; nobody tells it whether it did."""
        ...

    async def record(self, namespace: str, workflow_id: str, run_id: str = "") -> Record: ...

    async def describe(self, namespace: str, workflow_id: str, run_id: str = "") -> Description: ...

    async def runs(self, filter: RunFilter, limit: int, cursor: str = "") -> RunPage: ...

    async def count(self, filter: RunFilter) -> int: ...

    def now(self) -> int:
        """The owner's time, as well as this side can know it."""
        ...


class Overview(Protocol):
    """What a node tells about itself. Every answer is given at once, from counters: it costs the same for any number of runs."""

    def stats(self) -> Stats: ...

    def queues(self) -> Sequence[QueueFigures]: ...

    def workers(self) -> Sequence[WorkerFigures]: ...

    def shards(self) -> Sequence[ShardFigures]: ...

    def node(self) -> NodeFigures: ...

    def components(self) -> Sequence[Component]:
        """How the parts of the node stand that may fail by themselves."""
        ...

    def counters(self) -> Counters:
        """What is counted for machines: see `docs/reference/metrics.md`."""
        ...


class NewsReader(Protocol):
    """Somebody's place in the news of a node. Nothing is kept for it: who reads too slowly is overtaken."""

    @property
    def id(self) -> str:
        """Id of the item up to which everything is taken."""
        ...

    @property
    def gap(self) -> str:
        """Why what was asked for is not all there is to come; empty when it is."""
        ...

    def take(self, limit: int) -> "Sequence[NewsItem]":
        """Up to `limit` items, oldest first; none when all are taken.

        Raises `FellBehind` when items were overwritten before they were taken.
        """
        ...

    async def more(self) -> bool:
        """Wait until there is something to take; false when nothing will ever be again."""
        ...


class FellBehind(ResourceExhausted):
    """What was to be read next is not kept any more: it was read too slowly."""


class News(Protocol):
    """The latest things that happened on a node, numbered upwards, each told after its commit."""

    def read(self, after: str | None = None) -> NewsReader:
        """Read on behind the item of that id; without one, what comes from now on."""
        ...
