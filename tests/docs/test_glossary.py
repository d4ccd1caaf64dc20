"""One word, one meaning: the glossary defines each word once."""

import re
from collections import Counter
from pathlib import Path

GLOSSARY = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| \*\*(.+?)\*\* \| (.+?) \| (.*?) ?\|$", re.MULTILINE)
ROWS = ROW.findall(GLOSSARY)


def words(cell: str) -> list[str]:
    """A cell may name several words at once: `cancel / terminate`."""
    return [word.strip() for word in cell.split(" / ")]


def test_every_row_is_read() -> None:
    """Guards against a row whose form the pattern above does not know."""
    lines = [line for line in GLOSSARY.splitlines() if line.startswith("|") and not line.startswith(("| word", "|---"))]
    assert len(lines) == len(ROWS) > 40


def test_each_word_is_defined_once() -> None:
    """A second definition would be a second meaning."""
    counts = Counter(word for cell, _, _ in ROWS for word in words(cell))
    assert [word for word, n in counts.items() if n > 1] == []


def test_each_definition_says_something() -> None:
    """No empty meanings, and no meaning given to two words."""
    meanings = Counter(meaning for _, meaning, _ in ROWS)
    assert [meaning for meaning, n in meanings.items() if n > 1 or len(meaning) < 15] == []
