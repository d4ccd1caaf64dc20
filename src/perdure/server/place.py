"""`DATA/server.json`: where the node of a data directory is reached on its own machine, for commands of the same user.

Written when the node serves, taken away when it stops. One that a killed node left is known by its process not holding the directory.
"""

from pathlib import Path
from typing import Final

import msgspec

from perdure.runtime.private_file import read_small, remove, write_private

PLACE_FILE: Final = "server.json"
PLACE_BYTES_MAX: Final = 64 * 1024


class Place(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a node is. `key` is an admin key for this life of the node, `ca` a file of certificates to trust; empty when none is needed."""

    url: str
    pid: int
    key: str = ""
    ca: str = ""

    def __repr__(self) -> str:
        """Without the key."""
        return f"Place({self.url!r}, pid={self.pid})"


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Place).decode


def announce(data: Path, url: str, pid: int, key: str = "", ca: str = "") -> None:
    """Say where the node of `data` is reached. That directory must be this process's own. Raises OSError."""
    write_private(data / PLACE_FILE, _encode(Place(url=url, pid=pid, key=key, ca=ca)))


def withdraw(data: Path) -> None:
    """Say so no longer. Idempotent; `data` must still be this process's own."""
    remove(data / PLACE_FILE)


def announced(data: Path) -> Place | None:
    """What the node of `data` has said, or one before it; None when none has, or something else is there."""
    content = read_small(data / PLACE_FILE, PLACE_BYTES_MAX)
    if content is None:
        return None
    try:
        return _decode(content)
    except msgspec.MsgspecError:
        return None


def within_reach(host: str) -> str:
    """The address by which a node that listens on `host` is reached from its own machine: of all addresses, the loopback one."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104  compared, not bound
