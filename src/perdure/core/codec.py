"""Transitions as JSON text and back: the one place that decides whether a transition can be kept at all.

Text made here is one line of valid JSON, whatever bytes the payloads hold, so that a store never writes what it could not read again.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from perdure.core.transition import Transition

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Transition).decode
_skim: Final = msgspec.json.Decoder(msgspec.Raw).decode
_skim_lines: Final = msgspec.json.Decoder(msgspec.Raw).decode_lines
_FAULTS: Final = (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError)


class Unwritable(ValueError):  # noqa: N818  named like the errors of core
    """A transition that is no JSON: a payload with broken text, a lone surrogate, nesting without end. The message says what."""


def encode_transition(transition: Transition) -> bytes:
    """One line of JSON, without a newline. Raises `Unwritable`."""
    try:
        text = _encode(transition)
        if b"\n" in text:  # payloads are carried verbatim: newlines between their tokens are legal JSON, but not one line
            text = msgspec.json.format(text, indent=-1)
        _skim(text)
    except _FAULTS as error:
        raise Unwritable(f"cannot be written as JSON: {error}") from error
    return text


def encode_transitions(transitions: Sequence[Transition]) -> list[bytes | Unwritable]:
    """`encode_transition` of each, in a third of the time; an `Unwritable` stands where it would have been raised."""
    try:
        texts = [_encode(transition) for transition in transitions]
        lines = b"\n".join(texts)
        if lines.count(b"\n") == len(texts) - 1:
            _skim_lines(lines)
            return list[bytes | Unwritable](texts)
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
