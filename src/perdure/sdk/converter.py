"""The converter: the one place where values become payload bytes and bytes become values.

Encoding is pure: the same value gives the same bytes in every process, whatever PYTHONHASHSEED. Codecs are not applied here but at the
edges, to payloads already made. Nothing here reads a hint's value from outside or executes anything named by data.
"""

from typing import Any, Final

from msgspec import DecodeError, Raw, json

from perdure.core.codec import is_deeper
from perdure.core.errors import InvalidArgument
from perdure.core.payload import Payload
from perdure.sdk.encodable import LEAVES, NESTING_MAX, flaw, holds_non_finite, is_settled, ordered, to_encodable
from perdure.sdk.payload_bound import Watermark, bytes_max, check_size
from perdure.sdk.readers import Reader, read_plain, reader_of

_encode: Final = json.Encoder(enc_hook=to_encodable).encode


class Converter:
    """Values to payloads and back, by type hint.

    `limit_bytes` bounds one payload; left out, what holds where it is made does (see `payload_bound`). The check is made there and then, so a
    value that is too large never travels.
    """

    __slots__ = ("_ordered_readers", "_readers", "limit_bytes")

    def __init__(self, limit_bytes: int | None = None) -> None:
        self.limit_bytes = limit_bytes
        self._readers: dict[Any, Reader] = {Any: read_plain}
        self._ordered_readers: dict[tuple[Any, str], Reader] = {}

    def encode(self, value: object, path: str) -> Payload:
        """Compact JSON without newlines of `value`, which is called `path` in errors, such as `charge(order)`.

        Raises `InvalidArgument` naming the exact part that has no JSON form (`charge(order).lines[3].price`), `PayloadTooLarge`.
        """
        try:
            data = _encode(value)
            if type(value) not in LEAVES and not is_settled(value):
                data = _settle(value)
        except RecursionError as error:
            raise InvalidArgument(
                f"{path} cannot be encoded: nested deeper than {NESTING_MAX} levels, or within itself"
            ) from error
        except Exception as error:
            raise _not_encodable(value, path, str(error)) from error
        if b"null" in data and value is not None and holds_non_finite(value):
            raise _not_encodable(value, path, "NaN and infinity are not JSON numbers")
        if len(data) > Watermark.lowest or self.limit_bytes is not None:
            self._check_size(len(data), path)
        return Raw(data)

    def _check_size(self, size: int, path: str) -> None:
        check_size(size, path, bytes_max() if self.limit_bytes is None else self.limit_bytes)

    def decode(self, payload: Payload, type: Any = Any, path: str = "$") -> Any:
        """The value of a payload read as `type`; `Any` gives plain JSON values. Raises `InvalidArgument` naming the part that does not fit."""
        return read(payload, self.reader(type, path), path)

    def reader(self, type: Any, path: str = "$") -> Reader:
        """What reads payloads as `type`, for callers that keep it; give it to `read`. Raises `InvalidArgument` for a type nothing is read as."""
        try:
            reader = self._readers.get(type)
        except TypeError:  # not hashable, such as Annotated with a list in it
            return _make_reader(type, path)
        return reader or self._new_reader(type, path)

    def _new_reader(self, hint: Any, path: str) -> Reader:
        """Unions compare equal in any order, yet order can matter to one that is read member by member: those are kept by their text too."""
        key = (hint, repr(hint))
        reader = self._ordered_readers.get(key)
        if reader is None:
            reader = self._ordered_readers[key] = _make_reader(hint, path)
            if isinstance(getattr(reader, "__self__", None), json.Decoder):
                self._readers[hint] = reader
        return reader


def read(payload: Payload, reader: Reader, path: str) -> Any:
    """Run a reader; whatever is wrong with the payload becomes an `InvalidArgument` that says where under `path`."""
    try:
        return reader(payload)
    except Exception as error:
        raise _not_readable(error, path) from error


def _make_reader(hint: Any, path: str) -> Reader:
    try:
        return reader_of(hint)
    except Exception as error:
        raise InvalidArgument(f"{path} cannot be read as `{hint}`: {error}") from error


def _settle(value: object) -> bytes:
    """The bytes of a value with sets or ready-made JSON in it: sets in the order of their members' bytes, JSON checked and on one line."""
    data = _encode(ordered(value, _encode))
    read_plain(Raw(data))
    if is_deeper(data, NESTING_MAX):
        raise RecursionError(f"nested deeper than {NESTING_MAX} levels")
    return json.format(data, indent=-1) if b"\n" in data else data


def _not_encodable(value: object, path: str, reason: str) -> InvalidArgument:
    try:
        where, why = flaw(value, path, _encode) or (path, reason)
    except Exception:  # noqa: BLE001  a value whose own attributes raise must not hide that it cannot be encoded
        where, why = path, reason
    return InvalidArgument(f"{where} cannot be encoded: {why}")


def _not_readable(error: Exception, path: str) -> InvalidArgument:
    text = str(error)
    if isinstance(error, DecodeError) and "`$" in text:
        return InvalidArgument(f"{path} does not fit its type: {text.replace('`$', f'`{path}')}")
    return InvalidArgument(f"{path} does not fit its type: {text}")


CONVERTER: Final = Converter()
"""The converter with the limit that holds where it is used."""
