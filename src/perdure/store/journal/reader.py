"""Going through the segments in order: every line checked against the one before it, and what is wrong put down as faults.

The straight way stops at the first bad line of a segment; from there on the segment is read whole and taken apart (`scan`). Once anything
is wrong, runs must be followed from the journal's beginning to tell whose lines are missing: `Untracked` asks for that second reading.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from perdure.core.shards import SHARDS
from perdure.core.transition import Transition
from perdure.ports import Files
from perdure.store.errors import JournalCorrupt, JournalMismatch
from perdure.store.index.position import Position
from perdure.store.journal.fault import Fault
from perdure.store.journal.format import (
    FORMAT,
    BadLine,
    Head,
    Line,
    Link,
    fault_of_chain,
    link_of,
    number_of,
    parse,
    segment_name,
)
from perdure.store.journal.naming import Continuity, Gap, WhoWrote
from perdure.store.journal.scan import Piece, is_torn, scan, vouched
from perdure.store.journal.stretch import Stretch, guesses, indexed, is_like_footer, lines_in

_CHUNK: Final = 1 << 20
Found = Callable[[Transition, int, int, int], None]
"""Takes a transition, its segment, the byte where its line begins and the length of that."""


class Untracked(Exception):  # noqa: N818  it never leaves this package
    """There is a fault, and runs were not followed so far."""


class Cut(Struct, frozen=True, kw_only=True):
    """Where the newest segment's good lines end, and how much unacknowledged matter lies behind."""

    offset: int
    bytes: int = 0
    lines: int = 0


class Span(Struct, kw_only=True):
    """What a segment holds, as it was read: its lines' numbers, what stood before the first, and whether anything was wrong."""

    before: Link
    first: Line | None = None
    last: int = 0
    footed: str = ""
    is_whole: bool = True


class JournalReader:
    """`link` and `number` say where the good lines end. With `follow`, faults are gathered; without it the first raises `Untracked`."""

    def __init__(
        self, files: Files, found: Found, *, follow: bool, who_wrote: WhoWrote | None = None, since: Position | None = None
    ) -> None:
        self._files = files
        self._since = since
        self._found = found
        self._continuity = Continuity() if follow else None
        self._who_wrote = who_wrote
        self._adopt = False
        self._gaps: list[Gap] = []
        self._stretches: list[Stretch] = []
        self._lacks_footer = False
        self._spliced: Gap | None = None
        self._span = Span(before=Link())
        self.mended: dict[tuple[int, int], Transition] = {}
        """Transitions whose lines are whole but for what is known of every line, by segment and byte."""
        self.spans: dict[int, Span] = {}
        """What each segment holds, when runs are followed."""
        self.known: list[Fault] = []
        """Faults that an earlier process found and wrote down."""
        self.head: Head | None = None
        self.link = Link()
        self.number = 1
        self.keys: dict[int, int] = {}
        """The key of each segment's file."""
        self.expired = 0
        """The latest `expired` of all headers."""
        self.lines = 0
        self.footed = ""
        self.ends_in_footer = True
        self.segments = 0
        self.total = 0
        self.transitions = 0
        self.bytes = 0
        self.newest = 0
        self.cut: Cut | None = None
        self.unended = -1
        """Where the newest segment's last line ends, when the newline behind it is missing."""
        self.tail: Gap | None = None
        """Damage at the very end: no later line says what was there."""
        self.begin = self.end = 0
        """Where the newest segment's last line does."""
        if since is not None:
            self.head = Head(format=FORMAT, shards=SHARDS, store=since.store, first=since.first)
            self.link = Link(since.seq, since.grp, since.run, since.crc)
            self.ends_in_footer = bool(since.footed)

    # --------------------------------------------------------------------------------------------------------- segments

    def read_all(self, numbers: Sequence[int]) -> None:
        """Read every segment. An empty one at the end counts only when the one before says that it follows."""
        since = self._since.segment if self._since is not None else 0
        for number in numbers:
            if number_of(number) < since:
                continue
            is_last = number == numbers[-1]
            if is_last and number != numbers[0] and self.footed != "roll" and not self._lacks_footer and self._is_empty(number):
                break
            self._read(number, is_newest=is_last or (number == numbers[-2] and self._is_empty(numbers[-1])))
        if self._stretches:
            self._end_damaged()

    def faults(self) -> list[Fault]:
        """Everything that was found wrong, each with the runs it concerns."""
        gaps = [*self._gaps, *([self.tail] if self.tail is not None else [])]
        named = {run for fault in self.known for run in fault.runs}
        found = self._continuity.resolve(gaps, named, self.expired) if self._continuity is not None else []
        known = {(fault.segment, fault.offset): fault for fault in sorted(self.known, key=lambda fault: fault.kept)}
        return [*known.values(), *found]

    def fault_of_tail(self) -> Fault | None:
        """The fault at the very end, if there is one."""
        if self.tail is None or self._continuity is None:
            return None
        return self._continuity.resolve([self.tail])[0]

    def _is_empty(self, number: int) -> bool:
        """True for a segment that was made and never written to."""
        return next(lines_of(self._files, segment_name(number)), None) is None

    def _read(self, key: int, *, is_newest: bool) -> None:
        name, number = segment_name(key), number_of(key)
        self.keys[number] = key
        # Segments before the first one here may have been dropped on purpose; then there is no line to compare its first one with.
        self._adopt = self.head is None and number != 1 and not self._stretches
        self._lacks_footer = False
        self.number, self.lines, self.footed, self.cut, self.unended = number, 0, "", None, -1
        self._span = Span(before=self.link, is_whole=not self._stretches)
        if self._continuity is not None:
            self.spans[number] = self._span
        begin = offset = 0
        since = self._since
        if since is not None and since.segment == number:
            self.lines, self.footed, begin, offset = since.lines, since.footed, since.begin, since.end
        for text, is_ended in lines_of(self._files, name, offset):
            try:
                line = self._check(text, is_ended=is_ended)
            except BadLine:
                offset = self._read_carefully(key, offset, is_newest=is_newest)
                break
            self._take(line, offset, len(text) + 1)
            begin, offset = offset, offset + len(text) + 1
        else:
            if offset < self._files.size(name):  # only zeros: room set aside that was not used
                self.cut = Cut(offset=offset)
        self.segments += 1
        self.bytes += offset
        self.begin, self.end = begin, offset
        if not is_newest and self.footed != "roll":
            self._lacks_footer = True
            self._follows()
            self._span.is_whole = False
            if not self._stretches:
                why = "the segment ends without a footer, though it is not the newest one"
                self._stretches.append(Stretch(segment=number, offset=offset, data=b"", why=why))

    def _follows(self) -> Continuity:
        if self._continuity is None:
            raise Untracked
        return self._continuity

    # ------------------------------------------------------------------------------------------------------ the straight way

    def _check(self, text: bytes, *, is_ended: bool) -> Line:
        if not is_ended:
            raise BadLine("it does not end in a newline")
        line = parse(text)
        if self._stretches:
            raise BadLine("there is a gap before it")
        self._check_kind(line)
        if self._adopt:
            self._adopt = False
            self.link = Link(line.seq - 1, line.grp, *line.prev)
        fault = fault_of_chain(line, self.link, self.number) or self._fault_of_place(line)
        if fault is not None:
            raise BadLine(fault)
        return line

    def _check_kind(self, line: Line) -> None:
        """Raises `BadLine` for a line of no kind that may stand here, `JournalMismatch` for a segment this version must not read."""
        if not self.lines:
            self._check_head(line)
        elif line.head is not None:
            raise BadLine("it is a header inside a segment")
        elif (line.t is None) == (line.foot is None):
            raise BadLine("it is neither a transition nor a footer")

    def _check_head(self, line: Line) -> None:
        head = line.head
        if head is None:
            raise BadLine("the segment begins without a header")
        if head.format > FORMAT:
            raise JournalMismatch(f"the journal is in format {head.format}; this perdure reads formats up to {FORMAT}")
        if head.shards != SHARDS:
            raise JournalMismatch(f"the journal was made with {head.shards} shards; this perdure has {SHARDS}")
        if line.seg != self.number or (self.head is not None and self.head.store != head.store):
            whose = "another journal" if line.seg == self.number else f"segment {line.seg}"
            name = segment_name(self.number)
            raise JournalCorrupt(f"{name} is a file of {whose}; put the right one in its place", segment=name)

    def _fault_of_place(self, line: Line) -> str | None:
        if self.footed == "roll":
            return "it stands behind the footer that ends the segment"
        if line.foot is not None and line.foot.lines != self.lines + 1:
            return f"it counts {line.foot.lines} lines in the segment, but it is number {self.lines + 1}"
        return None

    def _take(self, line: Line, offset: int, length: int) -> None:
        self.link = link_of(line)
        self._span.first = self._span.first or line
        self._span.last, self._span.footed = line.seq, line.foot.reason if line.foot is not None else ""
        self.lines += 1
        self.total += 1
        self.ends_in_footer = line.foot is not None
        if line.t is not None:
            self.footed = ""
            self.transitions += 1
            self.newest = max(self.newest, _time_of(line.t))
            if self._continuity is not None:
                self._continuity.take(line.t, line.seq)
            if self._spliced is not None:  # nothing says that what follows belongs to this journal
                self._spliced.run_ids += tuple(change.run_id for change in line.t.runs)
            self._found(line.t, self.keys[self.number], offset, length)
        elif line.foot is not None:
            self.footed = line.foot.reason
            self.lines = line.foot.lines
            following = self.head.next if self.head is not None else None
            if following is not None:
                self.link = Link(following.seq, following.seq, following.run, following.crc)
        elif line.head is not None:
            self.head = line.head
            self.known += line.head.lost
            self.expired = max(self.expired, line.head.expired)

    # ------------------------------------------------------------------------------------------------------- the careful way

    def _read_carefully(self, key: int, offset: int, *, is_newest: bool) -> int:
        """The rest of a segment in which a line is bad; says where its lines end."""
        name, number = segment_name(key), number_of(key)
        data = self._files.read(name, offset, self._files.size(name) - offset)
        end = offset
        for piece in scan(data):
            start = offset + piece.start
            if is_newest and self._ends_at(data, piece, start):
                break
            if piece.line is None:
                self._follows()
            end = offset + piece.end
            is_last = is_newest and bool(piece.mended) and _is_last(data, piece, offset)
            met = self._end_of_last(data, piece, offset) if is_last else piece
            if met.line is None or met.mended:
                self._span.is_whole = False
            if met.line is None or not self._meet(met.line, met, start):
                self._span.is_whole = False
                why = piece.why or "it is a line that does not belong here"
                self._stretches.append(Stretch(segment=number, offset=start, data=data[piece.start : piece.end], why=why))
        return end

    def _ends_at(self, data: bytes, piece: Piece, start: int) -> bool:
        """True when the journal ends before this piece: only unused room follows, or what a write left that did not get to its end."""
        rest = data[piece.start :]
        if piece.line is None and not rest.strip(b"\0"):
            self.cut = Cut(offset=start)
        elif (piece.line is None and is_torn(rest, start, self.link.seq + 1)) or _is_foot_without_end(data, piece):
            self.cut = Cut(offset=start, bytes=len(rest), lines=lines_in(rest))
        else:
            return False
        return True

    def _end_of_last(self, data: bytes, piece: Piece, offset: int) -> Piece:
        """The journal's last line, if it is mended: where its newline is missing it must be put there before anything else is."""
        behind = data[piece.start + piece.mended : piece.end]
        if behind == b"\n":
            return piece
        self.unended = offset + piece.start + piece.mended
        return piece if behind.strip(b"\0") else piece._replace(mended=0)  # the write just ended there: no damage

    def _meet(self, line: Line, piece: Piece, start: int) -> bool:
        """Take a whole line if it may stand behind the last good one, and close the gap between them; False when it may not."""
        if line.head is not None:
            self._check_head(line)
        if line.seg != self.number or (line.seq <= self.link.seq and not self._adopt) or self.footed == "roll":
            return False
        if self._adopt:
            self._adopt = False
            lost = sum(lines_in(stretch.data) for stretch in self._stretches)
            self.link = Link(line.seq - 1 - lost, line.grp, "" if lost else line.prev[0], line.prev[1])
        missing = line.seq - self.link.seq - 1
        if missing and self._vouch(line):
            missing = line.seq - self.link.seq - 1
        is_chained = line.prev == (self.link.run, self.link.crc)
        if piece.mended and not missing and is_chained and not self._stretches:
            self._follows()
            self._gaps.append(
                Gap(fault=self._fault(start, piece.end - piece.start, piece.why), before=line.seq, behind=line.seq)
            )
            self._mend(line, self.number, start)
        elif missing or self._stretches or not is_chained:
            self._close_gap(line, start, missing, is_chained=is_chained)
        self._take(line, start, piece.end - piece.start)
        return True

    def _vouch(self, line: Line) -> bool:
        """Take the line before `line`, if that is there but for its own CRC: `line` repeats it."""
        stretch = self._stretches[-1] if self._stretches else None
        before = vouched(stretch.data, line.prev[1]) if stretch is not None else None
        if stretch is None or before is None or before.seq != line.seq - 1 or not before.seg == stretch.segment == self.number:
            return False
        self._stretches.pop()
        missing = before.seq - self.link.seq - 1
        is_chained = before.prev == (self.link.run, self.link.crc)
        if missing or self._stretches or not is_chained:
            self._close_gap(before, stretch.offset, missing, is_chained=is_chained)
        self._gaps.append(
            Gap(
                fault=Fault(
                    segment=stretch.segment, offset=stretch.offset, length=len(stretch.data), seq=before.seq, why=stretch.why
                ),
                before=before.seq,
                behind=before.seq,
            )
        )
        self._mend(before, stretch.segment, stretch.offset)
        self._take(before, stretch.offset, len(stretch.data))
        return True

    def _mend(self, line: Line, segment: int, offset: int) -> None:
        if line.t is not None:
            self.mended[self.keys[segment], offset] = line.t

    def _fault(self, offset: int, length: int, why: str) -> Fault:
        return Fault(segment=self.number, offset=offset, length=length, seq=self.link.seq + 1, why=why)

    def _close_gap(self, line: Line, start: int, missing: int, *, is_chained: bool) -> None:
        """Put down what lies between the last good line and `line`."""
        self._follows()
        # Behind a header all that is wrong stands before this segment, unless it does before the header itself.
        self._span.is_whole = line.head is not None and all(stretch.segment != self.number for stretch in self._stretches)
        gap = self._gap(start, missing)
        gap.behind = line.seq
        if line.head is not None and line.head.lost and is_chained:
            self._stretches.clear()  # whoever wrote this header has said whose lines these were
            return
        is_crossing = gap.fault.segment != self.number
        if missing:
            gap.run_ids = (line.prev[0],) if line.prev[0] else ()
            gap.controls = max(is_crossing + (line.head is None and not self.lines), not line.prev[0])
            gap.guesses = tuple(guesses(self._stretches, line.prev[0]))
        elif not is_chained:
            self._spliced = gap
            gap.run_ids = (self.link.run, line.prev[0])
        self.lines += missing - is_crossing if line.head is None else 0
        self._gaps.append(gap)
        self._stretches.clear()

    def _gap(self, start: int, missing: int) -> Gap:
        """What is known of the bytes that are no lines, as one gap."""
        first = self._stretches[0] if self._stretches else None
        last = self._stretches[-1] if self._stretches else None
        if first is None or last is None:
            why = f"{missing} lines are missing before it" if missing else "the line here does not follow the line before it"
            fault = Fault(segment=self.number, offset=start, seq=self.link.seq + 1, lines=missing, why=why)
        else:
            end = last.offset + len(last.data) if last.segment == first.segment else first.offset + len(first.data)
            fault = Fault(
                segment=first.segment,
                offset=first.offset,
                length=end - first.offset,
                seq=self.link.seq + 1,
                lines=missing,
                why=first.why,
            )
        return Gap(fault=fault, before=self.link.seq, names=tuple(indexed(self._stretches, self.keys, self._who_wrote)))

    def _end_damaged(self) -> None:
        """The journal ends in bytes that are no lines."""
        self._follows()
        first = self._stretches[0]
        text = b"".join(stretch.data for stretch in self._stretches)
        is_footer = is_like_footer(text.rstrip(b"\0"), self.link, self.number, self.lines + 1)
        gap = self._gap(first.offset, 1 if is_footer else max(1, lines_in(text)))
        gap.controls += is_footer
        gap.guesses = tuple(guesses(self._stretches, ""))
        self.tail = gap
        self.ends_in_footer = False


def lines_of(files: Files, name: str, position: int = 0) -> Iterator[tuple[bytes, bool]]:
    """Each line from a byte on, without its newline, and whether it had one (the last may not). Ends before zeros that reach to the end of the file."""
    pieces: list[bytes] = []
    size = files.size(name)
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


def _is_last(data: bytes, piece: Piece, offset: int) -> bool:
    """True for a line behind which there is nothing, or what is left of the write that would have ended it."""
    rest = data[piece.end :]
    if not rest.strip(b"\0"):
        return True
    is_open = not data[piece.start + piece.mended : piece.end].strip(b"\0")
    assert piece.line is not None
    return is_open and is_torn(rest, offset + piece.end, piece.line.seq + 1)


def _is_foot_without_end(data: bytes, piece: Piece) -> bool:
    """True for a footer of which everything but its newline was written: it promises what may not be."""
    is_foot = piece.line is not None and piece.line.foot is not None
    return is_foot and bool(piece.mended) and not data[piece.start + piece.mended :].strip(b"\0")


def _time_of(transition: Transition) -> int:
    """The latest time in it: a run's entries are in order, each kind by itself."""
    return max((part[-1].time for change in transition.runs for part in (change.events, change.notes) if part), default=0)
