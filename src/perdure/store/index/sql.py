"""A list query's condition as SQL: parameters only, nothing of a query is ever pasted into the text. Says exactly what `condition.holds` says."""

from typing import Final

from perdure.core.listing.columns import Cell, Column, Value
from perdure.core.listing.condition import All, Compare, Condition, HasValue, Not, Some

_COLUMNS: Final = {
    "workflow_id": "runs.workflow_id",
    "run_id": "runs.run_id",
    "type": "runs.type",
    "status": "runs.status",
    "queue": "runs.queue",
    "started_at": "runs.started_at",
    "closed_at": "runs.closed_at",
    "length": "runs.length",
    "parent": "runs.parent",
    "build": "runs.build_id",
}
_LACKING: Final = {"closed_at": "runs.closed_at != 0", "parent": "runs.parent != ''", "build": "runs.build_id != ''"}
"""When a column that may have no value has one."""
_LAST_CHARACTER: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)


def where(condition: Condition) -> tuple[str, list[Value]]:
    """SQL that is 1 or 0, never NULL, for each row of `runs`, and its parameters."""
    values: list[Value] = []
    return _sql(condition, values), values


def _sql(condition: Condition, values: list[Value]) -> str:
    match condition:
        case Compare(column):
            return _attribute(condition, values) if column.kind is None else _column(condition, values)
        case HasValue(column):
            return _has(column, values)
        case Not(part):
            return f"NOT {_sql(part, values)}"
        case All(parts):
            return _joined(" AND ", parts, values) if parts else "1"
        case Some(parts):
            return _joined(" OR ", parts, values)


def _joined(word: str, parts: tuple[Condition, ...], values: list[Value]) -> str:
    return f"({word.join([_sql(part, values) for part in parts])})"


def _has(column: Column, values: list[Value]) -> str:
    if column.kind is None:
        values.append(column.name)
        return "(runs.id IN (SELECT run FROM attributes WHERE name = ?))"
    return f"({_LACKING.get(column.name, '1')})"


def _column(condition: Compare, values: list[Value]) -> str:
    name = condition.column.name
    compared = " OR ".join([_compared(_COLUMNS[name], condition.operator, cell, values) for cell in condition.operands])
    lacking = _LACKING.get(name)
    return f"({compared} AND {lacking})" if lacking else f"({compared})"


def _attribute(condition: Compare, values: list[Value]) -> str:
    parts: list[str] = []
    for cell in condition.operands:
        values.append(condition.column.name)
        compared = _compared("value", condition.operator, cell, values)
        parts.append(f"runs.id IN (SELECT run FROM attributes WHERE name = ? AND kind = '{cell.kind}' AND {compared})")
    return f"({' OR '.join(parts)})"


def _compared(side: str, operator: str, cell: Cell, values: list[Value]) -> str:
    assert cell.value is not None
    if operator != "starts_with":
        values.append(cell.value)
        return f"{side} {operator} ?"
    start = str(cell.value)
    values.append(start)
    end = _behind(start)
    if end is None:
        return f"{side} >= ?"
    values.append(end)
    return f"({side} >= ? AND {side} < ?)"


def _behind(start: str) -> str | None:
    """The first text that sorts behind all that begin with `start`; None when there is none."""
    kept = start.rstrip(chr(_LAST_CHARACTER))
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)
