"""Payloads: JSON text the engine carries and never reads.

A payload is a `msgspec.Raw` around one JSON value without newlines. `ABSENT` (no bytes at all) stands for "there is none",
because `null` is a value an author may well return.
"""

from typing import Final

from msgspec import Raw

Payload = Raw

ABSENT: Final = Raw(b"")
NULL: Final = Raw(b"null")


def size_of(payloads: tuple[Payload, ...]) -> int:
    """Bytes of JSON text in all of them."""
    size = 0
    for payload in payloads:
        size += len(payload)
    return size


def is_absent(payload: Payload) -> bool:
    """True when there is no payload at all (as opposed to a JSON `null`)."""
    return payload is ABSENT or not len(payload)
