"""What is said over the wire, either way: one JSON object a message, told apart by its field `is`.

Asks carry a number, from 1 and fresh for each of a session; what answers one repeats it. Fields are only added, with defaults: a node and
those who ask it may differ in version.
"""

from typing import Final, TypeAlias

from msgspec import Raw, Struct

from perdure.core.events import AnyEvent
from perdure.core.limits import LIMITS, Limits
from perdure.core.notes import AnyNote
from perdure.core.payload import ABSENT
from perdure.core.queries import Query, QueryAnswer, TakeQuery
from perdure.core.replies import AnyReply
from perdure.core.requests import ClientRequest, WorkerRequest
from perdure.core.tasks import Task
from perdure.ports import Damage, RunFilter, TaskKind, WorkerIdentity
from perdure.wire.faults import Fault

VERSION: Final = 1
"""Of the protocol. Both ends say theirs; a node refuses one it does not speak."""
PATH: Final = "/api/v1/wire"


class Message(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="is"):
    pass


class Head(Message, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="frame"):
    """First in every frame. `n` counts the frames of a session in one direction, `ack` is the last one received the other way without
    a gap, `now` the node's time (microseconds) when it made the frame."""

    n: int
    ack: int = 0
    now: int = 0


# ----------------------------------------------------------------------------------------------------------------- to the node


class Hello(Message, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="hello"):
    """First on every connection. `session` is fresh per asker, unguessable, and the same over its reconnects.

    `ack` is the last frame received in that session. `workers` are the names of all its workers. With `beats` the connection carries
    signs of life and nothing else.
    """

    version: int
    session: str
    ack: int = 0
    workers: tuple[str, ...] = ()
    beats: bool = False


class Ask(Message, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    id: int


class AskCall(Ask, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="call"):
    """Bring a request to its owner. Asked again after a reconnect it is not carried out again: the answer is the first one's."""

    request: ClientRequest | WorkerRequest


class AskResult(Ask, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="result"):
    """Answered when the run has closed, however long that takes."""

    namespace: str
    workflow_id: str
    run_id: str = ""
    follow: bool = True


class AskUpdate(Ask, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="update"):
    """Answered when an update that run has accepted has ended, however long that takes."""

    namespace: str
    workflow_id: str
    run_id: str
    update_id: str


class AskRecord(Ask, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="record"):
    """Answered in parts, each a `RecordPart`."""

    namespace: str
    workflow_id: str
    run_id: str = ""


class AskDescribe(Ask, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="describe"):
    namespace: str
    workflow_id: str
    run_id: str = ""


class AskQuery(Ask, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="query"):
    """Answered by a worker, or refused when none has answered in the time the query gives."""

    query: Query


class AskRuns(Ask, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="runs"):
    filter: RunFilter
    limit: int
    cursor: str = ""


class AskCount(Ask, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="count"):
    filter: RunFilter


class AskTakeQuery(Ask, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="take_query"):
    take: TakeQuery


class AskAnswerQuery(Ask, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="answer_query"):
    """Answered with null."""

    answer: QueryAnswer


class Forget(Message, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="forget"):
    """Nobody waits for the answer to ask `id` any more."""

    id: int


class Subscribe(Message, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="subscribe"):
    """A worker wants tasks of a queue, as line `line` (the asker's number). Ends with the connection."""

    line: int
    queue: str
    kind: TaskKind
    worker: WorkerIdentity
    credits: int = 0


class Grant(Message, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="grant"):
    line: int
    credits: int


class Unsubscribe(Message, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="unsubscribe"):
    line: int


class HeldClaim(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A claim in a worker's hands: of an activity's attempt, or (`command` 0) of a workflow."""

    namespace: str
    workflow_id: str
    run_id: str
    token: str
    command: int = 0
    attempt: int = 0
    worker: str = ""
    claimed_at: int = 0


class Beat(Message, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="beat"):
    """The worker lives and has these claims in hand. Answered with `BeatAnswer`."""

    claims: tuple[HeldClaim, ...] = ()


Read: TypeAlias = AskResult | AskUpdate | AskRecord | AskDescribe | AskQuery | AskRuns | AskCount | AskTakeQuery
"""Asked again after a reconnect, these are answered anew: they change nothing."""
ToNode: TypeAlias = Head | Hello | AskCall | AskAnswerQuery | Read | Forget | Subscribe | Grant | Unsubscribe | Beat


# ------------------------------------------------------------------------------------------------------------- from the node


class Welcome(Message, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="welcome"):
    """Answers `Hello`. `resumed`: the node knows the session, and what it had answered will come.

    `node` names this life of the node. A claim of a worker here is lost without a sign of life for `lives_for` microseconds.
    """

    version: int
    resumed: bool = False
    node: str = ""
    lives_for: int = 0
    limits: Limits = LIMITS
    may_work: bool = True
    """Whether whoever was let in may be a worker."""


class Replied(Message, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="reply"):
    """What an `AskCall` is answered with."""

    id: int
    reply: AnyReply


class Found(Message, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="found"):
    """What any other ask is answered with. `more`: this is a part, others follow."""

    id: int
    ok: Raw = ABSENT
    more: bool = False


class Failed(Message, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="failed"):
    """An ask failed; with `id` 0, the connection did, and is closed."""

    id: int
    error: Fault


class Delivered(Message, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="task"):
    line: int
    task: Task


class Notice(Message, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="cancel"):
    """The attempt `worker` runs under `token` is asked to stop, or not wanted any more."""

    worker: str
    token: str


class BeatAnswer(Message, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="beaten"):
    """Tokens of claims that are gone, and of attempts whose cancel was asked for. Claims in neither stand."""

    gone: tuple[str, ...] = ()
    cancelled: tuple[str, ...] = ()


class Leaving(Message, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="leaving"):
    """The node stops in a moment: what is asked from now on waits for the next one."""


FromNode: TypeAlias = Head | Welcome | Replied | Found | Failed | Delivered | Notice | BeatAnswer | Leaving


class RecordPart(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Consecutive entries of a run's record."""

    workflow_id: str
    run_id: str
    events: tuple[AnyEvent, ...] = ()
    notes: tuple[AnyNote, ...] = ()
    damage: Damage | None = None
    """In the last part."""
