"""Bytes of a segment in which something is wrong, as whole lines and the stretches between them. Knows lines, not their order.

A line is whole when its CRC says so. What is known of a line without its CRC being right is put back before it is given up: the eight
bytes every line begins with, and the newline every line ends with.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple
from zlib import crc32

from perdure.store.journal.format import BadLine, Line, is_whole, parse

SECTOR: Final = 512
"""What a disk writes whole or not at all."""

STRAY_BYTES_MAX: Final = 64
"""So few bytes that are not zero are no line: what they stand in is unused room in which something was changed."""

_FRONT: Final = b'{"crc":"'
_START: Final = re.compile(rb'\{"crc":"[0-9a-f]{8}","seq":')


class Piece(NamedTuple):
    """Bytes `start` to `end` of what was scanned: a whole line, or a stretch that is none.

    `mended`: the line is whole but for its front or its newline; so many bytes come before the place of the newline. 0 = it is whole.
    """

    start: int
    end: int
    line: Line | None
    why: str = ""
    mended: int = 0


def scan(data: bytes, start: int = 0) -> Iterator[Piece]:
    """The pieces of `data` from `start` on, in order and without a gap. Zeros that reach to the end are the last piece."""
    while start < len(data):
        line, end, why = _line_at(data, start)
        if line is not None:
            yield Piece(start, end, line)
        else:
            end = _next_start(data, start + 1)
            yield from _mended(data, start, end, why)
        start = end


def _line_at(data: bytes, start: int) -> tuple[Line | None, int, str]:
    """The line that begins here and where it ends; or None, and why there is none."""
    end = data.find(b"\n", start)
    if end < 0:
        return None, start, "it does not end in a newline"
    try:
        return parse(data[start:end]), end + 1, ""
    except BadLine as bad:
        return None, start, str(bad)


def _next_start(data: bytes, start: int) -> int:
    """Where the next whole line begins, or the end."""
    for found in _START.finditer(data, start):
        end = data.find(b"\n", found.start())
        if end < 0:
            break
        if is_whole(data[found.start() : end]):
            return found.start()
    return len(data)


def _mended(data: bytes, start: int, end: int, why: str) -> Iterator[Piece]:
    """A stretch without a whole line: lines in it that are whole but for their front or newline, and the rest."""
    starts = [start, *(found.start() for found in _START.finditer(data, start + 1, end)), end]
    lost = start
    for low, high in pairwise(starts):
        found = _mend(data[low:high])
        if found is None:
            continue
        line, length = found
        if lost < low:
            yield Piece(lost, low, None, why)
        lost = min(high, low + length + 1)
        yield Piece(low, lost, line, why, length)
    if lost < end:
        yield Piece(lost, end, None, why)


def _mend(text: bytes) -> tuple[Line, int] | None:
    """The line in a text that may have another beginning or another ending than it should, and its length without the ending."""
    written = text.rstrip(b"\0")
    for body in (written.removesuffix(b"\n"), written, written[:-1]):  # a wrong front, no newline, another byte in its place
        fronted = _FRONT + body[len(_FRONT) :]
        if is_whole(fronted):
            try:
                return parse(fronted), len(body)
            except BadLine:
                return None
    return None


def vouched(text: bytes, crc: str) -> Line | None:
    """The line whose CRC the next line repeats, from a text in which only the place of its own CRC is damaged."""
    body = text.rstrip(b"\0").removesuffix(b"\n")
    checked = len(_FRONT) + 9
    if len(body) > checked and f"{crc32(body[checked:]):08x}" == crc:
        try:
            return parse(_FRONT + crc.encode() + b'"' + body[checked:])
        except BadLine:
            return None
    return None


def is_torn(rest: bytes, offset: int, seq: int) -> bool:
    """True when a write that stopped half way explains `rest`, the end of a journal from its first bad line (number `seq`) on.

    `offset` is where in its file `rest` begins.
    """
    if len(rest) - rest.count(0) <= STRAY_BYTES_MAX:
        return True  # no line is so short: unused room, or the first bytes of a write
    written = rest.rstrip(b"\0")
    first, newline, behind = written.partition(b"\n")
    if not newline and _mend(rest) is not None:
        return False  # all of it is there but the byte that ends it
    if newline and not _has_zero_sector(rest, offset, len(first)):
        return False
    if newline and _mend(first + b"\n") is not None:
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
