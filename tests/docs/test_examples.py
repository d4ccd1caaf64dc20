"""Every example runs as a reader would run it, and prints what its comments say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))
OUTPUT = re.compile(r"# → (.*)$", re.MULTILINE)
TOLD = re.compile(r"activity \w+ of workflow '[^']+' failed at attempt \d+: ")
"""What a node tells of attempts that fail; some examples fail on purpose."""


def test_there_are_examples() -> None:
    """Guards the tests below against passing over nothing."""
    assert len(EXAMPLES) >= 5


@pytest.mark.rule("F27")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example: Path, tmp_path: Path) -> None:
    """It ends by itself, without a warning, and its output is its `# →` comments, line by line."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == OUTPUT.findall(example.read_text(encoding="utf-8"))
    assert [line for line in done.stderr.splitlines() if not TOLD.match(line)] == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short(example: Path) -> None:
    """One screen."""
    assert len(example.read_text(encoding="utf-8").splitlines()) <= 60
