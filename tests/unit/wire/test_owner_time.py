"""The owner's time at the asker's end: near to the truth, never ahead of it, never going back."""

import random

from perdure.wire.owner_time import WINDOW_US, OwnerTime


class Hands:
    """A clock set by hand."""

    def __init__(self) -> None:
        self.at = 10**15

    def now(self) -> int:
        return self.at


def test_never_ahead_and_close_by() -> None:
    """Frames take from 0.1 to 50 ms; whatever the offset of the two clocks, the estimate lags by no more than the quickest one of late."""
    for seed in range(20):
        chance = random.Random(seed)
        clock = Hands()
        time = OwnerTime(clock)  # type: ignore[arg-type]
        offset = chance.randint(-(10**12), 10**12)
        last = None
        for number in range(2_000):
            made = clock.at + offset
            clock.at += chance.randint(100, 50_000)
            time.heard(made)
            now = time.now()
            assert now <= clock.at + offset, seed
            assert last is None or now >= last, seed
            last = now
            if number > 100:
                assert clock.at + offset - now < 10_000, seed


def test_an_old_estimate_is_forgotten() -> None:
    """The asker's clock runs fast by one part in a thousand: the estimate follows, it does not run ahead for long."""
    clock = Hands()
    time = OwnerTime(clock)  # type: ignore[arg-type]
    owner = 2 * 10**15
    for _ in range(2_000):
        clock.at += 100_100
        owner += 100_000
        time.heard(owner)
        assert time.now() - owner <= 2 * WINDOW_US // 1_000 + 1_000
