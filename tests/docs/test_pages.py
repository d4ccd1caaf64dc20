"""The documentation runs: the Python blocks of each page, put together, are a program that prints what its `# →` comments say.

A block that begins with `# file: NAME.py` is a file of that name beside the program.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(path for folder in (".", "how-to", "concepts") for path in (DOCS / folder).glob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# file: (\w+\.py)\n")
OUTPUT = re.compile(r"# → (.*)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
TOLD = re.compile(
    r"activity \w+ of workflow '[^']+' failed at attempt \d+: |the connection to \S+ is gone \(.*\); connecting again$"
    r"|new starts are refused: "
)
"""What is told of attempts that fail and servers that go away; some pages have that on purpose."""


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def program(page: Path) -> str:
    return "\n\n".join(block for block in blocks(page) if not FILE.match(block))


def files(page: Path) -> dict[str, str]:
    return {found[1]: block for block in blocks(page) if (found := FILE.match(block))}


PROGRAMS = [page for page in PAGES if "# →" in program(page)]


def test_pages_have_code() -> None:
    """Guards the tests below against passing over nothing."""
    assert len(PROGRAMS) >= 8


@pytest.mark.parametrize("page", PROGRAMS, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    """It ends by itself, without a warning, and its output is its `# →` comments, line by line."""
    source = program(page)
    for name, text in {**files(page), "page.py": source}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "page.py"], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == OUTPUT.findall(source)
    assert [line for line in done.stderr.splitlines() if not TOLD.match(line)] == []


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    """Relative links point at files that exist."""
    for link in LINK.findall(re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)):
        assert (page.parent / link).exists(), link


@pytest.mark.parametrize("page", sorted((DOCS / "how-to").glob("*.md")), ids=lambda page: page.stem)
def test_a_how_to_shows_code_that_runs(page: Path) -> None:
    """A how-to without a program would only be claimed."""
    assert page in PROGRAMS


def test_every_page_is_built(tmp_path: Path) -> None:
    """The site builds, every warning being an error: no page outside the menu, no broken reference."""
    pytest.importorskip("sphinx")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "sphinx",
            "-q",
            "-W",
            "--keep-going",
            "-d",
            str(tmp_path / "doctrees"),
            str(DOCS),
            str(tmp_path / "html"),
        ],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for page in ("index", "quickstart", "how-to/activities", "concepts/failure-model"):
        assert (tmp_path / "html" / f"{page}.html").stat().st_size > 2_000
