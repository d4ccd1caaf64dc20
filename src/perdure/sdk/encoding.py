"""A codec put to work on the values that go between clients, workers and the engine: every payload in them, and what failures tell.

An encoded payload is still JSON: an object with one key no author writes, so that whoever lacks the codec can carry, store and show it. Ids,
names, attributes, summaries, reasons and the class names of exceptions stay in clear: the engine and people go by them.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import cache
from types import UnionType
from typing import Any, Final, TypeVar, Union, cast, get_args, get_origin

import msgspec
from msgspec import Raw, Struct, structs

from perdure.core.errors import CodecError
from perdure.core.failure import Failure
from perdure.core.payload import ABSENT, Payload, is_absent
from perdure.sdk.codecs import Codec, PayloadCodec, codec_of

MARK: Final = b'{"perdure/encoded":"'
_END: Final = b'"}'
SAYS_NOTHING: Final = "(encoded)"
"""The message of a failure for whoever has no codec."""

_T = TypeVar("_T")


class _Told(Struct, omit_defaults=True, frozen=True):
    """What of a failure is encoded."""

    message: str = ""
    args: Payload = ABSENT
    fields: Payload = ABSENT
    details: Payload = ABSENT
    notes: tuple[str, ...] = ()
    traceback: str = ""


_encode_told: Final = msgspec.json.Encoder().encode
_decode_json: Final = msgspec.json.Decoder(Raw).decode
_decode_told: Final = msgspec.json.Decoder(_Told).decode


def is_encoded(payload: Payload) -> bool:
    """True for what a codec made."""
    return bytes(payload).startswith(MARK)


def any_encoded(payloads: tuple[Payload, ...], keywords: dict[str, Payload]) -> bool:
    """True when one of a call's payloads is encoded."""
    for payload in payloads:
        if bytes(payload).startswith(MARK):
            return True
    return any(map(is_encoded, keywords.values())) if keywords else False


def decoded(value: _T, codec: Codec) -> _T:
    """Anything that holds payloads (the events of an exported history, say) as a process with that codec sees it. Raises `CodecError`."""
    return Encoding(codec_of(codec)).decoded(value)


class Encoding:
    """Encodes and decodes whole values of `core` with one codec. Raises `CodecError`; payloads that are not encoded are read as they are."""

    def __init__(self, codec: PayloadCodec) -> None:
        self.codec = codec

    def encoded(self, value: _T) -> _T:
        """The value with every payload encoded."""
        return cast("_T", _mapped(value, self._encode, self._encode_failure))

    def decoded(self, value: _T) -> _T:
        """The value with every payload decoded."""
        return cast("_T", _mapped(value, self._decode, self._decode_failure))

    def _encode(self, payload: Payload) -> Payload:
        try:
            return Raw(MARK + b64encode(_bytes(self.codec.encode(bytes(payload)), "encode")) + _END)
        except Exception as error:
            raise CodecError(f"a payload cannot be encoded by {_name(self.codec)}: {_why(error)}") from error

    def _decode(self, payload: Payload) -> Payload:
        text = bytes(payload)
        if not text.startswith(MARK):
            return payload
        try:
            data = self.codec.decode(b64decode(text[len(MARK) : -len(_END)], validate=True))
            return _json(_bytes(data, "decode"))
        except Exception as error:
            raise CodecError(f"a payload cannot be decoded by {_name(self.codec)}: {_why(error)}") from error

    def _encode_failure(self, failure: Failure) -> Failure:
        told = _Told(failure.message, failure.args, failure.fields, failure.details, failure.notes, failure.traceback)
        return structs.replace(
            failure,
            message=SAYS_NOTHING,
            args=ABSENT,
            fields=ABSENT,
            details=self._encode(Raw(_encode_told(told))),
            notes=(),
            traceback="",
            **_around(failure, self._encode_failure),
        )

    def _decode_failure(self, failure: Failure) -> Failure:
        around = _around(failure, self._decode_failure)
        if not is_encoded(failure.details):  # the engine's own, or from before there was a codec
            return structs.replace(failure, **around) if around else failure
        details = self._decode(failure.details)
        try:
            told = _decode_told(details)
        except msgspec.DecodeError as error:
            raise CodecError(f"a failure cannot be decoded by {_name(self.codec)}: {_why(error)}") from error
        return structs.replace(failure, **{name: getattr(told, name) for name in _Told.__struct_fields__}, **around)


def _around(failure: Failure, turn: Callable[[Failure], Failure]) -> dict[str, Any]:
    """Causes, contexts and members, turned."""
    around: dict[str, Any] = {}
    if failure.cause is not None:
        around["cause"] = turn(failure.cause)
    if failure.context is not None:
        around["context"] = turn(failure.context)
    if failure.parts:
        around["parts"] = tuple(map(turn, failure.parts))
    return around


def _mapped(value: Any, payload: Callable[[Payload], Payload], failure: Callable[[Failure], Failure]) -> Any:
    """The value with its payloads and failures replaced; the very value where there are none."""
    kind: Any = value.__class__
    if kind is Raw:
        return value if is_absent(value) else payload(value)
    if kind is Failure:
        return failure(value)
    if kind is tuple:
        return tuple([_mapped(item, payload, failure) for item in value])
    if kind is list:
        return [_mapped(item, payload, failure) for item in value]
    if kind is dict:
        return {key: _mapped(item, payload, failure) for key, item in value.items()}
    if not isinstance(value, Struct):
        return value
    changes: dict[str, Any] = {}
    for name in _telling_fields(kind):
        old = getattr(value, name)
        if old:
            new = _mapped(old, payload, failure)
            if new is not old:
                changes[name] = new
    return structs.replace(value, **changes) if changes else value


@cache
def _telling_fields(kind: type[Struct]) -> tuple[str, ...]:
    """Fields of a struct that can hold a payload or failure, however deep."""
    return tuple(field.name for field in structs.fields(kind) if _tells(field.type, frozenset({kind})))


def _tells(hint: Any, seen: frozenset[Any]) -> bool:
    if hint in {Raw, Failure, Any}:
        return True
    if isinstance(hint, type) and issubclass(hint, Struct):
        if hint in seen:
            return False
        return any(_tells(field.type, seen | {hint}) for field in structs.fields(hint))
    if get_origin(hint) in {Union, UnionType, tuple, list, dict}:
        return any(_tells(part, seen) for part in get_args(hint))
    return False


def _bytes(data: Any, method: str) -> bytes:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise CodecError(f"{method} returned {type(data).__name__}, not bytes")
    return bytes(cast("bytes", data))


def _json(data: bytes) -> Payload:
    """What was decoded, if it is a payload: a codec that cannot tell a wrong key gives noise, and no run must fail of that."""
    try:
        return _decode_json(data)
    except msgspec.DecodeError as error:
        raise CodecError(f"what decode returned is no payload, as with another codec or key ({error})") from error


def _name(codec: PayloadCodec) -> str:
    return type(codec).__name__


def _why(error: Exception) -> str:
    return str(error) if isinstance(error, CodecError) else f"{type(error).__name__}: {error}"
