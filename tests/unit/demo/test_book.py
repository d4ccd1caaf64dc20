"""A book keeps what it took, and opens whatever a crash left of it."""

import json
from pathlib import Path

import pytest

from perdure.demo.book import Book


def test_what_was_appended_is_there_when_opened_again(tmp_path: Path) -> None:
    """Lines come back in order, and more can follow."""
    path = tmp_path / "book.jsonl"
    for number in range(3):
        book = Book(path)
        assert [line["n"] for line in book.lines] == list(range(number))
        book.append({"n": number})
        book.close()


def test_any_cut_of_the_last_line_loses_that_line_alone(tmp_path: Path) -> None:
    """Cut at every byte of the last line: the lines before stay, and the next append makes a whole line."""
    whole = b'{"n":0}\n{"n":1}\n'
    for cut in range(8, len(whole)):
        path = tmp_path / f"{cut}.jsonl"
        path.write_bytes(whole[:cut])
        book = Book(path)
        assert [line["n"] for line in book.lines] == [0]
        book.append({"n": 2}, {"n": 3})
        book.close()
        assert [json.loads(line)["n"] for line in path.read_bytes().splitlines()] == [0, 2, 3]


def test_a_bad_line_in_the_middle_is_not_passed_over(tmp_path: Path) -> None:
    """A book that was damaged is not opened."""
    path = tmp_path / "book.jsonl"
    path.write_bytes(b'{"n":0}\nrubbish\n{"n":1}\n')
    with pytest.raises(ValueError, match="Expecting value"):
        Book(path)
