"""The page about limits lists each of them, in order, with its default."""

import re
from pathlib import Path

from perdure import Limits

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "limits.md").read_text(encoding="utf-8")


def test_every_limit_stands_there_with_its_default() -> None:
    """Names and numbers are those of the code."""
    listed = re.findall(r"^\| `(\w+)` \| ([\d.,]+|True|False) \| .+ \|$", PAGE, re.MULTILINE)
    limits = Limits()
    assert listed == [(name, _shown(getattr(limits, name))) for name in limits.__struct_fields__]


def _shown(value: bool | float) -> str:
    return str(value) if isinstance(value, bool) else f"{value:,}"
