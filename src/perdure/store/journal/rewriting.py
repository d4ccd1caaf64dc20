"""Writing a segment anew, without lines that are not to be kept: beside the old one, synced, then put in its place all at once.

A crash leaves the old segment or the new one. Lines keep their contents and order; they are numbered and chained afresh from what stands
before the segment, and the header says what the next segment's header repeats, so that the chain holds over both.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from perdure.core.shards import SHARDS
from perdure.ports import Files
from perdure.store.journal.fault import Fault
from perdure.store.journal.format import (
    FORMAT,
    KIND_FOOT,
    KIND_HEAD,
    KIND_TRANSITION,
    Body,
    Following,
    Foot,
    Head,
    Link,
    control,
    frame,
    segment_name,
)

WRITE_BYTES: Final = 256 * 1024
"""So much is gathered for one append."""


class Rewriting(Struct, frozen=True, kw_only=True):
    """The frame of a segment that is written anew. `next` is None for the newest: then its own footer is what is repeated."""

    number: int
    before: Link
    store: str
    first: int
    lost: tuple[Fault, ...] = ()
    next: Following | None = None

    @property
    def name(self) -> str:
        """The file it is written to before it takes the segment's place; no segment by its name, so it is passed over."""
        return f"{segment_name(self.number)}.new"


async def write_anew(files: Files, plan: Rewriting, bodies: Iterable[Body]) -> None:
    """Write the segment and put it in the old one's place. Raises `DiskFull` with the old one untouched."""
    files.remove(plan.name)
    file = files.open_append(plan.name)
    link, lines = plan.before, 0
    pieces: list[bytes] = []

    async def add(kind: bytes, group: Sequence[Body]) -> None:
        nonlocal link, lines, pieces
        framed, link = frame(link, plan.number, kind, group)
        lines += len(framed)
        pieces += framed
        if sum(map(len, pieces)) >= WRITE_BYTES or kind == KIND_FOOT:
            await file.append(b"".join(pieces))
            pieces = []

    try:
        head = Head(format=FORMAT, shards=SHARDS, store=plan.store, first=plan.first, lost=plan.lost, next=plan.next)
        await add(KIND_HEAD, [control(head)])
        for body in bodies:
            await add(KIND_TRANSITION, [body])
        await add(KIND_FOOT, [control(Foot(reason="roll" if plan.next is not None else "stop", lines=lines + 1))])
    except BaseException:
        file.close()
        files.remove(plan.name)
        raise
    file.close()
    files.replace(segment_name(plan.number), plan.name)
