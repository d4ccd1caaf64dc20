"""Printing data on standard output: JSON for programs, words and tables for people."""

import shutil
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import json

from perdure.cli.exits import shown
from perdure.cli.options import Format

_encode: Final = json.Encoder().encode


def emit(value: object, output: Format) -> None:
    """One JSON document: indented, or with jsonl on one line."""
    text = _encode(value)
    write(json.format(text, indent=2) if output == "json" else json.format(text, indent=-1))


def write(line: bytes) -> None:
    """A line as it is. Bytes, so that no locale has a say."""
    sys.stdout.flush()
    sys.stdout.buffer.write(line.rstrip(b"\n") + b"\n")
    sys.stdout.buffer.flush()


def text(line: str) -> None:
    """A line for people."""
    write(shown(line).encode(errors="backslashreplace"))


def compact(value: Any) -> str:
    """A value on one line; a failure by its class and message."""
    kind, message = getattr(value, "type", None), getattr(value, "message", None)
    if isinstance(kind, str) and isinstance(message, str):
        return f"{kind}: {message}".rstrip(": ").replace("\n", " ")
    if isinstance(value, str) and value and value.isprintable() and " " not in value:
        return value
    from perdure.sdk.views import data

    return json.format(_encode(data(value)), indent=-1).decode()


def moment(instant: datetime | None, empty: str = "") -> str:
    """A time for people, to the second, in UTC."""
    return f"{instant:%Y-%m-%d %H:%M:%S}Z" if instant is not None else empty


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Columns; on a terminal drawn by rich, else padded with blanks."""
    lines = [[shown(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
    if sys.stdout.isatty():
        _draw(head, lines, sum(widths) + 2 * len(widths))
        return
    for line in (head, *lines):
        text("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _draw(head: Sequence[str], lines: Sequence[Sequence[str]], width: int) -> None:
    """As wide as it needs to be: an id that is folded into its column cannot be copied out of it."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
    for name in head:
        drawn.add_column(name, no_wrap=True)
    for line in lines:
        drawn.add_row(*map(Text, line))
    Console(highlight=False, width=max(shutil.get_terminal_size().columns, width)).print(drawn)
