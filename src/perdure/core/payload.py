"""Payloads: JSON text the engine carries and never reads.

A payload is a `msgspec.Raw` around one JSON value without newlines. `ABSENT` (no bytes at all) stands for "there is none",
because `null` is a value an author may well return.
"""

from typing import Final

from msgspec import Raw

Payload = Raw

ABSENT: Final = Raw(b"")
NULL: Final = Raw(b"null")


def is_absent(payload: Payload) -> bool:
    """True when there is no payload at all (as opposed to a JSON `null`)."""
    return payload is ABSENT or not bytes(payload)
