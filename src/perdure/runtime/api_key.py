"""API keys: 256 random bits behind a prefix by which people and secret scanners know them. A node keeps their hashes alone.

A slow hash is for secrets people think up. Nobody finds a key of this length by trying, so one round of SHA-256 is as safe and costs a
request a microsecond.
"""

import base64
import hashlib
import re
import secrets
from typing import Final

PREFIX: Final = "pdk_"
"""Every key begins with it."""
_KEY_BYTES: Final = 32
_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")


def new_api_key() -> str:
    """A fresh key, from the system's source of chance."""
    return PREFIX + base64.urlsafe_b64encode(secrets.token_bytes(_KEY_BYTES)).rstrip(b"=").decode()


def hash_of(key: str) -> str:
    """What a node knows of a key: `sha256:` and 64 hexadecimal digits."""
    return f"sha256:{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"


def is_hash(text: str) -> bool:
    """True for what `hash_of` makes."""
    return _HASH.fullmatch(text) is not None
