"""Chance that one seed decides: the same seed gives the same ids, tokens and seeds, in the same order."""

import random

from perdure.ports import Clock


class SeededChance:
    """`ports.Chance` for tests and the simulation. Run ids are uuid7 of the clock's time (of a count from 1 without a clock)."""

    def __init__(self, seed: int, clock: Clock | None = None) -> None:
        self._random = random.Random(seed)
        self._clock = clock
        self._last = 0

    def run_id(self) -> str:
        milliseconds = self._clock.now() // 1000 if self._clock is not None else 0
        # 12 bits count within a millisecond, so that a later id sorts later.
        self._last = max(self._last + 1, milliseconds << 12)
        stamp, count = self._last >> 12, self._last & 0xFFF
        digits = f"{stamp:012x}7{count:03x}{1 << 63 | self._random.getrandbits(62):016x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def token(self) -> str:
        return f"{self._random.getrandbits(128):032x}"

    def seed(self) -> int:
        return self._random.getrandbits(63)
