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


def bytes_of(attributes: Mapping[str, Attribute]) -> int:
    """Roughly what attributes take where they are written."""
    return sum(len(name) + len(str(value)) for name, value in attributes.items())
