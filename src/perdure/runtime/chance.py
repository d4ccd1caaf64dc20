"""Real chance: fresh ids, unguessable tokens, seeds, all from the system's source, which is read in large pieces.

A forked child forgets what its parent had read ahead, so no two processes ever give out the same token.
"""

import os
import weakref
from typing import Final

import uuid_utils

_READ_AHEAD: Final = 4096


class RealChance:
    """`ports.Chance` of a process. Not for several threads at once."""

    def __init__(self) -> None:
        self._bytes = b""
        self._used = 0
        _ALL.add(self)

    def run_id(self) -> str:
        return str(uuid_utils.uuid7())

    def token(self) -> str:
        return self._take(16).hex()

    def seed(self) -> int:
        return int.from_bytes(self._take(8), "big") >> 1

    def _take(self, count: int) -> bytes:
        end = self._used + count
        if end > len(self._bytes):
            self._bytes, end = os.urandom(_READ_AHEAD), count
        taken = self._bytes[end - count : end]
        self._used = end
        return taken

    def forget(self) -> None:
        """Throw away what was read ahead."""
        self._bytes = b""


_ALL: Final["weakref.WeakSet[RealChance]"] = weakref.WeakSet()


def _forget_all() -> None:
    for chance in _ALL:
        chance.forget()


os.register_at_fork(after_in_child=_forget_all)
