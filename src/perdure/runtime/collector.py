"""The garbage collector as a process that belongs to perdure sets it, and as it was before. For processes, never for libraries."""

import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, Literal

Collector = Literal["tuned", "default"]

THRESHOLDS: Final = (100_000, 20, 50)
"""A run in flight is some hundred objects that die by themselves: the collector need not look at each of them several times."""


@contextmanager
def collector(setting: Collector) -> Generator[None]:
    """Inside, "tuned": what start-up made is frozen and `THRESHOLDS` hold; "default": Python's own. Enter it once all is loaded."""
    before = gc.get_threshold()
    if setting == "tuned":
        gc.collect()
        gc.freeze()
        gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        if setting == "tuned":
            gc.set_threshold(*before)
            gc.unfreeze()
