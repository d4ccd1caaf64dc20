"""Attributes as they are after some were set: the one rule, for the fold, for what a successor is given, and for running code."""

from collections.abc import Mapping

from perdure.core.commands import SetAttributes
from perdure.core.events import Attribute, AttributesSet


def merged(
    attributes: Mapping[str, Attribute], datetimes: tuple[str, ...], change: AttributesSet | SetAttributes
) -> tuple[dict[str, Attribute], tuple[str, ...]]:
    """`attributes` with `change` on top, where None takes one away; and the names of those that are datetimes. Changes neither."""
    both = {**attributes, **change.attributes}
    kept: dict[str, Attribute] = {name: value for name, value in both.items() if value is not None}
    named = {*datetimes} - change.attributes.keys() | {*change.datetimes}
    return kept, tuple(sorted(named & kept.keys()))


def beyond(attributes: Mapping[str, Attribute], count_max: int, bytes_max: int) -> str:
    """Why these are too many for one run or one of them is too large, naming the limit; empty when they are not."""
    if len(attributes) > count_max:
        return f"{len(attributes)} attributes; the limit (attributes_max) is {count_max}"
    for name, value in attributes.items():
        if (size := _size_of(value)) > bytes_max:
            return f"an attribute {name!r} that is {size} bytes long; the limit (attribute_bytes_max) is {bytes_max}"
    return ""


def bytes_of(attributes: Mapping[str, Attribute]) -> int:
    """Roughly what attributes take where they are written."""
    return sum(len(name) + _size_of(value) for name, value in attributes.items())


def _size_of(value: Attribute) -> int:
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode(errors="surrogatepass"))
    return sum(_size_of(text) + 1 for text in value) if isinstance(value, list) else 8
