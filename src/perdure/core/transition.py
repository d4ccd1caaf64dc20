"""A transition: everything one request changes under one workflow id, committed as one and written as one line.

Stored form, so the same promise of permanence as events: fields are only ever added, last, with a default.
"""

from msgspec import Struct

from perdure.core.events import AnyEvent
from perdure.core.notes import AnyNote


class RunChange(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What a transition appends to one run. `events` are consecutive and follow the run's last one."""

    run_id: str
    events: tuple[AnyEvent, ...] = ()
    notes: tuple[AnyNote, ...] = ()


class Message(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An outbox entry for another run: becomes a request at that run's owner, once per `request_id`.

    Written for what a closing run leaves behind; what an open run owes is read off its state (`core.machine.messages`).
    """

    request_id: str
    workflow_id: str
    kind: str
    """The request's tag."""
    body: dict[str, str] = {}
    """`request`: the request itself, as JSON."""


class Transition(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One durable write. `runs` holds the run changed and, where it closed into another one, its successor, in that order."""

    workflow_id: str
    namespace: str = "default"
    runs: tuple[RunChange, ...] = ()
    outbox: tuple[Message, ...] = ()


def joined(first: Transition, second: Transition) -> Transition:
    """Two transitions of one workflow id, the second right behind the first, as one: for a start and its first decision."""
    last, following = first.runs[-1], second.runs[0]
    if last.run_id == following.run_id:
        merged = RunChange(run_id=last.run_id, events=last.events + following.events, notes=last.notes + following.notes)
        runs = (*first.runs[:-1], merged, *second.runs[1:])
    else:
        runs = first.runs + second.runs
    return Transition(workflow_id=first.workflow_id, namespace=first.namespace, runs=runs, outbox=first.outbox + second.outbox)
