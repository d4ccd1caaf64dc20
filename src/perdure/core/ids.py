"""Ids and names: what is allowed, and keys derived from them."""

import re
from hashlib import blake2b
from typing import Final

is_plain: Final = re.compile(r"[ -~]{1,255}").fullmatch
"""Truthy for text that is a valid id at a glance: most are."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def fault_of_id(value: object, bytes_max: int = 255) -> str | None:
    """Why `value` is no valid id or name (1 … `bytes_max` bytes of UTF-8 without control characters), or None when it is one."""
    if not isinstance(value, str):
        return f"must be text, not {type(value).__name__}"
    if not value:
        return "must not be empty"
    try:
        size = len(value) if value.isascii() else len(value.encode())
    except UnicodeEncodeError:
        return "is not valid Unicode text (it holds a lone surrogate)"
    if size > bytes_max:
        return f"is {size} bytes long; the limit (id_bytes_max) is {bytes_max}"
    if _CONTROL.search(value):
        return "holds a control character"
    return None


def idempotency_key(namespace: str, workflow_id: str, origin_run_id: str, name: str, ordinal: int) -> str:
    """The key an activity sends to services: the same over retries, crashes, resets and added version markers.

    `ordinal` counts the run's activities of that name from 1.
    """
    text = f"{namespace}\0{workflow_id}\0{origin_run_id}\0{name}\0{ordinal}"
    return blake2b(text.encode(), digest_size=16).hexdigest()
