"""What goes over a node's local socket: one JSON line a message, questions one way and answers the other, paired by number.

Both ends import this and nothing of each other. Fields are only added, with defaults: command line and node may differ in version.
"""

from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from perdure.core.errors import BY_CODE, PerdureError
from perdure.core.events import AnyEvent
from perdure.core.notes import AnyNote
from perdure.core.payload import ABSENT
from perdure.core.queries import Query
from perdure.core.requests import ClientRequest
from perdure.ports import Damage, RunFilter

QUESTION_BYTES_MAX: Final = 32 * 1024 * 1024
"""One line to the node: a start with a dozen of the largest arguments fits."""
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
"""One line from the node. Histories come in parts, each of some entries; an answer or part that is longer still comes in pieces."""
PIECE_BYTES: Final = 8 * 1024 * 1024
"""Of the text of an answer that is too long for one line."""
PART_BYTES_MIN: Final = 256 * 1024
"""A part of a history ends with the entry that brings it to this size."""
ROWS_MAX: Final = 1_000
"""Runs of one page."""


class Question(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="ask"):
    """`id` is the asker's number for it, from 1; the answer repeats it."""

    id: int


class AskCall(Question, frozen=True, kw_only=True, omit_defaults=True, tag="call"):
    """Bring a client's request to its owner. Requests of workers and of the engine itself are not taken here."""

    request: ClientRequest


class AskResult(Question, frozen=True, kw_only=True, omit_defaults=True, tag="result"):
    """Answered when the run has closed, however long that takes."""

    namespace: str
    workflow_id: str
    run_id: str = ""
    follow: bool = True


class AskUpdate(Question, frozen=True, kw_only=True, omit_defaults=True, tag="update"):
    """Answered when an update that run has accepted has ended, however long that takes."""

    namespace: str
    workflow_id: str
    run_id: str
    update_id: str


class AskRecord(Question, frozen=True, kw_only=True, omit_defaults=True, tag="record"):
    """Answered in parts, each a `RecordPart`."""

    namespace: str
    workflow_id: str
    run_id: str = ""


class AskDescribe(Question, frozen=True, kw_only=True, omit_defaults=True, tag="describe"):
    namespace: str
    workflow_id: str
    run_id: str = ""


class AskQuery(Question, frozen=True, kw_only=True, omit_defaults=True, tag="query"):
    """Answered by a worker, or refused when none has answered in the time the query gives."""

    query: Query


class AskRuns(Question, frozen=True, kw_only=True, omit_defaults=True, tag="runs"):
    filter: RunFilter
    limit: int
    cursor: str = ""


class AskCount(Question, frozen=True, kw_only=True, omit_defaults=True, tag="count"):
    filter: RunFilter


class Forget(Question, frozen=True, kw_only=True, omit_defaults=True, tag="forget"):
    """Nobody waits for question `id` any more. Not answered."""


AnyQuestion: TypeAlias = AskCall | AskResult | AskUpdate | AskRecord | AskDescribe | AskQuery | AskRuns | AskCount | Forget


class RecordPart(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Consecutive entries of a run's record."""

    workflow_id: str
    run_id: str
    events: tuple[AnyEvent, ...] = ()
    notes: tuple[AnyNote, ...] = ()
    damage: Damage | None = None
    """In the last part."""


class Fault(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error as data: the class's code, its message and its keyword fields."""

    code: str
    message: str
    fields: dict[str, str | int | float] = {}


class Answer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`id` 0 answers a line that was no question. `more`: this is a part, others follow.

    An `ok` that is too long for a line comes as several answers with a `piece` of its JSON text each (base64 on the wire), all but the
    last of them `unended`.
    """

    id: int
    ok: Raw = ABSENT
    more: bool = False
    piece: bytes = b""
    unended: bool = False
    error: Fault | None = None


_encode: Final = msgspec.json.Encoder().encode
read_question: Final = msgspec.json.Decoder(AnyQuestion).decode
"""A question from its line. Raises `msgspec.MsgspecError`."""
read_answer: Final = msgspec.json.Decoder(Answer).decode
"""An answer from its line. Raises `msgspec.MsgspecError`."""


def text_of(message: object) -> bytes:
    """JSON on one line, without the newline: payloads are carried as they came, and may have some between their tokens."""
    text = _encode(message)
    return msgspec.json.format(text, indent=-1) if b"\n" in text else text


def line_of(message: Question | Answer) -> bytes:
    """A message as it goes over the socket."""
    return text_of(message) + b"\n"


class _Numbered(Struct):
    id: int = 0


def number_of(line: bytes) -> int:
    """The number of a line that may be no question at all; 0 when it has none."""
    try:
        return msgspec.json.decode(line, type=_Numbered).id
    except msgspec.MsgspecError:
        return 0


def fault_of(error: PerdureError) -> Fault:
    """An error on its way to the asker."""
    fields: dict[str, str | int | float] = {
        name: value for name, value in vars(error).items() if isinstance(value, (str, float, int))
    }
    return Fault(code=error.code, message=error.message, fields=fields)


def error_of(fault: Fault) -> PerdureError:
    """The error again. Of a class not known here, or with other fields, what is known is kept: the message above all."""
    kind: Any = BY_CODE.get(fault.code, PerdureError)
    try:
        error: PerdureError = kind(fault.message, **fault.fields)
    except TypeError:
        error = kind(fault.message)
    return error
