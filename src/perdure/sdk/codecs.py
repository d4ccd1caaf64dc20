"""Codecs: what is done to the bytes of every payload before it leaves a client or worker, and undone where it arrives.

A codec sees whole payloads, one at a time, on the loop's thread: it must be quick and must not wait. The engine, the journal and the command
line only ever see what `encode` gave.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, cast, runtime_checkable

from perdure.core.errors import CodecError, InvalidArgument
from perdure.sdk.options import whole

CLEAR_BYTES_MAX: Final = 256 * 1024 * 1024
"""What compressed bytes may grow to: more is not what a client wrote."""
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_KEY_BYTES: Final = frozenset({16, 24, 32})
_KEY_ID_BYTES_MAX: Final = 255


@runtime_checkable
class PayloadCodec(Protocol):
    """`decode(encode(data)) == data`, in every process that is given the codec, for as long as anything encoded is kept.

    `encode` need not give the same bytes twice. Whatever either raises becomes a `CodecError`.
    """

    def encode(self, data: bytes, /) -> bytes: ...

    def decode(self, data: bytes, /) -> bytes: ...


Codec: TypeAlias = "PayloadCodec | Sequence[PayloadCodec] | None"
"""What `codec=` takes: none, one, or several that encode in that order."""


class Chain:
    """Several codecs as one: they encode in the order given and decode in the opposite one. Compress first, then encrypt."""

    def __init__(self, *codecs: PayloadCodec) -> None:
        self._codecs = tuple(codec_of(codec) for codec in codecs)

    def encode(self, data: bytes, /) -> bytes:
        for codec in self._codecs:
            data = codec.encode(data)
        return data

    def decode(self, data: bytes, /) -> bytes:
        for codec in reversed(self._codecs):
            data = codec.decode(data)
        return data

    def __repr__(self) -> str:
        return f"Chain({', '.join(map(repr, self._codecs))})"


class Zstd:
    """Compresses with zstandard, where that makes a payload smaller. Needs `pip install 'perdure[zstd]'`.

    `level` is 1 (quick) to 22 (small).
    """

    def __init__(self, level: int = 3) -> None:
        try:
            import zstandard
        except ImportError as error:
            raise ImportError("the codec Zstd needs the package zstandard: pip install 'perdure[zstd]'") from error
        self.level = level = whole(level, "Zstd level", 1, zstandard.MAX_COMPRESSION_LEVEL)
        self._compress = zstandard.ZstdCompressor(level=level).compress
        self._decompress = zstandard.ZstdDecompressor().decompress
        self._size = zstandard.frame_content_size

    def encode(self, data: bytes, /) -> bytes:
        small = self._compress(data)
        return b"\1" + small if len(small) < len(data) else b"\0" + data

    def decode(self, data: bytes, /) -> bytes:
        kind, rest = data[:1], data[1:]
        if kind == b"\0":
            return rest
        if kind != b"\1":
            raise CodecError("this was not encoded by Zstd")
        if not 0 <= self._size(rest) <= CLEAR_BYTES_MAX:
            raise CodecError(f"this would decompress to more than {CLEAR_BYTES_MAX:,} bytes")
        return self._decompress(rest)

    def __repr__(self) -> str:
        return f"Zstd(level={self.level})"


class AesGcm:
    """Encrypts with AES-GCM: nobody without the key can read a payload, or change one unnoticed. Needs `pip install 'perdure[crypto]'`.

    `keys` maps key ids to keys of 16, 24 or 32 random bytes; `current` is the id of the one that encrypts, the last one when left out. Each
    payload names its key by id, so rotating means: add a key everywhere, then make it the current one; keep the old ones for as long as
    anything they encrypted is kept. Nonces are random: use a key for less than 2**32 payloads. `AesGcm.generate_key()` makes one.
    """

    def __init__(self, keys: Mapping[str, bytes], current: str | None = None) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            raise ImportError("the codec AesGcm needs the package cryptography: pip install 'perdure[crypto]'") from error
        if not keys or not isinstance(cast("object", keys), Mapping):
            raise InvalidArgument("AesGcm needs a mapping of key ids to keys, with at least one")
        self._keys: dict[str, AESGCM] = {_key_id(name): AESGCM(_key(name, key)) for name, key in keys.items()}
        self.current = next(reversed(self._keys)) if current is None else current
        if self.current not in self._keys:
            raise InvalidArgument(f"AesGcm has no key {current!r}; its keys are {', '.join(self._keys)}")

    @staticmethod
    def generate_key() -> bytes:
        """32 random bytes."""
        return os.urandom(32)

    def encode(self, data: bytes, /) -> bytes:
        name = self.current.encode()
        head = b"\1" + bytes((len(name),)) + name
        nonce = os.urandom(_NONCE_BYTES)
        return head + nonce + self._keys[self.current].encrypt(nonce, data, head)

    def decode(self, data: bytes, /) -> bytes:
        from cryptography.exceptions import InvalidTag

        length = 2 + data[1] if len(data) > 1 else 0
        if data[:1] != b"\1" or len(data) < length + _NONCE_BYTES + _TAG_BYTES:
            raise CodecError("this was not encoded by AesGcm")
        head, nonce, sealed = data[:length], data[length : length + _NONCE_BYTES], data[length + _NONCE_BYTES :]
        name = head[2:].decode(errors="replace")
        key = self._keys.get(name)
        if key is None:
            raise CodecError(
                f"it was encrypted with the key {name!r}, which is not among those given ({', '.join(self._keys)})"
            )
        try:
            return key.decrypt(nonce, sealed, head)
        except InvalidTag:
            raise CodecError(
                f"the key given as {name!r} is not the one it was encrypted with, or it was changed since"
            ) from None

    def __repr__(self) -> str:
        return f"AesGcm(keys: {', '.join(self._keys)}; current: {self.current})"


def codec_of(given: object) -> PayloadCodec:
    """The codec for `codec=`: one, or several as a sequence. Raises `InvalidArgument` for anything else."""
    if isinstance(given, (list, tuple)):
        return Chain(*cast("Iterable[PayloadCodec]", given))
    if not isinstance(given, PayloadCodec) or isinstance(given, type):
        raise InvalidArgument(f"a codec has encode(bytes) and decode(bytes); {given!r} is none")
    return given


def _key_id(name: Any) -> str:
    if not isinstance(name, str) or not name or len(name.encode()) > _KEY_ID_BYTES_MAX:
        raise InvalidArgument(f"a key id is text of 1 to {_KEY_ID_BYTES_MAX} bytes, not {name!r}")
    return name


def _key(name: str, key: Any) -> bytes:
    if not isinstance(key, bytes) or len(key) not in _KEY_BYTES:
        raise InvalidArgument(f"the key {name!r} must be 16, 24 or 32 bytes")
    return key
