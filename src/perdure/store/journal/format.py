"""The line: how one is framed, checked and chained. `docs/journal-format.md` says the same in prose; both change together or never.

    {"crc":"8 hex","seq":7,"seg":1,"grp":6,"prev":["run id","crc"],"t":{…}}\\n

Pure: bytes in, bytes or values out.
"""

import re
from collections.abc import Iterable
from threading import Thread
from typing import Final, NamedTuple
from zlib import crc32

import msgspec
from msgspec import Struct

from perdure.core.transition import Transition
from perdure.store.journal.fault import Fault

FORMAT: Final = 2
"""The newest version of the line format, named in the first line of each segment. What reads a version reads all versions below."""
FORMAT_PLAIN: Final = 1
"""What a segment is in that was written line by line and whose header says nothing of other segments."""

FOLDER: Final = "journal"
KIND_HEAD: Final = b"head"
KIND_FOOT: Final = b"foot"
KIND_TRANSITION: Final = b"t"

_NAME: Final = re.compile(rf"{FOLDER}/(\d{{8,}})(?:\.([1-9]\d*))?\.jsonl")
_NUMBER_BITS: Final = 32
_FRONT: Final = b'{"crc":"'
_CHECKED: Final = len(_FRONT) + 8 + 1
"""From this byte on, up to the newline, a line is under its CRC."""


class Following(Struct, frozen=True, kw_only=True):
    """What the header of the next segment repeats of the line before it: its number, run id and CRC."""

    seq: int
    run: str
    crc: str


class Head(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """First line of a segment. `first` is the lowest segment the journal still needed when this one was begun.

    From format 2 on: `lost` says what was found damaged in earlier segments (or, in a segment that was written anew, in this one), and
    `next`, in one that was written anew, what the next segment's header repeats instead of this one's footer.
    """

    format: int
    shards: int
    store: str
    first: int
    lost: tuple[Fault, ...] = ()
    next: Following | None = None
    expired: int = 0
    """Runs that had closed by this instant may be missing, in whole or in their first lines: they were past their keep time."""


class Foot(Struct, frozen=True, kw_only=True, gc=False):
    """Everything up to here was written in full. `lines` counts the segment's lines, this one included.

    After "roll" the segment has no further line; after "stop" the next start goes on behind it.
    """

    reason: str
    lines: int


class Line(Struct, frozen=True, kw_only=True, gc=False):
    """One line. Exactly one of `t`, `head`, `foot` is there; another kind is of a later format."""

    crc: str
    seq: int
    """Counts the journal's lines from 1, over all segments."""
    seg: int
    grp: int
    """Number of the first line of this line's group."""
    prev: tuple[str, str]
    t: Transition | None = None
    head: Head | None = None
    foot: Foot | None = None


class BadLine(Exception):  # noqa: N818  it never leaves this package
    """Why bytes are no line of this journal at this place."""


class Link(NamedTuple):
    """What the next line repeats of a line: its number, group, run id (empty if it is no transition) and CRC."""

    seq: int = 0
    grp: int = 0
    run: str = ""
    crc: str = "00000000"


Body = tuple[str, bytes]
"""What a line carries: the run id the next line will repeat (see `run_of`), and JSON text without a newline."""


_decode: Final = msgspec.json.Decoder(Line).decode
_encode: Final = msgspec.json.Encoder().encode


def segment_name(key: int) -> str:
    """The file of a segment, from its key: its number, and how often it was written anew without what is past its keep time."""
    number, version = number_of(key), key >> _NUMBER_BITS
    return f"{FOLDER}/{number:08}.{version}.jsonl" if version else f"{FOLDER}/{number:08}.jsonl"


def segment_key(name: str) -> int | None:
    """The key of a segment, or None for a file that is none."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    key = int(match[1]) | int(match[2] or 0) << _NUMBER_BITS
    return key if segment_name(key) == name else None


def segment_number(name: str) -> int | None:
    """The number of a segment, or None for a file that is none."""
    key = segment_key(name)
    return None if key is None else number_of(key)


def number_of(key: int) -> int:
    """The number of a segment from its key."""
    return key & (1 << _NUMBER_BITS) - 1


def following_key(key: int) -> int:
    """The key of a segment that is written anew once more."""
    return key + (1 << _NUMBER_BITS)


def run_of(transition: Transition) -> str:
    """The run a line with this transition is of: the one it changes, not that one's successor; empty when there is none."""
    return transition.runs[0].run_id if transition.runs else ""


def control(record: Head | Foot) -> Body:
    """Body of a line that is no transition."""
    return "", _encode(record)


def frame(link: Link, segment: int, kind: bytes, bodies: Iterable[Body]) -> tuple[list[bytes], Link]:
    """The lines of one group, to be written behind the line `link` stands for, and what the line behind them repeats."""
    seq, group, run, crc = link.seq, link.seq + 1, link.run, link.crc.encode()
    shared = b',"seg":%d,"grp":%d,"prev":[' % (segment, group)
    lines: list[bytes] = []
    for following, text in bodies:
        seq += 1
        checked = b',"seq":%d%b%b,"%b"],"%b":%b}' % (seq, shared, _encode(run), crc, kind, text)
        crc = b"%08x" % crc32(checked)
        lines.append(b'{"crc":"%b"%b\n' % (crc, checked))
        run = following
    return lines, Link(seq, group, run, crc.decode())


def is_whole(text: bytes) -> bool:
    """True when `text` (without its newline) is framed as a line and its CRC is right."""
    return (
        text.startswith(_FRONT)
        and text[_CHECKED - 1 : _CHECKED] == b'"'
        and text[len(_FRONT) : _CHECKED - 1] == b"%08x" % crc32(text[_CHECKED:])
    )


def parse(text: bytes) -> Line:
    """A line from its text without the newline. Raises `BadLine`."""
    if not is_whole(text):
        raise BadLine("its checksum does not match its bytes")
    try:
        return _decode(text)
    except RecursionError:
        return _parse_deep(text)
    except (msgspec.DecodeError, ValueError) as error:
        raise _unreadable(error) from error


def body_of(text: bytes) -> bytes:
    """The JSON text of a transition, byte for byte, from its line without the newline. Raises `BadLine`."""
    line = parse(text)
    kind = next(
        kind for kind, part in ((KIND_TRANSITION, line.t), (KIND_HEAD, line.head), (KIND_FOOT, line.foot)) if part is not None
    )
    before = Link(line.seq - 1, 0, *line.prev)
    (front,), _ = frame(before, line.seg, kind, [("", b"")])
    return text[len(front) + len(b"%d" % line.grp) - len(b"%d" % line.seq) - 2 : -1]


def _parse_deep(text: bytes) -> Line:
    """A line whose payload nests so deeply that this call stack has no room left: read it on an empty one.

    Whoever wrote it could still skim it, so there it fits.
    """
    found: list[Line] = []
    faults: list[Exception] = []

    def read() -> None:
        try:
            found.append(_decode(text))
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            faults.append(error)

    thread = Thread(target=read)
    thread.start()
    thread.join()
    if faults:
        raise _unreadable(faults[0]) from faults[0]
    return found[0]


def _unreadable(error: Exception) -> BadLine:
    return BadLine(f"its checksum is right, but it holds nothing this version can read: {error}")


def link_of(line: Line) -> Link:
    """What the line behind `line` repeats of it."""
    return Link(line.seq, line.grp, "" if line.t is None else run_of(line.t), line.crc)


def fault_of_chain(line: Line, link: Link, segment: int) -> str | None:
    """Why `line` cannot stand behind the line `link` stands for, or None when it can."""
    if line.seq != link.seq + 1:
        return f"it is line {line.seq}, where line {link.seq + 1} should be"
    if line.seg != segment:
        return f"it belongs to segment {line.seg}"
    if line.prev != (link.run, link.crc):
        return f"the line before it was of run {line.prev[0]!r} with CRC {line.prev[1]}, and is not there"
    if line.grp not in (link.grp, line.seq):
        return f"its group {line.grp} neither goes on nor begins here"
    return None
