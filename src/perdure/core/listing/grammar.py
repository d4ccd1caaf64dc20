"""From the text of a list query to a condition.

    query      = [ some ]
    some       = all { "or" all }
    all        = one { "and" one }
    one        = "not" one | "(" some ")" | comparison
    comparison = column ( ("=" | "!=" | "<>" | "<" | "<=" | ">" | ">=" | "starts_with") value
                        | ["not"] "in" "(" value { "," value } ")"
                        | "is" ["not"] "null" )
    column     = "workflow_id" | "status" | … | "attr." NAME | 'attr."' ANY NAME '"'
    value      = 'text' | number | "true" | "false"

Words of the language may be in capitals. A quote within quotes is doubled. Times are ISO 8601 text, UTC unless they say otherwise.
"""

import math
from functools import lru_cache
from typing import Final, get_args

from perdure.core.errors import InvalidArgument
from perdure.core.ids import fault_of_id
from perdure.core.listing.columns import COLUMNS, WHOLE_MAX, Cell, Column, instant_of
from perdure.core.listing.condition import EVERYTHING, All, Compare, Condition, HasValue, Not, Operator, Some
from perdure.core.listing.lexer import Token, tokens_of, unreadable
from perdure.core.replies import Status

TERMS_MAX: Final = 500
"""Comparisons in one query; each value of an `in (…)` is one."""
DEPTH_MAX: Final = 50
"""Parentheses and `not` within one another."""

STATUSES: Final = get_args(Status)
_OPERATORS: Final[dict[str, Operator]] = {"=": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "starts_with": "starts_with"}
_RESERVED: Final = frozenset({"and", "or", "not", "in", "is", "null", "true", "false", "starts_with"})
_WANTED: Final = "a comparison: =, !=, <, <=, >, >=, in, starts_with, is null"


@lru_cache(maxsize=256)
def parse(query: str) -> Condition:
    """The condition a query stands for; everything for an empty one.

    Raises `InvalidArgument` with a 1-based `column` for text that is no query, or one past `QUERY_CHARS_MAX`, `TERMS_MAX`, `DEPTH_MAX`.
    """
    return _Parser(query).query()


class _Parser:
    """Goes through the tokens once, from left to right."""

    def __init__(self, query: str) -> None:
        self._tokens = list(tokens_of(query))
        self._next = 0
        self._terms = 0
        self._depth = 0

    # ---------------------------------------------------------------------------------------------------------- tokens

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _is_at_end(self) -> bool:
        return self._token.kind == "end"

    def _take(self) -> Token:
        token = self._tokens[self._next]
        if token.kind != "end":
            self._next += 1
        return token

    def _took(self, *texts: str) -> Token | None:
        """The next token, taken, if it is one of these words or symbols."""
        token = self._token
        if (token.kind == "symbol" and token.text in texts) or (token.kind == "word" and token.text.lower() in texts):
            return self._take()
        return None

    def _expect(self, text: str) -> None:
        if self._took(text) is None:
            raise self._unlike_wanted(f"{text!r}")

    def _unlike_wanted(self, wanted: str) -> InvalidArgument:
        return unreadable(f"there should be {wanted}, not {self._token}", self._token.column)

    # --------------------------------------------------------------------------------------------------------- grammar

    def query(self) -> Condition:
        if self._is_at_end():
            return EVERYTHING
        condition = self._some()
        if not self._is_at_end():
            raise self._unlike_wanted("'and', 'or' or the end")
        return condition

    def _some(self) -> Condition:
        parts = [self._all()]
        while self._took("or"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else Some(tuple(parts))

    def _all(self) -> Condition:
        parts = [self._one()]
        while self._took("and"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _one(self) -> Condition:
        opening = self._took("not", "(")
        if opening is None:
            return self._comparison()
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise unreadable(f"more than {DEPTH_MAX} parentheses and 'not' within one another", opening.column)
        if opening.text == "(":
            condition = self._some()
            self._expect(")")
        else:
            condition = Not(self._one())
        self._depth -= 1
        return condition

    def _comparison(self) -> Condition:
        column = self._column()
        if self._took("is"):
            negated = self._took("not")
            self._expect("null")
            self._count(self._token)
            return HasValue(column) if negated else Not(HasValue(column))
        if self._took("not"):
            self._expect("in")
            return _unlike(column, self._values(column))
        if self._took("in"):
            return self._values(column)
        if self._took("!=", "<>"):
            return _unlike(column, self._compare(column, "="))
        operator = self._took(*_OPERATORS)
        if operator is None:
            raise self._unlike_wanted(_WANTED)
        return self._compare(column, _OPERATORS[operator.text.lower()])

    def _column(self) -> Column:
        token = self._take()
        if token.kind != "word" or token.text.lower() in _RESERVED:
            raise unreadable(f"there should be a column, not {token}", token.column)
        if token.text.startswith("attr."):
            return self._attribute(token)
        column = COLUMNS.get(token.text)
        if column is None:
            raise unreadable(f"there is no column {token.text!r}; there are {', '.join(COLUMNS)} and attr.NAME", token.column)
        return column

    def _attribute(self, token: Token) -> Column:
        name = token.text.removeprefix("attr.")
        if not name and self._token.kind == "name":
            name = self._take().text
        fault = fault_of_id(name)
        if fault is not None:
            raise unreadable(f"the name of an attribute {fault}", token.column + len("attr."))
        return Column(name)

    def _values(self, column: Column) -> Condition:
        self._expect("(")
        parts: list[Condition] = [self._compare(column, "=")]
        while self._took(","):
            parts.append(self._compare(column, "="))
        self._expect(")")
        return parts[0] if len(parts) == 1 else Some(tuple(parts))

    def _compare(self, column: Column, operator: Operator) -> Compare:
        token = self._take()
        self._count(token)
        return Compare(column, operator, _operands(column, operator, token))

    def _count(self, token: Token) -> None:
        self._terms += 1
        if self._terms > TERMS_MAX:
            raise unreadable(f"more than {TERMS_MAX} comparisons", token.column)


def _unlike(column: Column, condition: Condition) -> Condition:
    return All((HasValue(column), Not(condition)))


# ------------------------------------------------------------------------------------------------------------------ values


def _operands(column: Column, operator: Operator, token: Token) -> tuple[Cell, ...]:
    """What a column is compared with: one cell for each kind of value it may hold."""
    literal = _literal(token)
    if operator == "starts_with" and (literal.kind != "text" or column.kind not in (None, "text")):
        raise unreadable(f"only text starts with something, and only text: {column} starts_with {token}", token.column)
    if literal.kind == "flag" and operator != "=":
        raise unreadable(f"{token.text} can only be compared with = and !=", token.column)
    if column.kind is None:
        return _any_kind(literal, operator)
    return (_of_column(column, operator, literal, token),)


def _any_kind(literal: Cell, operator: Operator) -> tuple[Cell, ...]:
    if literal.kind != "text":
        return (literal,)
    text = str(literal.value)
    cells = [literal]
    if operator in ("=", "starts_with"):
        cells.append(Cell("list", text))
    if operator != "starts_with" and (instant := instant_of(text)) is not None:
        cells.append(Cell("time", instant))
    return tuple(cells)


def _of_column(column: Column, operator: Operator, literal: Cell, token: Token) -> Cell:
    if column.kind == "time" and literal.kind == "text":
        instant = instant_of(token.text)
        if instant is None:
            raise unreadable(f"{token} is no date or time in ISO 8601 (2026-01-31, 2026-01-31T12:00:00Z)", token.column)
        return Cell("time", instant)
    if literal.kind != column.kind:
        wanted = {"text": "text in 'single quotes'", "time": "a time as text in 'single quotes'", "number": "a number"}
        raise unreadable(
            f"{column} is compared with {wanted.get(str(column.kind), column.kind)}, not with {token}", token.column
        )
    if column.name == "status" and operator == "=" and token.text not in STATUSES:
        raise unreadable(f"there is no status {token}; there are {', '.join(STATUSES)}", token.column)
    return literal


def _literal(token: Token) -> Cell:
    if token.kind == "text":
        return Cell("text", token.text)
    if token.kind == "number":
        return Cell("number", _number(token))
    if token.kind == "word" and token.text.lower() in ("true", "false"):
        return Cell("flag", token.text.lower() == "true")
    hint = f"; text stands in single quotes: '{token.text}'" if token.kind in ("word", "name") and "'" not in token.text else ""
    raise unreadable(f"there should be a value, not {token}{hint}", token.column)


def _number(token: Token) -> int | float:
    text = token.text
    try:
        if text.lstrip("+-").isdigit():
            whole = int(text)
            if -WHOLE_MAX <= whole <= WHOLE_MAX:
                return whole
        elif "_" not in text and math.isfinite(number := float(text)):
            return number
    except ValueError:
        raise unreadable(f"{token} is no number", token.column) from None
    raise unreadable(f"{token} is too large, or no number", token.column)
