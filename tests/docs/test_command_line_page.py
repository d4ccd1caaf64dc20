"""The page about the command line lists every command there is, once, and none that is not."""

import re
from collections.abc import Iterator
from pathlib import Path

from cyclopts import App

from perdure.cli.app import build

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(perdure(?: [a-z][a-z-]*)+)(?: [^`]*)?` \|", re.MULTILINE)


def commands(app: App, path: str = "perdure") -> Iterator[str]:
    """Every command that does something, as it is typed."""
    names = [name for name in app if not name.startswith("-")]
    if not names:
        yield path
    for name in names:
        yield from commands(app[name], f"{path} {name}")


def test_every_command_is_listed_once() -> None:
    """What `--help` leads to is what the page lists."""
    listed = ROW.findall(PAGE)
    assert len(listed) > 20
    assert sorted(listed) == sorted(commands(build()))
