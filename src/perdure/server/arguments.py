"""Reads what a request says, its query and its body, into the types of its route; what does not fit is refused by name.

Payloads inside a body are kept as the text they came as.
"""

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import cache
from typing import Any, Final, get_args, get_type_hints
from urllib.parse import parse_qsl

import msgspec
from msgspec import Raw, Struct

from perdure.core.codec import is_deeper
from perdure.core.errors import InvalidArgument, PayloadTooLarge
from perdure.core.payload import Payload

NESTING_MAX: Final = 200
"""Containers within containers in one payload."""
PARAMETERS_MAX: Final = 32
"""Query parameters of one request."""
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(?P<name>.*?)`(?: - at `\$\.?(?P<place>[^`]*)`)?", re.DOTALL)
_PLACED: Final = re.compile(r"(?P<fault>.*) - at `\$\.?(?P<place>.*)`", re.DOTALL)


def read_query(kind: type[Struct], text: bytes) -> Any:
    """Query parameters as an instance of `kind`. Raises `InvalidArgument` naming the parameter."""
    try:
        pairs = parse_qsl(
            text.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(text),
            errors="strict",
            max_num_fields=PARAMETERS_MAX,
        )
    except ValueError:
        raise InvalidArgument(
            f"the query is not of the form name=value&name=value, percent-encoded UTF-8, with at most {PARAMETERS_MAX} parameters"
        ) from None
    given = dict(pairs)
    if len(given) != len(pairs):
        twice = next(name for name in given if [one for one, _ in pairs].count(name) > 1)
        raise InvalidArgument(f"query parameter {twice!r} is given more than once")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidArgument(_told(error, kind, "query parameter")) from None


def prepare(kinds: Iterable[type[Struct]]) -> None:
    """Make what reads bodies of these types. Raises `TypeError` for a type that cannot be read: now, rather than when a request comes."""
    for kind in kinds:
        _decoder(kind)


@cache
def _decoder(kind: type[Struct]) -> Callable[[bytes], Any]:
    return msgspec.json.Decoder(kind).decode


def read_body(kind: type[Struct], text: bytes) -> Any:
    """A JSON body as an instance of `kind`. Raises `InvalidArgument` naming the field."""
    try:
        if not text.isascii():
            text.decode()  # payloads are passed over when a body is read, down to bytes that are no text
        return _decoder(kind)(text)
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"the body is not UTF-8 text (byte {error.start})") from None
    except msgspec.ValidationError as error:
        raise InvalidArgument(_told(error, kind, "body field")) from None
    except msgspec.DecodeError as error:
        raise InvalidArgument(f"the body is no JSON: {error}") from None
    except RecursionError:
        raise InvalidArgument(f"the body is nested deeper than {NESTING_MAX} levels") from None


def _told(error: msgspec.ValidationError, kind: type[Struct], what: str) -> str:
    """What is wrong, beginning with the name of what it is wrong with."""
    text = str(error)
    if unknown := _UNKNOWN.fullmatch(text):
        place = unknown["place"] or ""
        fields = _fields_at(kind, place)
        near = get_close_matches(unknown["name"], fields, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(fields)}" if fields else "there are none"
        return f"{what} {(place and place + '.') + unknown['name']!r} is not known: {hint}"
    if placed := _PLACED.fullmatch(text):
        return f"{what} {placed['place']!r}: {placed['fault']}" if placed["place"] else f"{what}s: {placed['fault']}"
    return f"{what}s: {text}"


def _fields_at(kind: Any, place: str) -> tuple[str, ...]:
    """Names of the fields of the Struct that stands at a place such as `signal`."""
    for name in place.split(".") if place else ():
        hints = get_type_hints(kind)
        inner = hints.get(name)
        kind = next((each for each in (inner, *get_args(inner)) if isinstance(each, type) and issubclass(each, Struct)), None)
        if kind is None:
            return ()
    return tuple(kind.__struct_encode_fields__)


def payload(value: Payload, what: str, bytes_max: int) -> Payload:
    """`value` itself, when an engine may carry it. Raises `PayloadTooLarge` or `InvalidArgument` naming it."""
    size = len(value)
    if size > bytes_max:
        raise PayloadTooLarge(
            f"{what} is {size:,} bytes, more than the {bytes_max:,} one payload may have (setting limits.payload_bytes_max)"
        )
    if size > 2 * NESTING_MAX and is_deeper(bytes(value), NESTING_MAX):
        raise InvalidArgument(f"{what} is nested deeper than {NESTING_MAX} levels")
    return value


def payloads(values: Iterable[Raw], what: str, bytes_max: int) -> tuple[Payload, ...]:
    """Each of them, as `payload`."""
    return tuple(payload(value, f"{what}[{place}]", bytes_max) for place, value in enumerate(values))


def named_payloads(values: dict[str, Raw], what: str, bytes_max: int) -> dict[str, Payload]:
    """Each of them, as `payload`."""
    return {name: payload(value, f"{what}[{name!r}]", bytes_max) for name, value in values.items()}
