"""Transitions as JSON text and back: the one place that decides whether a transition can be kept at all.

Text made here is one line of valid JSON, whatever bytes the payloads hold, so that a store never writes what it could not read again.
"""

from typing import Final

import msgspec

from perdure.core.transition import Transition

_DEPTH_SPARE: Final = 64
"""Text nests so much less deeply than what can be read here and now, so that a reader with a fuller call stack can still read it."""

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Transition).decode
_skim: Final = msgspec.json.Decoder(msgspec.Raw).decode
_OPEN: Final = b"[" * _DEPTH_SPARE
_CLOSE: Final = b"]" * _DEPTH_SPARE


class Unwritable(ValueError):  # noqa: N818  named like the errors of core
    """A transition that is no JSON: a payload with broken text, a lone surrogate, nesting without end. The message says what."""


def encode_transition(transition: Transition) -> bytes:
    """One line of JSON, without a newline. Raises `Unwritable`."""
    try:
        text = _encode(transition)
        if b"\n" in text:  # payloads are carried verbatim: newlines between their tokens are legal JSON, but not one line
            text = msgspec.json.format(text, indent=-1)
        _skim(b"%b%b%b" % (_OPEN, text, _CLOSE))
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise Unwritable(f"cannot be written as JSON: {error}") from error
    return text


def decode_transition(text: bytes) -> Transition:
    """The transition of `encode_transition`'s text. Raises `msgspec.DecodeError` for anything else."""
    return _decode(text)
