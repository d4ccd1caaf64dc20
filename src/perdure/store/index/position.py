"""How far into a journal an index goes: everything that is needed to go on reading there, and to see that it is this journal still."""

from typing import Final

import msgspec
from msgspec import Struct


class Position(Struct, frozen=True, kw_only=True):
    """Behind a line of the journal `store`. `begin` and `end` are where that line does, in segment `segment`, whose `lines` are counted.

    `seq`, `grp`, `run` and `crc` are what the next line repeats of it, `first` the lowest segment the journal needs; `footed` says why the
    line is a footer, if it is one. With `whole` False there is damage in the journal, so that it must be read from its beginning.
    """

    store: str = ""
    first: int = 1
    segment: int = 1
    begin: int = 0
    end: int = 0
    lines: int = 0
    seq: int = 0
    grp: int = 0
    run: str = ""
    crc: str = "00000000"
    footed: str = ""
    whole: bool = True


encode_position: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Position).decode


def decode_position(text: bytes) -> Position | None:
    """None for text that is no position."""
    try:
        return _decode(text)
    except msgspec.MsgspecError:
        return None
