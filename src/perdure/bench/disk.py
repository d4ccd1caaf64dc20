"""The disk by itself, and the *bare model*: the bytes an engine writes, encoded, checked and synced in groups, without an engine."""

import os
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path
from time import perf_counter
from typing import Final

from perdure.bench.figures import Percentiles
from perdure.bench.load import LIMIT_S
from perdure.core.codec import encode_transitions
from perdure.core.transition import Transition
from perdure.runtime.files import LocalFiles, sync
from perdure.store.journal.format import KIND_TRANSITION, Link, frame, run_of

FLUSHES: Final = 500
FLUSH_BYTES: Final = 256


def flush_times(directory: Path, flushes: int = FLUSHES) -> Percentiles:
    """How long one small append takes until it is durable, on this thread and without anything else."""
    descriptor = os.open(directory / "flush", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        data, took, until = b"x" * FLUSH_BYTES, list[float](), perf_counter() + LIMIT_S
        for number in range(flushes):
            began = perf_counter()
            if began > until:
                break
            os.pwrite(descriptor, data, number * FLUSH_BYTES)
            sync(descriptor)
            took.append(perf_counter() - began)
        return Percentiles.of(took)
    finally:
        os.close(descriptor)


async def bare_lines_per_s(directory: Path, sample: Sequence[Transition], *, group: int, lines: int) -> float:
    """Write `lines` journal lines made of `sample`'s transitions over and over, `group` of them to an append and a sync."""
    file = LocalFiles(directory).open_append("bare.jsonl")
    try:
        source, link, written = cycle(sample), Link(), 0
        began = perf_counter()
        while written < lines and perf_counter() < began + LIMIT_S:
            batch = list(islice(source, group))
            texts = [text for text in encode_transitions(batch) if isinstance(text, bytes)]
            framed, link = frame(link, 1, KIND_TRANSITION, zip(map(run_of, batch), texts, strict=True))
            await file.append(b"".join(framed))
            written += len(batch)
        return written / (perf_counter() - began)
    finally:
        file.close()
