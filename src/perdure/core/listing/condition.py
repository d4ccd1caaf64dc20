"""What a list query says, as a tree, and whether it holds for one row.

Every condition is true or false, never unknown: a comparison with a column that has no value, or one of another kind, is false, and
`not` turns false into true. What reads as one operator is put together from few: `!=` is "has a value, and not =".
"""

from collections.abc import Callable, Sequence
from operator import eq, ge, gt, le, lt
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from perdure.core.listing.columns import Cell, Column

Operator = Literal["=", "<", "<=", ">", ">=", "starts_with"]

Cells: TypeAlias = Callable[[Column], Sequence[Cell]]
"""The cells of a row's column; none where it has no value."""


class Compare(Struct, frozen=True):
    """One of the row's cells stands to one of the operands of its own kind as the operator says."""

    column: Column
    operator: Operator
    operands: tuple[Cell, ...]


class HasValue(Struct, frozen=True):
    column: Column


class Not(Struct, frozen=True):
    part: "Condition"


class All(Struct, frozen=True):
    """True when every part is; without parts it is true."""

    parts: "tuple[Condition, ...]"


class Some(Struct, frozen=True):
    """True when a part is."""

    parts: "tuple[Condition, ...]"


Condition: TypeAlias = Compare | HasValue | Not | All | Some

EVERYTHING: Final = All(())
"""The condition of an empty query."""


def _starts_with(value: str, start: str) -> bool:
    return value.startswith(start)


_OPERATORS: Final[dict[Operator, Callable[[Any, Any], bool]]] = {
    "=": eq,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
    "starts_with": _starts_with,
}


def holds(condition: Condition, cells: Cells) -> bool:
    """Whether `condition` is true of the row whose cells those are."""
    match condition:
        case Compare():
            return _compares(condition, cells(condition.column))
        case HasValue(column):
            return bool(cells(column))
        case Not(part):
            return not holds(part, cells)
        case All(parts):
            return all(holds(part, cells) for part in parts)
        case Some(parts):
            return any(holds(part, cells) for part in parts)


def _compares(condition: Compare, cells: Sequence[Cell]) -> bool:
    compare = _OPERATORS[condition.operator]
    return any(
        cell.kind == operand.kind and cell.value is not None and compare(cell.value, operand.value)
        for cell in cells
        for operand in condition.operands
    )
