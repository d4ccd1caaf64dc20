"""The page about limits lists each of them, in order, with its default."""

import re
from pathlib import Path

from perdure import Limits

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "limits.md").read_text(encoding="utf-8")


def test_every_limit_stands_there_with_its_default() -> None:
    """Names and numbers are those of the code."""
    listed = re.findall(r"^\| `(\w+)` \| ([\d.,]+) \| .+ \|$", PAGE, re.MULTILINE)
    limits = Limits()
    assert listed == [(name, f"{getattr(limits, name):,}") for name in limits.__struct_fields__]
