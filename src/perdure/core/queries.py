"""Queries as values: what is asked of a run, what a worker is handed to answer it, what it answers. Nothing of them is ever recorded."""

from typing import TypeAlias

from msgspec import Struct

from perdure.core.events import AnyEvent
from perdure.core.failure import Failure
from perdure.core.payload import ABSENT, NULL, Payload


class Query(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A question to the run `run_id`, or to the current one. `timeout` (microseconds) bounds the wait for its answer."""

    namespace: str = "default"
    workflow_id: str
    name: str
    timeout: int
    run_id: str = ""
    input: tuple[Payload, ...] = ()
    keywords: dict[str, Payload] = {}


class TakeQuery(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A worker wants to answer the query a task points to. With `is_warm` it holds the run and needs no history."""

    query_id: str
    worker: str
    is_warm: bool = False


class QueryTaken(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The question, and what it is to be answered from.

    A warm run will do that has been fed event `needed`, has seen the decision `decided` (as it stands on `based_on` in events) and
    whose commands are all committed. Else `events` tell the run from its first event on; of an open one the inputs up to `covered` are
    fed.
    """

    query_id: str
    query: Query
    run_id: str
    needed: int = 0
    decided: int = 0
    covered: int = 0
    events: tuple[AnyEvent, ...] = ()


class QueryNotWanted(Struct, frozen=True, gc=False):
    """Answered already, given up, or not to be answered now."""


class Told(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="told"):
    """The handler answered."""

    query_id: str
    run_id: str
    result: Payload = NULL


class Raised(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="raised"):
    """The handler raised, or was given what it does not take."""

    query_id: str
    run_id: str
    failure: Failure


class Refused(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="refused"):
    """No worker with this code can answer. `code` is that of an error class."""

    query_id: str
    run_id: str
    code: str
    message: str


class Passed(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag="passed"):
    """This worker cannot answer, another one may."""

    query_id: str
    run_id: str
    reason: str


QueryAnswer: TypeAlias = Told | Raised | Refused | Passed


class QueryReply(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What whoever asked is told: a result, or what the handler raised."""

    result: Payload = ABSENT
    failure: Failure | None = None
