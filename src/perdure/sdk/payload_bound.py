"""How large one payload may be where it is made: as the run's start says in workflow code, as the node says for its clients and activities.

Never looked up for small payloads: nothing here costs anything below the lowest bound of this process.
"""

from contextvars import ContextVar
from typing import Any, Final

from perdure.core.errors import PayloadTooLarge
from perdure.core.limits import LIMITS, Limits
from perdure.sdk.context import current_workflow

_node: Final[ContextVar[int]] = ContextVar("perdure_payload_bytes_max", default=LIMITS.payload_bytes_max)


class Watermark:
    """Payloads up to `lowest` bytes fit everywhere in this process."""

    lowest: int = LIMITS.payload_bytes_max


def bound_of(frontend: object) -> int:
    """The bound that the engine behind a frontend was given; the default where that cannot be seen from here."""
    bytes_max = limits_of(frontend).payload_bytes_max
    lower(bytes_max)
    return bytes_max


def limits_of(frontend: object) -> Limits:
    """The limits of the engine behind a frontend; the defaults where they cannot be seen from here."""
    while not hasattr(frontend, "limits") and hasattr(frontend, "inner"):
        frontend = getattr(frontend, "inner", None)
    limits: Limits = getattr(frontend, "limits", LIMITS)
    return limits


def lower(bytes_max: int) -> None:
    """Something with that bound is in this process from now on."""
    if bytes_max < Watermark.lowest:
        Watermark.lowest = bytes_max


def bind(bytes_max: int) -> None:
    """From here on, in this context, payloads have that bound."""
    _node.set(bytes_max)


class bounded:  # noqa: N801  reads as the verb it is
    """In this block payloads have that bound. A class, because it is entered for every start and signal."""

    __slots__ = ("_bytes_max", "_token")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max

    def __enter__(self) -> None:
        self._token = _node.set(self._bytes_max)

    def __exit__(self, *_: object) -> None:
        _node.reset(self._token)


def bytes_max() -> int:
    """The bound that holds here."""
    started: Any = getattr(current_workflow(), "started", None)
    return _node.get() if started is None else started.limits.payload_bytes_max


def check_size(size: int, path: str, limit: int) -> None:
    """Raise `PayloadTooLarge` naming what is too large, how large it is, the limit and its setting."""
    if size > limit:
        raise PayloadTooLarge(
            f"{path} is {size:,} bytes, more than the {limit:,} one payload may have (setting limits.payload_bytes_max)"
        )
