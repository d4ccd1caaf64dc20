"""Looking through a journal for damage, and mending one that no node is running on.

Mending takes nothing away: a segment with damage is written anew from its good lines, with the runs concerned named in its header, and
the old file is kept as it was under another name.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import count

from msgspec import Struct
from msgspec.structs import replace

from perdure.core.codec import encode_transitions
from perdure.core.transition import Transition
from perdure.ports import Chance, Files
from perdure.store.journal.fault import Fault
from perdure.store.journal.format import FOLDER, BadLine, Body, Following, body_of, number_of, run_of, segment_name
from perdure.store.journal.reader import JournalReader
from perdure.store.journal.recovery import read, segments_of
from perdure.store.journal.rewriting import Rewriting, first_line, once_for_all, write_anew


class Findings(Struct, frozen=True, kw_only=True):
    """What was found in a journal. `torn_bytes` at its end were never acknowledged; `kept` are the files that old segments are kept in."""

    segments: int
    lines: int
    transitions: int
    bytes: int
    faults: tuple[Fault, ...]
    torn_bytes: int = 0
    torn_at: tuple[int, int] = (0, 0)
    kept: tuple[str, ...] = ()


def verify(files: Files) -> Findings:
    """Read everything and change nothing. Raises `JournalCorrupt` and `JournalMismatch`."""
    return _findings(_read(files))


async def repair(files: Files, chance: Chance, before: Callable[[], None]) -> Findings:
    """Cut a torn tail, put damaged segments aside, and write anew what of them is whole. Raises `Unavailable` while a node is running.

    `before` is called when the journal is locked and nothing is changed yet: what knows where lines lie must be forgotten. It can be
    interrupted at any moment and done again. Afterwards the journal opens without a fault, the damaged runs named.
    """
    lock = files.lock()
    try:
        reader = _read(files)
        before()
        kept = await _mend(files, reader, chance)
        if reader.cut is not None and reader.spans[reader.number].is_whole:
            files.truncate(segment_name(reader.keys[reader.number]), reader.cut.offset)
        found = _findings(reader)
        faults = tuple(replace(fault, kept=fault.kept or kept.get(fault.segment, "")) for fault in found.faults)
        return replace(found, faults=faults, kept=tuple(kept.values()))
    finally:
        lock.cancel()


def _read(files: Files) -> JournalReader:
    return read(files, segments_of(files), _pass_over, follow=True)


def _pass_over(transition: Transition, segment: int, offset: int, length: int) -> None:
    """What is whole needs no looking at here."""


def _findings(reader: JournalReader) -> Findings:
    cut = reader.cut
    return Findings(
        segments=reader.segments,
        lines=reader.total,
        transitions=reader.transitions,
        bytes=reader.bytes,
        faults=tuple(reader.faults()),
        torn_bytes=cut.bytes if cut is not None else 0,
        torn_at=(reader.number, cut.offset) if cut is not None else (0, 0),
    )


async def _mend(files: Files, reader: JournalReader, chance: Chance) -> dict[int, str]:
    """Write every segment anew in which something is wrong; gives the file each old one is kept in."""
    numbers = [number for number, span in reader.spans.items() if not span.is_whole]
    if not numbers:
        return {}
    store = reader.head.store if reader.head is not None else chance.token()
    first = reader.head.first if reader.head is not None else min(reader.spans)
    faults = [fault for fault in reader.faults() if not fault.kept]
    kept: dict[int, str] = {}
    for number in numbers:
        key = reader.keys[number]
        name = kept[number] = await _keep(files, key)
        plan = Rewriting(
            key=key,
            before=reader.spans[number].before,
            store=store,
            first=first,
            lost=_lost_in(files, key, name, faults, is_first=number == numbers[0]),
            expired=reader.expired,
            next=_following(reader, number, numbers),
        )
        await write_anew(files, plan, once_for_all(_bodies(files, key)))
    return kept


async def _keep(files: Files, key: int) -> str:
    """Copy a segment to a file that no journal reads, durably; an earlier copy stays."""
    taken = set(files.names(FOLDER))
    name = next(name for suffix in count(1) if (name := f"{segment_name(key)}.damaged-{suffix}") not in taken)
    copy = files.open_append(name)
    try:
        size, position = files.size(segment_name(key)), 0
        while position < size:
            data = files.read(segment_name(key), position, 1 << 20)
            await copy.append(data)
            position += len(data)
    finally:
        copy.close()
    return name


def _lost_in(files: Files, key: int, kept: str, faults: Sequence[Fault], *, is_first: bool) -> tuple[Fault, ...]:
    """What the new header must say: faults of this segment, those its old header told of, and those of no segment."""
    own = [
        replace(fault, kept=kept)
        for fault in faults
        if (fault.segment == number_of(key) or (not fault.segment and is_first)) and (fault.runs or fault.lines)
    ]
    return (*_told_by(files, key), *own)


def _told_by(files: Files, key: int) -> tuple[Fault, ...]:
    first = first_line(files, key)
    return first.head.lost if first is not None and first.head is not None else ()


def _following(reader: JournalReader, number: int, rewritten: Sequence[int]) -> Following | None:
    """What the next segment's header repeats; of one that is written anew too, what it will."""
    span, after = reader.spans[number], reader.spans.get(number + 1)
    if after is None or after.first is None:
        return None
    if number + 1 in rewritten:
        return Following(seq=after.before.seq, run=after.before.run, crc=after.before.crc)
    assert span.last < after.first.seq
    return Following(seq=after.first.seq - 1, run=after.first.prev[0], crc=after.first.prev[1])


def _bodies(files: Files, key: int) -> Iterator[Body]:
    """The good lines of a segment."""
    found: list[tuple[Transition, int, int]] = []

    def take(transition: Transition, segment: int, offset: int, length: int) -> None:
        if segment == key:
            found.append((transition, offset, length))

    read(files, segments_of(files), take, follow=True)
    for transition, offset, length in found:
        yield run_of(transition), _text(files.read(segment_name(key), offset, length), transition)


def _text(line: bytes, transition: Transition) -> bytes:
    """A transition as it stands in its line, fields that are not known here included; of a mended line as it is understood."""
    try:
        return body_of(line.removesuffix(b"\n"))
    except BadLine:
        text = encode_transitions([transition])[0]
        assert isinstance(text, bytes)
        return text
