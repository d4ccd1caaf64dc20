"""Attributes: the values a run can be listed by, between what authors write and what events carry.

A datetime travels as ISO 8601 text in UTC, always of the same width, so that later ones sort later; which attributes are datetimes is said
beside them.
"""

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final, TypeAlias, cast

from perdure.core.errors import InvalidArgument
from perdure.core.events import Attribute
from perdure.core.texts import fault_of_text
from perdure.sdk.options import identifier

AttributeValue: TypeAlias = str | int | float | bool | datetime | list[str]
"""What an attribute can be. Datetimes are aware; they come back in UTC."""

INT_MAX: Final = 2**63 - 1


def written(given: object, what: str, *, unset: bool = False) -> tuple[dict[str, Attribute], tuple[str, ...]]:
    """Attributes as events carry them, and the names of those that are datetimes. With `unset`, None is a value that takes one away.

    Raises `InvalidArgument` naming the attribute for what can be none. How many there may be and how large is the owner's to say.
    """
    if not isinstance(given, Mapping):
        raise InvalidArgument(f"{what} must be a mapping of names to values, not a {type(given).__name__}")
    items = cast("Mapping[object, object]", given)
    attributes: dict[str, Attribute] = {}
    datetimes: list[str] = []
    for key, value in items.items():
        name = identifier(cast("str", key), "attribute")
        if value is None and unset:
            attributes[name] = None
            continue
        attributes[name] = _written(value, f"{what}[{name!r}]")
        if isinstance(value, datetime):
            datetimes.append(name)
    return attributes, tuple(datetimes)


def read(attributes: Mapping[str, Attribute], datetimes: Iterable[str]) -> dict[str, AttributeValue]:
    """The other way round: datetimes as aware ones."""
    times = frozenset(datetimes)
    return {name: _read(value, name in times) for name, value in attributes.items() if value is not None}


def _read(value: str | float | bool | list[str], is_datetime: bool) -> AttributeValue:
    if is_datetime and isinstance(value, str):
        return datetime.fromisoformat(value)
    return list(value) if isinstance(value, list) else value


def _written(value: object, what: str) -> Attribute:
    match value:
        case bool():
            return value
        case int():
            return _whole(value, what)
        case float():
            return _finite(value, what)
        case str():
            return _text(value, what)
        case datetime():
            return _moment(value, what)
        case list():
            return _texts(cast("list[object]", value), what)
        case _:
            raise InvalidArgument(
                f"{what} must be str, int, float, bool, an aware datetime or a list of str, not a {type(value).__name__}"
            )


def _whole(value: int, what: str) -> int:
    if not -INT_MAX <= value <= INT_MAX:
        raise InvalidArgument(f"{what} must be a whole number of at most 63 bits")
    return int.__int__(value)


def _finite(value: float, what: str) -> float:
    if not math.isfinite(value):
        raise InvalidArgument(f"{what} must be a finite number, not {value!r}")
    return float.__float__(value)


def _moment(value: datetime, what: str) -> str:
    if value.utcoffset() is None:
        raise InvalidArgument(f"{what} must be an aware datetime (with a timezone), not {value!r}")
    try:
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    except OverflowError:
        raise InvalidArgument(f"{what} lies outside of the years 1 to 9999 in UTC: {value!r}") from None


def _text(value: str, what: str) -> str:
    if fault := fault_of_text(value, len(value)):
        raise InvalidArgument(f"{what} {fault}")
    return str.__str__(value)


def _texts(values: list[object], what: str) -> list[str]:
    texts: list[str] = []
    for place, item in enumerate(values):
        if not isinstance(item, str):
            raise InvalidArgument(f"{what}[{place}] must be str, not a {type(item).__name__}")
        texts.append(_text(item, f"{what}[{place}]"))
    return texts
