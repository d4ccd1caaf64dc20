"""Transitions as text."""

import json

import msgspec
import pytest
from msgspec import Raw

from perdure.core.codec import Unwritable, decode_transition, encode_transition, encode_transitions, is_deeper
from perdure.core.events import ActivityFailed, CancelRequested, Completed, SignalReceived, VersionMarked
from perdure.core.failure import Failure
from perdure.core.transition import RunChange, Transition


class Text(str):
    __slots__ = ()


def one(event) -> Transition:
    return Transition(workflow_id="a", runs=(RunChange(run_id="r", events=(event,)),))


def signal(text: bytes, workflow: str = "a") -> Transition:
    event = SignalReceived(id=2, time=3, name="s", input=(Raw(text),))
    return Transition(workflow_id=workflow, runs=(RunChange(run_id="r", events=(event,)),))


@pytest.mark.parametrize("text", [b"1", b'{"a": [1, 2]}', '"🦊\u2028"'.encode(), b'"\\n"', b"1.50", b"12345678901234567890123"])
def test_a_payload_keeps_its_bytes(text) -> None:
    """Payloads are carried verbatim."""
    again = decode_transition(encode_transition(signal(text)))
    assert bytes(again.runs[0].events[0].input[0]) == text
    assert again == signal(text)


@pytest.mark.parametrize("text", [b"[1,\n2]", b'{"a":\r\n"b"}', b"\n\n7"])
def test_newlines_between_tokens_are_taken_out(text) -> None:
    """One transition is one line; the payload's value stays."""
    line = encode_transition(signal(text))
    assert b"\n" not in line
    assert json.loads(line)["runs"][0]["events"][0]["input"] == [json.loads(text)]


@pytest.mark.parametrize(
    "transition",
    [
        signal(b"{"),
        signal(b'"a\nb"'),
        signal(b'"a\x01b"'),
        signal(b'"\xff"'),
        signal(b'{"\xed\xa0\x80":1}'),
        signal(b"[" * 301 + b"]" * 301),
        signal(b"[" * 5000 + b"]" * 5000),
        signal(b"[" * 100_000 + b"]" * 100_000),
        signal(b"1", "\ud800"),
        *(one(CancelRequested(id=2, time=1, reason=reason)) for reason in (404, "\ud800", Text("x"), ValueError("x"))),
        *(one(VersionMarked(id=2, time=1, at=1, based_on=1, change_id="c", version=version)) for version in (True, 1.5)),
        one(ActivityFailed(id=2, time=1, command=1, failure=Failure(type="E", kind="bogus"))),
        Transition(
            workflow_id="a", runs=(RunChange(run_id="r", events=(Completed(id=2, time=1, at=1, based_on=1, result=Raw(b"")),)),)
        ),
    ],
)
def test_what_could_not_be_read_back_is_told_apart_in_a_batch(transition) -> None:
    """The one at fault gets the reason, its neighbours their text."""
    with pytest.raises(Unwritable):
        encode_transition(transition)
    good = signal(b"1")
    first, bad, last = encode_transitions([good, transition, good])
    assert isinstance(bad, Unwritable)
    assert first == last == encode_transition(good)


def test_two_halves_do_not_make_a_whole() -> None:
    """Broken text that its neighbour in the batch would complete is broken still."""
    halves = [signal(b'[{"a":"'), signal(b'"}]')]
    assert all(isinstance(text, Unwritable) for text in encode_transitions(halves))
    halves = [signal(b"[["), signal(b"]]")]
    assert all(isinstance(text, Unwritable) for text in encode_transitions(halves))


def test_an_empty_batch_is_empty() -> None:
    """Nothing in, nothing out."""
    assert encode_transitions([]) == []


def test_other_text_is_no_transition() -> None:
    """Decoding checks."""
    with pytest.raises(msgspec.DecodeError):
        decode_transition(b'{"workflow_id":1}')


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        (b"[" * 5 + b"]" * 5, 5),
        (b'{"a":[' * 3 + b"]}" * 3, 6),
        (b'["[[[[[[","\\"[[[[[[","\\\\",[1],[2],{},{"]":[]}]', 3),
        (b"[[],[[]],[[],[]],{}]", 3),
        (b"[[[[" + b'"]]]]",' * 9 + b"[]]]]]", 5),
        (b'"[[["', 0),
    ],
)
def test_depth_is_of_containers_alone(text, depth) -> None:
    """Brackets in strings are text, however they are escaped."""
    json.loads(text)
    assert not is_deeper(text, depth)
    assert depth == 0 or is_deeper(text, depth - 1)
