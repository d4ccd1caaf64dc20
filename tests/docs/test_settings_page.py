"""The page about settings lists each of them, in order, with its default, its variable and what the tree says of it."""

import ast
import json
import re
from datetime import timedelta
from pathlib import Path

from perdure.runtime.durations import spelled
from perdure.runtime.settings.outline import LEAVES, Leaf

SRC = Path(__file__).parents[2] / "src" / "perdure"
LIMITS = {
    "limits": SRC / "core" / "limits.py",
    "http": SRC / "runtime" / "http_limits.py",
    "wire": SRC / "runtime" / "wire_limits.py",
}
"""Sections whose fields are described where they are defined."""
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"


def field_docs(path: Path) -> dict[str, str]:
    """The text below each field of the only struct of a file; fields without one share that of the next."""
    (struct,) = (node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef))
    found: dict[str, str] = {}
    waiting: list[str] = []
    for node in struct.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            waiting.append(node.target.id)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and waiting:
            found |= dict.fromkeys(waiting, " ".join(str(node.value.value).split()).rstrip("."))
            waiting = []
    return found


DOCS = {section: field_docs(path) for section, path in LIMITS.items()}


def row(leaf: Leaf) -> str:
    default = spelled(leaf.default) if isinstance(leaf.default, timedelta) else leaf.default
    shown = "" if "*" in leaf.path else f"`{json.dumps(default)}`"
    return (
        f"| `{'.'.join(leaf.path).replace('*', 'NAME')}` | {shown} | {leaf.description or DOCS[leaf.path[0]][leaf.path[-1]]} |"
    )


def test_every_setting_stands_there() -> None:
    """Write the page's table anew from this list when it differs."""
    listed = re.findall(r"^\| `\w+\.[\w.]+` \|.*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert listed == [row(leaf) for leaf in LEAVES.values()]
