"""What goes over the socket between a worker process and the one above it: JSON, one message a line. Trusted on both ends.

The first line down is the plan; then orders go down and news come up. A socket that closes is the other process's end.
"""

from typing import Any, Final, Literal

import msgspec

LINE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Far more than the names of everything a module defines."""

AFTER_GRACE_S: Final = 15.0
"""So long after its grace period may a worker take to cut activities short, report them and leave; then it is not asked any more."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker process is to be."""

    modules: tuple[str, ...]
    address: str | None = None
    api_key: str | None = None
    ca: str | None = None
    namespace: str = "default"
    queues: tuple[str, ...] = ()
    """Empty: the default one, and those the code names."""
    build_id: str | None = None
    max_activities: int = 100
    max_processes: int | None = None
    max_cached_runs: int = 10_000
    max_cached_bytes: int = 512 << 20
    grace: float = 30.0
    reload: bool = False

    def __repr__(self) -> str:
        """Without the key."""
        return f"Plan({', '.join(self.modules)})"


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """`drain`: take nothing more, let activities end for `grace` seconds, leave. `hurry`: cut short what still runs."""

    what: Literal["drain", "hurry"]
    grace: float = 0.0


class Loaded(msgspec.Struct, frozen=True, kw_only=True, tag="loaded"):
    """The modules are imported; this is what they hold."""

    build_id: str
    workflows: tuple[str, ...]
    activities: tuple[str, ...]
    queues: tuple[str, ...]
    files: tuple[str, ...] = ()
    """Source files it was made of, told only with `reload`."""


class Serving(msgspec.Struct, frozen=True, kw_only=True, tag="serving"):
    """Tasks are taken from the node at `address`, for the first time or again."""

    address: str


class Away(msgspec.Struct, frozen=True, kw_only=True, tag="away"):
    """The node does not answer, or refuses to; it is asked again and again."""

    why: str
    refused: bool = False


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """This process cannot be a worker, and ends: `code` is the exit code that says why, `name` the error's stable code."""

    code: int
    name: str
    message: str
    files: tuple[str, ...] = ()


News = Loaded | Serving | Away | Failed

_encode: Final = msgspec.json.Encoder().encode
read_plan: Final = msgspec.json.Decoder(Plan).decode
read_order: Final = msgspec.json.Decoder(Order).decode
read_news: Final = msgspec.json.Decoder(News).decode


def line_of(message: Any) -> bytes:
    """A message as it goes over the socket."""
    return _encode(message) + b"\n"
