"""Reading the whole journal at start: check every line, find its end, tell a torn tail from damage.

Torn is what a crash during a write explains: the first bad line is in the last group and its bytes end too early, or one of the
disk's sectors in it still holds zeros. It was never acknowledged and is cut off. Everything else is damage: nothing is changed and
`JournalCorrupt` names the place. Files are only read until all of them have been found whole.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct

from perdure.core.shards import SHARDS
from perdure.core.transition import Transition
from perdure.ports import Clock, Files
from perdure.store.errors import JournalCorrupt, JournalMismatch
from perdure.store.journal.format import (
    FOLDER,
    FORMAT,
    BadLine,
    Head,
    Line,
    Link,
    fault_of_chain,
    is_whole,
    link_of,
    parse,
    segment_name,
    segment_number,
)

SECTOR: Final = 512
"""What a disk writes whole or not at all."""

_CHUNK: Final = 1 << 20
_log: Final = logging.getLogger(__name__)

Found = Callable[[Transition, int, int, int], None]
"""Takes a transition, its segment, the byte where its line begins and the length of that."""


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


class JournalEnd(Struct, frozen=True, kw_only=True):
    """Where writing goes on. `lines` are those of segment `number`; `footed` as in `SegmentWriter`; `store` is empty in a new journal."""

    store: str = ""
    first: int = 1
    number: int = 1
    lines: int = 0
    link: Link = Link()
    footed: str = ""


class _Cut(Struct, frozen=True, kw_only=True):
    """Where the newest segment's good lines end, and how much unacknowledged matter lies behind."""

    offset: int
    bytes: int = 0
    lines: int = 0


def recover(files: Files, clock: Clock, found: Found) -> tuple[JournalEnd, Recovery]:
    """Read every segment, hand each transition to `found`, cut a torn tail. Raises `JournalCorrupt` or `JournalMismatch`."""
    began = clock.now()
    reader = _Reader(files, found)
    numbers = _numbers(files)
    reader.read_all(numbers)
    if numbers and reader.head is not None and reader.head.first != numbers[0]:
        name = segment_name(reader.head.first)
        raise JournalCorrupt(f"the journal begins with segment {name}, but that is not the first one here", segment=name)
    if reader.footed == "roll":
        name = segment_name(reader.number + 1)
        raise JournalCorrupt(
            f"segment {name} is missing: {segment_name(reader.number)} says that another follows", segment=name
        )
    cut = reader.cut
    if cut is not None:
        _cut(files, segment_name(reader.number), cut)
    report = Recovery(
        segments=reader.segments,
        lines=reader.total,
        transitions=reader.transitions,
        bytes=reader.bytes,
        clean=reader.ends_in_footer and not (cut and cut.bytes),
        cut_bytes=cut.bytes if cut else 0,
        cut_lines=cut.lines if cut else 0,
        seconds=(clock.now() - began) / 1_000_000,
        newest=reader.newest,
    )
    return reader.end(), report


def _numbers(files: Files) -> list[int]:
    numbers = sorted(number for name in files.names(FOLDER) if (number := segment_number(name)) is not None)
    for before, after in pairwise(numbers):
        if after != before + 1:
            name = segment_name(before + 1)
            raise JournalCorrupt(f"segment {name} is missing", segment=name)
    return numbers


def _cut(files: Files, name: str, cut: _Cut) -> None:
    files.truncate(name, cut.offset)
    if cut.bytes:
        _log.warning(
            "journal %s: cut %d bytes (%d lines begun, none of them acknowledged) behind byte %d: the last write was torn by a crash",
            name,
            cut.bytes,
            cut.lines,
            cut.offset,
        )


class _Reader:
    """Goes through the segments in order and remembers what the next line must look like."""

    def __init__(self, files: Files, found: Found) -> None:
        self._files = files
        self._found = found
        self._adopt = False
        self.head: Head | None = None
        self.link = Link()
        self.number = 1
        self.lines = 0
        self.footed = ""
        self.ends_in_footer = True
        self.segments = 0
        self.total = 0
        self.transitions = 0
        self.bytes = 0
        self.newest = 0
        self.cut: _Cut | None = None

    def end(self) -> JournalEnd:
        head = self.head
        return JournalEnd(
            store=head.store if head else "",
            first=head.first if head else self.number,
            number=self.number,
            lines=self.lines,
            link=self.link,
            footed=self.footed,
        )

    def read_all(self, numbers: Sequence[int]) -> None:
        """Check every segment. An empty one at the end counts only when the one before says that it follows."""
        for number in numbers:
            is_last = number == numbers[-1]
            if is_last and number != numbers[0] and self.footed != "roll":
                break
            self._read(number, is_newest=is_last or (number == numbers[-2] and self._is_empty(numbers[-1])))

    def _is_empty(self, number: int) -> bool:
        """True for a segment that was made and never written to."""
        return next(_lines(self._files, segment_name(number)), None) is None

    def _read(self, number: int, *, is_newest: bool) -> None:
        """Check one segment line by line."""
        name = segment_name(number)
        # Segments before the first one here may have been dropped on purpose; then there is no line to compare its first one with.
        self._adopt = self.head is None and number != 1
        self.number, self.lines, self.footed, self.cut = number, 0, "", None
        offset = 0
        for text, is_ended in _lines(self._files, name):
            try:
                line = self._check(text, is_ended=is_ended)
            except BadLine as bad:
                self._ends_badly(name, offset, str(bad), is_newest=is_newest)
                break
            length = len(text) + 1
            self._take(line, offset, length)
            offset += length
        else:
            if offset < self._files.size(name):  # only zeros: room set aside that was not used
                self.cut = _Cut(offset=offset)
        self.segments += 1
        self.bytes += offset
        if not is_newest:
            self._check_footed(name, offset)

    def _check_footed(self, name: str, offset: int) -> None:
        if self.footed != "roll":
            raise self._corrupt(name, offset, "the segment ends without a footer, though it is not the newest one")

    def _check(self, text: bytes, *, is_ended: bool) -> Line:
        if not is_ended:
            raise BadLine("it does not end in a newline")
        line = parse(text)
        if not self.lines:
            self._check_head(line)
        elif line.head is not None:
            raise BadLine("it is a header inside a segment")
        elif (line.t is None) == (line.foot is None):
            raise BadLine("it is neither a transition nor a footer")
        if self._adopt:
            self._adopt = False
            self.link = Link(line.seq - 1, line.grp, *line.prev)
        fault = fault_of_chain(line, self.link, self.number)
        if fault is None and self.footed == "roll":
            fault = "it stands behind the footer that ends the segment"
        if fault is None and line.foot is not None and line.foot.lines != self.lines + 1:
            fault = f"it counts {line.foot.lines} lines in the segment, but it is number {self.lines + 1}"
        if fault is not None:
            raise BadLine(fault)
        return line

    def _check_head(self, line: Line) -> None:
        head = line.head
        if head is None:
            raise BadLine("the segment begins without a header")
        if head.format > FORMAT:
            raise JournalMismatch(f"the journal is in format {head.format}; this perdure reads formats up to {FORMAT}")
        if head.shards != SHARDS:
            raise JournalMismatch(f"the journal was made with {head.shards} shards; this perdure has {SHARDS}")
        if self.head is not None and self.head.store != head.store:
            raise BadLine("the segment belongs to another journal")

    def _take(self, line: Line, offset: int, length: int) -> None:
        self.link = link_of(line)
        self.lines += 1
        self.total += 1
        self.ends_in_footer = line.foot is not None
        if line.t is not None:
            self.footed = ""
            self.transitions += 1
            self.newest = max(self.newest, _time_of(line.t))
            self._found(line.t, self.number, offset, length)
        elif line.foot is not None:
            self.footed = line.foot.reason
        else:
            self.head = line.head

    def _ends_badly(self, name: str, offset: int, why: str, *, is_newest: bool) -> None:
        """A line that is not good: note where to cut if a torn write explains it, else raise `JournalCorrupt`."""
        rest = self._files.read(name, offset, self._files.size(name) - offset)
        if not is_newest or not _is_torn(rest, offset, self.link.seq + 1):
            raise self._corrupt(name, offset, why)
        written = rest.rstrip(b"\0")
        self.cut = _Cut(offset=offset, bytes=len(rest), lines=written.count(b"\n") + (not written.endswith(b"\n")))

    def _corrupt(self, name: str, offset: int, why: str) -> JournalCorrupt:
        seq = self.link.seq + 1
        return JournalCorrupt(
            f"the journal is damaged in {name} at byte {offset}, where line {seq} should be: {why}; nothing was changed",
            segment=name,
            offset=offset,
            seq=seq,
        )


def _time_of(transition: Transition) -> int:
    """The latest time in it: a run's entries are in order, each kind by itself."""
    return max((part[-1].time for change in transition.runs for part in (change.events, change.notes) if part), default=0)


def _lines(files: Files, name: str) -> Iterator[tuple[bytes, bool]]:
    """Each line without its newline, and whether it had one (the last may not). Ends before zeros that reach to the end of the file."""
    pieces: list[bytes] = []
    position, size = 0, files.size(name)
    while position < size:
        chunk = files.read(name, position, _CHUNK)
        if not chunk:
            break
        position += len(chunk)
        first, *lines = chunk.split(b"\n")
        pieces.append(first)
        if lines:
            yield b"".join(pieces), True
            pieces = [lines.pop()]
            for line in lines:
                yield line, True
    rest = b"".join(pieces)
    if rest.strip(b"\0"):
        yield rest, False


def _is_torn(rest: bytes, offset: int, seq: int) -> bool:
    """True when a write that stopped half way explains `rest`, the end of a journal from its first bad line (number `seq`) on."""
    written = rest.rstrip(b"\0")
    first, newline, behind = written.partition(b"\n")
    if newline and not _has_zero_sector(rest, offset, len(first)):
        return False
    later = [text for text in behind.split(b"\n")[:-1] if is_whole(text)]
    return all(_group_of(text) <= seq for text in later)


def _group_of(text: bytes) -> int:
    try:
        return parse(text).grp
    except BadLine:
        return 1 << 63  # whole, but of no kind known here: surely not part of a torn write


def _has_zero_sector(rest: bytes, offset: int, length: int) -> bool:
    """True when the bad line (the first `length` bytes of `rest`) has a share in a sector that from the line's beginning is all zeros."""
    start = 0
    while start < length:
        end = start + SECTOR - (offset + start) % SECTOR
        if not rest[start:end].strip(b"\0"):
            return True
        start = end
    return False
