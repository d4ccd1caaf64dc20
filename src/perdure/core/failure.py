"""A failure: an exception of user code as data, so that it can lie in a history and cross processes.

Built and raised again by `sdk.failures`; the engine reads only `type`, `non_retryable`, `next_retry_delay` and the causes' types.
"""

from typing import Literal

from msgspec import Struct

from perdure.core.payload import ABSENT, Payload

FailureKind = Literal[
    "error",
    "start_to_close",
    "schedule_to_start",
    "schedule_to_close",
    "heartbeat",
    "lost",
    "cancelled",
    "terminated",
    "timed_out",
    "start_failed",
]


class Failure(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One exception as data.

    `type` is the class name (what `non_retryable` names are compared with), `bases` the names of its base classes nearest first
    (so that naming a base class covers its subclasses), `module`/`qualname` say where the class can be found for rebuilding it.
    """

    type: str
    message: str = ""
    module: str = ""
    qualname: str = ""
    bases: tuple[str, ...] = ()
    args: Payload = ABSENT
    """JSON list of the exception's `args`, when they could be encoded."""
    fields: Payload = ABSENT
    """JSON object of the instance's attributes, when they could be encoded."""
    details: Payload = ABSENT
    notes: tuple[str, ...] = ()
    traceback: str = ""
    kind: FailureKind = "error"
    name: str = ""
    """Of an activity or child error: the activity's or workflow's type name."""
    attempts: int = 0
    non_retryable: bool = False
    next_retry_delay: int = -1
    """Microseconds; -1 when the exception did not ask for a delay."""
    cause: "Failure | None" = None
    context: "Failure | None" = None
    suppress_context: bool = False
    parts: "tuple[Failure, ...]" = ()
    """Members of an exception group."""

    def chain(self) -> "list[Failure]":
        """This failure and its `__cause__` chain, outermost first."""
        links: list[Failure] = [self]
        while (cause := links[-1].cause) is not None:
            links.append(cause)
        return links
