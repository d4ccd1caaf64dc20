"""Stretches of a segment that are no lines: what can still be told of whoever wrote them. Looks at bytes, decides nothing."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from perdure.store.journal.fault import RunName
from perdure.store.journal.format import KIND_FOOT, Foot, Link, control, frame
from perdure.store.journal.naming import WhoWrote

_TEXT: Final = rb'("(?:[^"\\]|\\.)*")'
_BEGINS: Final = re.compile(
    rb'"t":\{"workflow_id":' + _TEXT + rb'(?:,"namespace":' + _TEXT + rb')?,"runs":\[\{"run_id":' + _TEXT
)
"""How a transition begins that changes a run."""
_LIKE: Final = 0.9
"""So large a share of its bytes makes a stretch the footer that should stand there."""


class Stretch(Struct, kw_only=True):
    """Bytes that are no line, until the next good line says what was there."""

    segment: int
    offset: int
    data: bytes
    why: str


def guesses(stretches: Iterable[Stretch], run_id: str) -> Iterator[RunName]:
    """Under which workflow id a run ran (any run without a run id), read from its damaged line.

    Good enough when nothing else is left of the run.
    """
    for stretch in stretches:
        for found in _BEGINS.finditer(stretch.data):
            try:
                workflow_id, namespace, run = (msgspec.json.decode(text or b'"default"', type=str) for text in found.groups())
            except msgspec.DecodeError:
                continue
            if run_id in ("", run):
                yield RunName(namespace=namespace, workflow_id=workflow_id, run_id=run)


def indexed(stretches: Iterable[Stretch], keys: Mapping[int, int], who_wrote: WhoWrote | None) -> Iterator[RunName]:
    """What the index says of the damaged bytes."""
    if who_wrote is None:
        return
    for stretch in stretches:
        start = 0
        while 0 <= start < len(stretch.data):
            name = who_wrote(keys[stretch.segment], stretch.offset + start)
            if name is not None:
                yield name
            start = stretch.data.find(b"\n", start) + 1 or -1


def is_like_footer(text: bytes, link: Link, segment: int, lines: int) -> bool:
    """True when the bytes differ in little from the footer a stop would have written behind `link`, the segment's line number `lines`."""
    for reason in ("stop", "roll"):
        framed, _ = frame(link, segment, KIND_FOOT, [control(Foot(reason=reason, lines=lines))])
        same = sum(own == other for own, other in zip(framed[0], text, strict=False))
        if len(text) == len(framed[0]) and same >= _LIKE * len(text):
            return True
    return False


def lines_in(data: bytes) -> int:
    """How many lines stood there, a last one without its newline counted."""
    written = data.rstrip(b"\0")
    return written.count(b"\n") + (bool(written) and not written.endswith(b"\n"))
