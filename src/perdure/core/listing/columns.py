"""What a list query can speak of: the columns of a run, its attributes, and the kinds of values they hold."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from perdure.core.events import Attribute

Kind = Literal["text", "number", "flag", "time", "list"]
"""`flag` is true or false; `time` an instant in microseconds; `list` one entry of a list of texts."""

Value: TypeAlias = str | int | float | bool


class Cell(NamedTuple):
    """One value of a row, or one that a query compares with. An entry of a list is a cell of its own."""

    kind: Kind
    value: Value | None
    """None stands for the list itself, so that an empty one is not nothing."""


class Column(Struct, frozen=True, gc=False):
    """A column, or with kind None the attribute of that name."""

    name: str
    kind: Kind | None = None

    def __str__(self) -> str:
        return f"attr.{self.name}" if self.kind is None else self.name


COLUMNS: Final[dict[str, Column]] = {
    column.name: column
    for column in (
        Column("workflow_id", "text"),
        Column("run_id", "text"),
        Column("type", "text"),
        Column("status", "text"),
        Column("queue", "text"),
        Column("started_at", "time"),
        Column("closed_at", "time"),
        Column("length", "number"),
        Column("parent", "text"),
        Column("build", "text"),
    )
}
"""By the name a query gives them. `closed_at`, `parent` and `build` may have no value."""

WHOLE_MAX: Final = 2**63 - 1
"""Whole numbers lie between minus this and this."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def instant_of(text: str) -> int | None:
    """Microseconds since the epoch of an ISO 8601 date or time, UTC unless it says otherwise; None for text that is none."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    aware = moment.replace(tzinfo=UTC) if moment.utcoffset() is None else moment
    return (aware - _EPOCH) // timedelta(microseconds=1)


def cells_of(attribute: Attribute, *, is_datetime: bool) -> Sequence[Cell]:
    """The cells of an attribute as a run holds it."""
    if attribute is None:
        return ()
    if isinstance(attribute, list):
        return (Cell("list", None), *(Cell("list", entry) for entry in attribute))
    if isinstance(attribute, str):
        instant = instant_of(attribute) if is_datetime else None
        return (Cell("text", attribute),) if instant is None else (Cell("time", instant),)
    if isinstance(attribute, bool):
        return (Cell("flag", attribute),)
    if isinstance(attribute, int) and not -WHOLE_MAX <= attribute <= WHOLE_MAX:
        return (Cell("text", str(attribute)),)  # no client can set one; it must only break nothing
    return (Cell("number", attribute),)
