"""What a worker and its child processes say to each other: one line of JSON a message, over a socket that is theirs alone.

A child is told one attempt at a time. Values travel as payloads and exceptions as failures; nothing is pickled.
"""

from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from perdure.core.failure import Failure
from perdure.core.payload import ABSENT, NULL, Payload

LINE_BYTES_MAX: Final = 256 * 1024 * 1024
"""One message: a hundred of the largest arguments fit."""


class Message(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="say"):
    pass


# ---------------------------------------------------------------------------------------------------------------- to the child


class Welcome(Message, frozen=True, kw_only=True, omit_defaults=True, tag="welcome"):
    """The first message: where the worker looks for modules."""

    path: tuple[str, ...]


class Run(Message, frozen=True, kw_only=True, omit_defaults=True, tag="run"):
    """Run one attempt. The function is found by `module` and `qualname`, the module by name or else in `file`; the rest is what
    `activity.info()` says in there."""

    module: str
    qualname: str
    name: str
    workflow_id: str
    run_id: str
    activity_id: int
    attempt: int
    queue: str
    idempotency_key: str
    task_token: str
    file: str = ""
    input: tuple[Payload, ...] = ()
    keywords: dict[str, Payload] = {}
    heartbeat_details: Payload = ABSENT
    deadline: int | None = None
    stopping: bool = False


class Cancel(Message, frozen=True, kw_only=True, omit_defaults=True, tag="cancel"):
    """The attempt is asked to stop."""


class Stopping(Message, frozen=True, kw_only=True, omit_defaults=True, tag="stopping"):
    """The worker drains."""


ToChild: TypeAlias = Welcome | Run | Cancel | Stopping

# ---------------------------------------------------------------------------------------------------------------- to the worker


class Beat(Message, frozen=True, kw_only=True, omit_defaults=True, tag="beat"):
    details: Payload


class Done(Message, frozen=True, kw_only=True, omit_defaults=True, tag="done"):
    result: Payload = NULL


class Failed(Message, frozen=True, kw_only=True, omit_defaults=True, tag="failed"):
    """`final`: it would fail at every attempt. `cancelled`: a `CancelledError` left the code."""

    failure: Failure
    final: bool = False
    cancelled: bool = False


class Later(Message, frozen=True, kw_only=True, omit_defaults=True, tag="later"):
    """The attempt is completed from outside."""


ToWorker: TypeAlias = Beat | Done | Failed | Later

_encode: Final = msgspec.json.Encoder().encode
read_in_child: Final = msgspec.json.Decoder(ToChild).decode
read_in_worker: Final = msgspec.json.Decoder(ToWorker).decode


def line_of(message: Message) -> bytes:
    """A message as it is sent."""
    text = _encode(message)
    return (msgspec.json.format(text, indent=-1) if b"\n" in text else text) + b"\n"
