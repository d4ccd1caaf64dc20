"""The line by itself."""

import json

import pytest
from msgspec import Raw

from perdure.core.codec import encode_transition
from perdure.core.events import SignalReceived
from perdure.core.transition import RunChange, Transition
from perdure.store.journal.format import (
    BadLine,
    Link,
    fault_of_chain,
    frame,
    is_whole,
    link_of,
    parse,
    segment_name,
    segment_number,
)


def transition(run: str = "r", text: bytes = b"1") -> Transition:
    event = SignalReceived(id=2, time=3, name="s", input=(Raw(text),))
    return Transition(workflow_id="w", runs=(RunChange(run_id=run, events=(event,)),))


def test_golden_line() -> None:
    """The bytes of format 1, for ever."""
    lines, link = frame(Link(6, 5, "r0", "0badcafe"), 2, b"t", [("r", encode_transition(transition()))])
    assert lines == [
        (
            b'{"crc":"dd213dac","seq":7,"seg":2,"grp":7,"prev":["r0","0badcafe"],"t":{"workflow_id":"w","runs":'
            b'[{"run_id":"r","events":[{"type":"signal_received","id":2,"time":3,"name":"s","input":[1]}]}]}}\n'
        )
    ]
    assert link == Link(7, 7, "r", "dd213dac")


@pytest.mark.parametrize("run", ["", '"', "\\", "🦊", "\u2028", "r" * 255])
def test_lines_of_a_group_follow_each_other(run) -> None:
    """What is framed parses, chains and is JSON, whatever the run id is made of."""
    link = Link()
    lines, after = frame(link, 1, b"t", [(run, encode_transition(transition(run)))] * 3)
    for text in lines:
        line = parse(text[:-1])
        assert line.t == transition(run)
        assert json.loads(text)["grp"] == 1
        assert fault_of_chain(line, link, 1) is None
        link = link_of(line)
    assert link == after


def test_a_line_out_of_place_is_named() -> None:
    """Number, segment, line before and group are each looked at."""
    lines, _ = frame(Link(), 1, b"t", [("r", encode_transition(transition()))] * 2)
    second = parse(lines[1][:-1])
    before = link_of(parse(lines[0][:-1]))
    assert fault_of_chain(second, before, 1) is None
    assert "line 2, where line 1" in str(fault_of_chain(second, Link(), 1))
    assert "segment 1" in str(fault_of_chain(second, before, 2))
    assert "was of run 'r'" in str(fault_of_chain(second, before._replace(run="x"), 1))
    assert "was of run 'r'" in str(fault_of_chain(second, before._replace(crc="00000000"), 1))
    assert "group 1" in str(fault_of_chain(second, before._replace(grp=0), 1))


@pytest.mark.parametrize("text", [b"", b"{}", b'{"crc":"', b'{"crc":"0000000', b'{"crc":"00000000"', b"\0" * 40])
def test_short_bytes_are_no_line(text) -> None:
    """Whatever is left of a line is found out without an exception of another kind."""
    assert not is_whole(text) or text == b'{"crc":"00000000"'
    with pytest.raises(BadLine):
        parse(text)


def test_a_crc_in_capitals_is_no_line() -> None:
    """One text form only: flipping the case of a hex digit is damage like any other."""
    lines, _ = frame(Link(), 1, b"t", [("r", encode_transition(transition(text=b'"%d"' % n))) for n in range(30)])
    for text in lines:
        shouted = text[:8] + text[8:16].upper() + text[16:-1]
        assert is_whole(shouted) == (text[8:16].upper() == text[8:16])


def test_a_payload_as_deep_as_can_be_written_can_be_read_from_a_deep_stack() -> None:
    """Nesting that passed when it was written must not stop a start whose call stack is fuller."""
    deepest = None
    for depth in range(100, 1000):
        try:
            deepest = encode_transition(transition(text=b"[" * depth + b"]" * depth))
        except ValueError as error:
            assert "nested deeper than 300 levels" in str(error)  # noqa: PT017  every Python stops at the same depth
            break
    assert deepest is not None
    assert deepest.count(b"[") > 290
    lines, _ = frame(Link(), 1, b"t", [("r", deepest)])
    parsed = [None]

    def read(levels: int) -> None:
        if levels:
            read(levels - 1)
        else:
            parsed[0] = parse(lines[0][:-1]).t

    read(400)
    assert parsed[0] is not None


@pytest.mark.parametrize(("number", "name"), [(1, "journal/00000001.jsonl"), (123456789, "journal/123456789.jsonl")])
def test_segment_names(number, name) -> None:
    """Names sort as numbers do, up to a hundred million segments, and lead back to the number."""
    assert segment_name(number) == name
    assert segment_number(name) == number


@pytest.mark.parametrize(
    "name", ["journal/1.jsonl", "journal/00000001.jsonl.bak", "journal/x.jsonl", "journal/012345678.jsonl"]
)
def test_other_files_are_no_segments(name) -> None:
    """What people leave lying around is passed over."""
    assert segment_number(name) is None
