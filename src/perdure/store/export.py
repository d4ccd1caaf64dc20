"""A run as lines of text for keeping and replaying elsewhere: a header, its events, its notes, a footer, each under a checksum.

Not the journal's own form: one run's lines stand together and need nothing else to be read. `docs/history-export.md` says the same in
prose; both change together, and what reads a format reads all formats before it, for ever. Pure: values and bytes, no files.
"""

from collections.abc import Iterable, Iterator
from typing import ClassVar, Final
from zlib import crc32

import msgspec
from msgspec import Struct

from perdure.core.errors import InvalidArgument, PerdureError
from perdure.core.events import AnyEvent, Started
from perdure.core.notes import AnyNote
from perdure.ports import Record

FORMAT: Final = 1
"""In every header. What reads a format reads all formats below."""

_FRONT: Final = b'{"crc":"'
_CHECKED: Final = len(_FRONT) + 8 + 1
"""From this byte on, up to the newline, a line is under its checksum."""


class Header(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """First line of a run: which one it is. `damaged`: why the entries end before the run did."""

    format: int
    namespace: str
    workflow_id: str
    run_id: str
    damaged: str = ""


class Footer(Struct, frozen=True, kw_only=True):
    """Last line of a run: how many events and notes stand above it, and the CRC-32 over all of the run's lines above."""

    events: int
    notes: int
    lines_crc: str


class _Line(Struct, frozen=True, kw_only=True):
    """One line. Exactly one of the four is there."""

    crc: str
    history: Header | None = None
    event: AnyEvent | None = None
    note: AnyNote | None = None
    end: Footer | None = None


class ExportDamaged(PerdureError):  # noqa: N818  named like the errors of core
    """The text was an export once and has been changed or cut; the message names the line."""

    code: ClassVar[str] = "EXPORT_DAMAGED"


class ExportedRun(Struct, frozen=True, kw_only=True):
    """One run, as it was exported."""

    header: Header
    record: Record

    @property
    def type(self) -> str:
        """Its workflow type; empty for a run without events."""
        first = self.record.events[0] if self.record.events else None
        return first.workflow_type if isinstance(first, Started) else ""


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(_Line).decode


def lines_of(namespace: str, record: Record) -> Iterator[bytes]:
    """The lines of one run, each with its newline: header, events, notes, footer."""
    crc = 0
    header = Header(
        format=FORMAT,
        namespace=namespace,
        workflow_id=record.workflow_id,
        run_id=record.run_id,
        damaged=record.damage.reason if record.damage is not None else "",
    )
    for kind, entries in (("history", (header,)), ("event", record.events), ("note", record.notes)):
        for entry in entries:
            line = _framed(kind, entry)
            crc = crc32(line, crc)
            yield line
    yield _framed("end", Footer(events=len(record.events), notes=len(record.notes), lines_crc=f"{crc:08x}"))


def _framed(kind: str, entry: object) -> bytes:
    text = _encode(entry)
    if b"\n" in text:  # payloads are carried as they came, and may have newlines between their tokens
        text = msgspec.json.format(text, indent=-1)
    checked = b',"%b":%b}' % (kind.encode(), text)
    return b'{"crc":"%08x"%b\n' % (crc32(checked), checked)


def read_runs(lines: Iterable[bytes]) -> Iterator[ExportedRun]:
    """The runs of an export, one after the other; blank lines between them do not matter.

    Raises `InvalidArgument` for text that is no export, or of a later format; `ExportDamaged` for one that is not whole any more.
    """
    reader: _RunReader | None = None
    number = runs = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if reader is None:
            reader = _RunReader(_header(line, number, is_first=not runs), line)
            runs += 1
        elif (run := reader.take(line, number)) is not None:
            yield run
            reader = None
    if reader is not None:
        raise ExportDamaged(f"the export ends in the middle of run {reader.header.run_id}, after line {number}")
    if not runs:
        raise InvalidArgument("it holds no exported run: it is empty")


def _header(line: bytes, number: int, *, is_first: bool) -> Header:
    if not line.startswith(_FRONT) or b'"history"' not in line[:40]:
        if is_first:
            raise InvalidArgument("it holds no exported run: it does not begin with a header")
        raise ExportDamaged(f"line {number} stands where a run's header should be")
    parsed = _parsed(line, number)
    if parsed.history is None:
        raise ExportDamaged(f"line {number} stands where a run's header should be")
    if parsed.history.format > FORMAT:
        raise InvalidArgument(
            f"line {number}: the export is in format {parsed.history.format}; this perdure reads up to {FORMAT}"
        )
    return parsed.history


def _parsed(line: bytes, number: int) -> _Line:
    text = line.rstrip(b"\r\n")
    if not text.startswith(_FRONT) or text[len(_FRONT) : _CHECKED - 1] != b"%08x" % crc32(text[_CHECKED:]):
        raise ExportDamaged(f"line {number} has changed since it was written: its checksum does not match")
    try:
        return _decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"line {number} holds nothing this version can read: {error}") from error


class _RunReader:
    """Gathers one run's lines behind its header."""

    def __init__(self, header: Header, line: bytes) -> None:
        self.header = header
        self._events: list[AnyEvent] = []
        self._notes: list[AnyNote] = []
        self._crc = 0
        self._count(line)

    def _count(self, line: bytes) -> None:
        self._crc = crc32(line.rstrip(b"\r\n") + b"\n", self._crc)

    def take(self, line: bytes, number: int) -> ExportedRun | None:
        """The run, when `line` was its last."""
        parsed = _parsed(line, number)
        if parsed.end is not None:
            return self._ended(parsed.end, number)
        self._count(line)
        if parsed.event is not None:
            if parsed.event.id != len(self._events) + 1:
                raise ExportDamaged(
                    f"line {number} holds event {parsed.event.id}, where event {len(self._events) + 1} should be"
                )
            self._events.append(parsed.event)
        elif parsed.note is not None:
            self._notes.append(parsed.note)
        else:
            raise ExportDamaged(f"line {number} begins another run before run {self.header.run_id} has ended")
        return None

    def _ended(self, footer: Footer, number: int) -> ExportedRun:
        found = (len(self._events), len(self._notes), f"{self._crc:08x}")
        if found != (footer.events, footer.notes, footer.lines_crc):
            raise ExportDamaged(
                f"line {number}: the run was written with {footer.events} events and {footer.notes} notes, and not with the lines "
                f"that stand here ({found[0]} and {found[1]})"
            )
        record = Record(
            workflow_id=self.header.workflow_id, run_id=self.header.run_id, events=tuple(self._events), notes=tuple(self._notes)
        )
        return ExportedRun(header=self.header, record=record)
