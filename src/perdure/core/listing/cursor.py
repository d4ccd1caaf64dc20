"""Where a page of a listing ended, as the opaque text its reader gives back for the next one."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TypeAlias

import msgspec

from perdure.core.errors import InvalidArgument
from perdure.core.listing.columns import WHOLE_MAX

Key: TypeAlias = tuple[int, str, str]
"""What listings are sorted by: (started_at, run id, workflow id); the last only in case two runs share an id."""


def encode_cursor(key: Key) -> str:
    """The cursor of a page whose last row has this key."""
    return urlsafe_b64encode(msgspec.json.encode(key)).decode().rstrip("=")


def decode_cursor(cursor: str) -> Key:
    """The key a cursor stands for. Raises `InvalidArgument` for text nobody gave out."""
    try:
        key = msgspec.json.decode(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)), type=Key)
    except (ValueError, msgspec.DecodeError, RecursionError):
        raise InvalidArgument("cursor is not one that a listing gave out") from None
    if not -WHOLE_MAX <= key[0] <= WHOLE_MAX:
        raise InvalidArgument("cursor is not one that a listing gave out")
    return key
