"""Exported runs: what is written can be read, and what is not whole any more is found out."""

import json
from zlib import crc32

import pytest
from msgspec import Raw

from perdure.core.errors import InvalidArgument
from perdure.core.events import ActivityScheduled, Completed, Started
from perdure.core.failure import Failure
from perdure.core.notes import AttemptFailed, Seen
from perdure.ports import Record
from perdure.store.export import ExportDamaged, lines_of, read_runs


def record(run_id: str = "r", payload: bytes = b'{"a":1}') -> Record:
    return Record(
        workflow_id="order ✓",
        run_id=run_id,
        events=(
            Started(id=1, time=10, workflow_type="t", queue="q", run_id=run_id, seed=7, input=(Raw(payload),)),
            ActivityScheduled(id=2, time=10, at=1, based_on=1, name="a", ordinal=1),
            Completed(id=3, time=12, at=1, based_on=2, result=Raw(b"null")),
        ),
        notes=(
            AttemptFailed(id=1, time=11, after=2, command=2, attempt=1, failure=Failure(type="E", message="no")),
            Seen(id=2, time=12, after=2, based_on=2),
        ),
    )


CHECKED = len(b'{"crc":"12345678"')
WHOLE = list(lines_of("ns", record()))


def test_runs_come_back_as_they_went() -> None:
    """Several in one text, blank lines and other newlines between them, open ones and empty ones too."""
    open_run = Record(workflow_id="w", run_id="o", events=record("o").events[:1])
    empty = Record(workflow_id="w", run_id="e", events=())
    text = [*WHOLE, b"\n", *(line.replace(b"\n", b"\r\n") for line in lines_of("ns", open_run)), *lines_of("x", empty)]
    first, second, third = read_runs(text)
    assert (first.header.namespace, first.header.workflow_id, first.type) == ("ns", "order ✓", "t")
    assert (first.record, second.record, third.record) == (record(), open_run, empty)
    assert third.type == ""


def test_the_form_is_pinned() -> None:
    """Golden histories are read for ever: this is format 1, byte by byte."""
    assert b"".join(WHOLE).decode() == (
        '{"crc":"ab0eddb5","history":{"format":1,"namespace":"ns","workflow_id":"order ✓","run_id":"r"}}\n'
        '{"crc":"5cb75506","event":{"type":"started","id":1,"time":10,"workflow_type":"t","queue":"q","run_id":"r","seed":7,"input":[{"a":1}]}}\n'
        '{"crc":"4cc7b128","event":{"type":"activity_scheduled","id":2,"time":10,"at":1,"based_on":1,"name":"a","ordinal":1}}\n'
        '{"crc":"d666712d","event":{"type":"completed","id":3,"time":12,"at":1,"based_on":2,"result":null}}\n'
        '{"crc":"eb1bf289","note":{"type":"attempt_failed","id":1,"time":11,"after":2,"command":2,"attempt":1,"failure":{"type":"E","message":"no"}}}\n'
        '{"crc":"b82bf1ea","note":{"type":"seen","id":2,"time":12,"after":2,"based_on":2}}\n'
        '{"crc":"5364da8f","end":{"events":3,"notes":2,"lines_crc":"839870b5"}}\n'
    )


def test_each_line_is_json_under_its_own_checksum() -> None:
    """Any tool can read it: the CRC-32 is over the text from behind the checksum's quote to the end of the line."""
    for line in WHOLE:
        text = line.removesuffix(b"\n")
        assert json.loads(text)["crc"] == f"{crc32(text[CHECKED:]):08x}"
    end = json.loads(WHOLE[-1])["end"]
    assert end == {"events": 3, "notes": 2, "lines_crc": f"{crc32(b''.join(WHOLE[:-1])):08x}"}


def test_a_payload_spread_over_lines_stays_on_one() -> None:
    """Newlines between the tokens of a payload are legal JSON, and would tear a line apart."""
    lines = list(lines_of("ns", record(payload=b'{\n"a":\n1}')))
    assert [line.count(b"\n") for line in lines] == [1] * len(lines)
    assert next(read_runs(lines)).record == record()


def test_every_flipped_byte_is_found() -> None:
    """Whatever single byte changes, nothing is read as if it were whole."""
    text = b"".join(WHOLE)
    for place in range(len(text)):
        flipped = text[:place] + bytes([text[place] ^ 1]) + text[place + 1 :]
        with pytest.raises((ExportDamaged, InvalidArgument)):
            list(read_runs(flipped.splitlines(keepends=True)))


@pytest.mark.parametrize("lines", range(1, len(WHOLE)))
def test_a_cut_is_found(lines: int) -> None:
    """After every line."""
    with pytest.raises(ExportDamaged, match="ends in the middle"):
        list(read_runs(WHOLE[:lines]))


def test_lines_lost_doubled_or_moved_are_found() -> None:
    """Each is whole by itself, but they do not make up the run that was written."""
    other = list(lines_of("ns", record("other")))
    changed = [
        [*WHOLE[:1], *WHOLE[2:]],
        [*WHOLE[:2], *WHOLE[1:]],
        [WHOLE[0], WHOLE[2], WHOLE[1], *WHOLE[3:]],
        [*WHOLE[:4], WHOLE[5], WHOLE[4], *WHOLE[6:]],
        [*WHOLE[:4], *WHOLE[5:]],
        [WHOLE[0], other[1], *WHOLE[2:]],
        [*WHOLE[:2], *other],
        [*WHOLE, WHOLE[1]],
    ]
    for lines in changed:
        with pytest.raises(ExportDamaged):
            list(read_runs(lines))


@pytest.mark.parametrize("text", [b"", b"\n\n", b"hello\n", b"{}\n", b'{"crc":"00000000","event":{}}\n', b"\xff\n"])
def test_what_is_no_export_is_told_apart_from_a_damaged_one(text: bytes) -> None:
    """Handing over the wrong file is a mistake, not damage."""
    with pytest.raises(InvalidArgument):
        list(read_runs(text.splitlines(keepends=True)))


def test_a_later_format_is_refused() -> None:
    """By its number, before anything of it is guessed at."""
    checked = WHOLE[0].removesuffix(b"\n").replace(b'"format":1', b'"format":2')[CHECKED:]
    with pytest.raises(InvalidArgument, match="format 2"):
        list(read_runs([b'{"crc":"%08x"%b\n' % (crc32(checked), checked), *WHOLE[1:]]))
