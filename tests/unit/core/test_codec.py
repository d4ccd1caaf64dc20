"""Transitions as text."""

import json

import msgspec
import pytest
from msgspec import Raw

from perdure.core.codec import Unwritable, decode_transition, encode_transition, encode_transitions
from perdure.core.events import Completed, SignalReceived
from perdure.core.transition import RunChange, Transition


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
        signal(b"[" * 5000 + b"]" * 5000),
        signal(b"1", "\ud800"),
        Transition(
            workflow_id="a", runs=(RunChange(run_id="r", events=(Completed(id=2, time=1, at=1, based_on=1, result=Raw(b"")),)),)
        ),
    ],
)
def test_what_is_no_json_is_told_apart_in_a_batch(transition) -> None:
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
