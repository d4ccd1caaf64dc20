"""The page about errors lists each class with its code."""

import re
from pathlib import Path

from perdure.core.errors import ERRORS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")


def test_every_error_stands_there_with_its_code() -> None:
    """In the order of the code, base first."""
    assert re.findall(r"^\| `(\w+)` \| `(\w+)` \| .+ \|$", PAGE, re.MULTILINE) == [(e.__name__, e.code) for e in ERRORS]
