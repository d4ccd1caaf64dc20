"""Which workflow ids there are, roughly, in little memory: a Bloom filter that grows. It may say yes to one that is not; never no to one that is.

The same in every process, whatever the hash seed, so that simulations stay the same.
"""

from typing import Final
from zlib import crc32

BITS_PER_ID: Final = 32
"""Two bits are set for each id: with so much room one in 260 of the ids that are not there is said to be."""
SMALLEST: Final = 1 << 12
"""Ids a first filter has room for."""


class _Filter:
    """Room for `capacity` ids (a power of two)."""

    __slots__ = ("bits", "free", "mask")

    def __init__(self, capacity: int) -> None:
        self.bits = bytearray(capacity * BITS_PER_ID // 8)
        self.mask = capacity * BITS_PER_ID - 1
        self.free = capacity


class Presence:
    """`room`: how many ids are expected. Past it a filter of twice the size is added, so that a few are asked at most."""

    def __init__(self, room: int = 0) -> None:
        self._filters = [_Filter(_power_of_two(max(SMALLEST, room)))]

    @property
    def bytes(self) -> int:
        return sum(len(filter.bits) for filter in self._filters)

    def add(self, namespace: str, workflow_id: str) -> None:
        """Note an id, once."""
        newest = self._filters[-1]
        if not newest.free:
            newest = _Filter(2 * (newest.mask + 1) // BITS_PER_ID)
            self._filters.append(newest)
        newest.free -= 1
        first, second = _hashes(namespace, workflow_id)
        bits, mask = newest.bits, newest.mask
        bits[(first & mask) >> 3] |= 1 << (first & 7)
        bits[(second & mask) >> 3] |= 1 << (second & 7)

    def __contains__(self, key: tuple[str, str]) -> bool:
        first, second = _hashes(*key)
        for filter in self._filters:
            bits, mask = filter.bits, filter.mask
            if bits[(first & mask) >> 3] >> (first & 7) & 1 and bits[(second & mask) >> 3] >> (second & 7) & 1:
                return True
        return False


def _hashes(namespace: str, workflow_id: str) -> tuple[int, int]:
    text = f"{namespace}\0{workflow_id}".encode(errors="surrogatepass")
    first = crc32(text)
    return first, crc32(text[::-1], first)


def _power_of_two(count: int) -> int:
    return 1 << (count - 1).bit_length()
