"""The page about settings lists each of them, in order, with its default, its variable and what the tree says of it."""

import json
import re
from datetime import timedelta
from pathlib import Path

from perdure.runtime.durations import spelled
from perdure.runtime.settings.outline import LEAVES, Leaf

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"
OF_LIMITS = "a [limit](limits.md)"


def row(leaf: Leaf) -> str:
    default = spelled(leaf.default) if isinstance(leaf.default, timedelta) else leaf.default
    shown = "" if "*" in leaf.path else f"`{json.dumps(default)}`"
    return f"| `{'.'.join(leaf.path).replace('*', 'NAME')}` | {shown} | {leaf.description or OF_LIMITS} |"


def test_every_setting_stands_there() -> None:
    """Write the page's table anew from this list when it differs."""
    listed = re.findall(r"^\| `\w+\.[\w.]+` \|.*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert listed == [row(leaf) for leaf in LEAVES.values()]
