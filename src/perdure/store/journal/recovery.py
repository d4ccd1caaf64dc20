"""Opening a journal: find its end, cut a torn tail, name the runs whose history is damaged.

Torn is what a crash during a write explains: the first bad line is in the last group and its bytes end too early, or one of the
disk's sectors in it still holds zeros. It was never acknowledged and is cut off. Everything else is damage: its bytes stay as they are and
the runs it concerns are named; the rest of the journal is read. Nothing but a torn tail is ever taken away here.
"""

import logging
from collections.abc import Callable
from itertools import pairwise
from typing import Final

from msgspec import Struct

from perdure.core.transition import Transition
from perdure.ports import Clock, Files
from perdure.store.errors import JournalCorrupt
from perdure.store.index.position import Position
from perdure.store.journal.fault import Fault
from perdure.store.journal.format import FOLDER, BadLine, Link, link_of, number_of, parse, segment_key, segment_name
from perdure.store.journal.naming import WhoWrote
from perdure.store.journal.reader import Cut, Found, JournalReader, Untracked, lines_of
from perdure.store.journal.rewriting import first_line

FIRST_BYTES: Final = 4096
"""Nearly every header is shorter."""

_log: Final = logging.getLogger(__name__)


class Recovery(Struct, frozen=True, kw_only=True):
    """What opening a journal found. `clean`: it was stopped cleanly, or is new. Cut bytes and lines were never acknowledged."""

    segments: int = 0
    lines: int = 0
    transitions: int = 0
    bytes: int = 0
    clean: bool = True
    cut_bytes: int = 0
    cut_lines: int = 0
    seconds: float = 0.0
    newest: int = 0
    """The latest time written down in it (microseconds); 0 = none."""
    faults: tuple[Fault, ...] = ()
    """Damage: found now, or found before and written down."""


class JournalEnd(Struct, frozen=True, kw_only=True):
    """Where writing goes on: in segment `number`, whose last line takes the bytes from `begin` to `end`.

    `lines` are those of that segment; `footed` as in `SegmentWriter`; `store` is empty in a new journal.
    """

    store: str = ""
    first: int = 1
    number: int = 1
    lines: int = 0
    link: Link = Link()
    footed: str = ""
    lost: tuple[Fault, ...] = ()
    """Damage at the very end: the next header must say whose it was, because no later line does."""
    unended: bool = False
    """The last line lacks its newline."""
    begin: int = 0
    end: int = 0
    whole: bool = True
    """Nothing is damaged, nor was it ever: what lies before need not be read at the next start."""


class Opened(Struct, kw_only=True):
    """A journal that was read: where it ends, what was found, and transitions that reads of their bytes would not find whole."""

    end: JournalEnd
    report: Recovery
    mended: dict[tuple[int, int], Transition]
    keys: dict[int, int]
    """The key of each segment, by its number."""
    expired: int = 0
    """Runs that had closed by this instant may be there in part: they are past their keep time."""


def recover(
    files: Files,
    clock: Clock,
    found: Found,
    *,
    again: Callable[[], None],
    who_wrote: WhoWrote | None = None,
    since: Position | None = None,
) -> Opened:
    """Read every segment and hand each transition to `found`; cut a torn tail. What lies before `since` is known and not read.

    When something is damaged it reads everything a second time, and calls `again` before: what `found` was told so far counts for nothing.
    Raises `JournalCorrupt` when whole segments are missing or belong elsewhere, `JournalMismatch`.
    """
    began = clock.now()
    numbers = segments_of(files)
    try:
        reader = read(files, numbers, found, follow=False, since=since)
    except Untracked:
        again()
        reader = read(files, numbers, found, follow=True, who_wrote=who_wrote)
    cut = reader.cut
    name = segment_name(reader.number)
    if reader.unended >= 0 or cut is not None:
        _cut(files, name, cut or Cut(offset=reader.unended), reader.unended)
    return Opened(
        end=_end(reader),
        report=_report(reader, (clock.now() - began) / 1_000_000),
        mended=reader.mended,
        keys=reader.keys,
        expired=reader.expired,
    )


def segments_of(files: Files) -> list[int]:
    """The keys of the segments that are there, by number. Raises `JournalCorrupt` when one between them is missing."""
    newest = {number_of(key): key for key in _keys(files)}
    for before, after in pairwise(sorted(newest)):
        if after != before + 1:
            raise _missing(before + 1, "the segments before and behind it are there")
    return [newest[number] for number in sorted(newest)]


def _keys(files: Files) -> list[int]:
    return sorted(key for name in files.names(FOLDER) if (key := segment_key(name)) is not None)


def superseded(files: Files) -> list[str]:
    """Files of segments that were written anew since: a crash, or an index that failed, came before they could go."""
    keys = _keys(files)
    newest = {number_of(key): key for key in keys}
    return [segment_name(key) for key in keys if newest[number_of(key)] != key]


def unfinished(files: Files) -> list[str]:
    """What a crash left of writing segments anew."""
    return [name for name in files.names(FOLDER) if name.endswith(".new")]


def read(
    files: Files,
    numbers: list[int],
    found: Found,
    *,
    follow: bool,
    who_wrote: WhoWrote | None = None,
    since: Position | None = None,
) -> JournalReader:
    """A reader that has gone through all segments, or through what lies behind `since`. Changes nothing."""
    reader = JournalReader(files, found, follow=follow, who_wrote=who_wrote, since=since)
    reader.read_all(numbers)
    head = reader.head
    first = number_of(numbers[0]) if numbers else 1
    if numbers and head is not None and head.first > first:
        raise JournalCorrupt(f"{segment_name(numbers[0])} was dropped once and is here again", segment=segment_name(numbers[0]))
    if numbers and head is not None and head.first < first:
        raise _missing(head.first, f"the journal begins with it, and not with {segment_name(numbers[0])}")
    if reader.footed == "roll":
        raise _missing(reader.number + 1, f"{segment_name(reader.number)} says that another follows")
    return reader


def _missing(number: int, why: str) -> JournalCorrupt:
    name = segment_name(number)
    return JournalCorrupt(f"segment {name} is missing: {why}; nothing was changed", segment=name)


def _end(reader: JournalReader) -> JournalEnd:
    head, link, tail = reader.head, reader.link, reader.fault_of_tail()
    if tail is not None:
        link = link._replace(seq=link.seq + tail.lines)
    return JournalEnd(
        store=head.store if head else "",
        first=head.first if head else reader.number,
        number=reader.number,
        lines=reader.lines,
        link=link,
        footed=reader.footed,
        lost=(tail,) if tail is not None else (),
        unended=reader.unended >= 0,
        begin=reader.begin,
        end=reader.end,
        whole=not reader.faults() and not reader.mended and reader.unended < 0,
    )


def is_of(files: Files, position: Position) -> bool:
    """True when the line a position stands behind is in this journal, and so is every segment before, so that reading can go on there.

    Raises `JournalCorrupt` when a segment is missing.
    """
    name = segment_name(position.segment)
    try:
        if not position.whole or not position.lines or files.size(name) < position.end:
            return False
        first = parse(next(lines_of(files, name))[0])
        last = parse(files.read(name, position.begin, position.end - position.begin).removesuffix(b"\n"))
    except (OSError, BadLine):
        return False
    if first.head is None or first.head.lost or first.head.next is not None:
        return False
    if (first.head.store, link_of(last)) != (position.store, Link(position.seq, position.grp, position.run, position.crc)):
        return False
    return all(_is_in_place(files, key, position.store) for key in segments_of(files) if number_of(key) < position.segment)


def is_of_another(files: Files, position: Position) -> bool:
    """True when the journal's headers say that a position is of another one. Raises `JournalCorrupt` when a segment is missing."""
    lines = (first_line(files, key, FIRST_BYTES) for key in segments_of(files))
    return position.store != next(
        (line.head.store for line in lines if line is not None and line.head is not None), position.store
    )


def _is_in_place(files: Files, key: int, store: str) -> bool:
    """True when a segment's file begins as it should: it is not one of another number, or of another journal."""
    first = first_line(files, key, FIRST_BYTES) or first_line(files, key)
    head = first.head if first is not None else None
    return first is not None and head is not None and (first.seg, head.store) == (number_of(key), store)


def _report(reader: JournalReader, seconds: float) -> Recovery:
    cut = reader.cut
    return Recovery(
        segments=reader.segments,
        lines=reader.total,
        transitions=reader.transitions,
        bytes=reader.bytes,
        clean=reader.ends_in_footer and not (cut and cut.bytes),
        cut_bytes=cut.bytes if cut else 0,
        cut_lines=cut.lines if cut else 0,
        seconds=seconds,
        newest=reader.newest,
        faults=tuple(reader.faults()),
    )


def _cut(files: Files, name: str, cut: Cut, unended: int) -> None:
    """Cut what is torn, or room; with `unended` the place of the last line's newline too, so that it is written with the next group."""
    files.truncate(name, unended if unended >= 0 else cut.offset)
    if cut.bytes:
        _log.warning(
            "journal %s: cut %d bytes (%d lines begun, none of them acknowledged) behind byte %d: the last write was torn by a crash",
            name,
            cut.bytes,
            cut.lines,
            cut.offset,
        )
