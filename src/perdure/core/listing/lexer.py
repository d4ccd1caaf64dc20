"""A list query cut into tokens. Nothing is known here of what they mean together."""

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from perdure.core.errors import InvalidArgument

QUERY_CHARS_MAX: Final = 10_000
"""Characters of a query."""

TokenKind = Literal["word", "name", "text", "number", "symbol", "end"]


class Token(NamedTuple):
    """`text` is what it stands for: quotes are taken off. `column` counts characters from 1."""

    kind: TokenKind
    text: str
    column: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text)


_TOKEN: Final = re.compile(
    r"""
    (?P<space>   [ \t\r\n]+ )
  | (?P<number>  [-+]?(?:\d|\.\d)[\w.]*(?:(?<=[eE])[-+]\w*)? )
  | (?P<word>    [^\W\d][\w.\-]* )
  | (?P<text>    '(?:[^']|'')*' )
  | (?P<name>    "(?:[^"]|"")*" )
  | (?P<symbol>  <= | >= | != | <> | [=<>(),] )
    """,
    re.VERBOSE,
)
_ODD: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def unreadable(message: str, column: int) -> InvalidArgument:
    """The error for a query that is none."""
    return InvalidArgument(f"the query cannot be read at column {column}: {message}", column=column)


def tokens_of(query: str) -> Iterator[Token]:
    """The tokens of a query, the last of kind `end`. Raises `InvalidArgument` with the column of what is none."""
    if len(query) > QUERY_CHARS_MAX:
        raise unreadable(f"it is longer than {QUERY_CHARS_MAX:,} characters", QUERY_CHARS_MAX + 1)
    if odd := _ODD.search(query):
        raise unreadable("there is a character that is no text", odd.start() + 1)
    position = 0
    while position < len(query):
        found = _TOKEN.match(query, position)
        if found is None:
            raise _no_token(query, position)
        kind, text = found.lastgroup, found[0]
        if kind != "space":
            yield Token(kind, _unquoted(text), position + 1)  # type: ignore[arg-type]
        position = found.end()
    yield Token("end", "", len(query) + 1)


def _unquoted(text: str) -> str:
    quote = text[0]
    return text[1:-1].replace(quote * 2, quote) if quote in "'\"" else text


def _no_token(query: str, position: int) -> InvalidArgument:
    character = query[position]
    if character in "'\"":
        return unreadable(f"the {character} is not closed", position + 1)
    return unreadable(f"{character!r} means nothing here", position + 1)
