"""Transitions as JSON text and back: the one place that decides whether a transition can be kept at all.

Text made here is one line of valid JSON that reads back as a transition, whatever bytes the payloads and values of whatever type the fields
hold, so that a store never writes what it could not read again.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from perdure.core.transition import Transition

LINE_NESTING_MAX: Final = 300
"""Containers within containers in one line: a payload's 200, a failure's chain around it, the transition. Well below what any Python reads."""

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Transition).decode
_decode_lines: Final = msgspec.json.Decoder(Transition).decode_lines
_FAULTS: Final = (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError)

_ALIKE: Final = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))


class Unwritable(ValueError):  # noqa: N818  named like the errors of core
    """A transition that cannot be read back: a payload that is no JSON or no UTF-8, a field of another type, nesting without end. The message says what."""


def encode_transition(transition: Transition) -> bytes:
    """One line of JSON, without a newline. Raises `Unwritable`."""
    try:
        text = _encode(transition)
        if b"\n" in text:  # payloads are carried verbatim: newlines between their tokens are legal JSON, but not one line
            text = msgspec.json.format(text, indent=-1)
        _decode(text)
        _refuse_torn(text)
        _refuse_deep(text)
    except _FAULTS as error:
        raise Unwritable(f"cannot be written as JSON: {error}") from error
    return text


def encode_transitions(transitions: Sequence[Transition]) -> list[bytes | Unwritable]:
    """`encode_transition` of each, in less time; an `Unwritable` stands where it would have been raised."""
    try:
        texts: list[bytes] = []
        for transition in transitions:
            text = _encode(transition)
            if b"\n" in text:
                break
            _refuse_deep(text)
            texts.append(text)
        else:
            lines = b"\n".join(texts)
            _decode_lines(lines)
            _refuse_torn(lines)
            return list(texts)
    except _FAULTS:
        pass  # one of them is at fault, or merely spread over several lines: look at each by itself
    return [_encoded(transition) for transition in transitions]


def _encoded(transition: Transition) -> bytes | Unwritable:
    try:
        return encode_transition(transition)
    except Unwritable as error:
        return error


def decode_transition(text: bytes) -> Transition:
    """The transition of `encode_transition`'s text. Raises `msgspec.DecodeError` for anything else."""
    return _decode(text)


def _refuse_torn(text: bytes) -> None:
    """A payload is passed over when a transition is read, down to bytes that are no text."""
    if not text.isascii():
        text.decode()


def _refuse_deep(text: bytes) -> None:
    # How deep a decoder follows differs from one Python to the next, and with the stack it is called on: this bound does not.
    if len(text) > 2 * LINE_NESTING_MAX and is_deeper(text, LINE_NESTING_MAX):
        raise ValueError(f"nested deeper than {LINE_NESTING_MAX} levels")


def is_deeper(text: bytes, levels: int) -> bool:
    """True when JSON text holds containers within containers more than `levels` deep. Needs no stack."""
    if text.count(b"[") + text.count(b"{") <= levels:
        return False
    pieces = text.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')  # every other one lies outside of strings
    brackets = b"".join(pieces[::2]).translate(_ALIKE, _NO_BRACKETS)
    for _ in range(levels):  # each turn takes the innermost level away
        left = brackets.replace(b"[]", b"")
        if len(left) == len(brackets):
            break
        brackets = left
    return bool(brackets)
