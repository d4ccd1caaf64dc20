"""The README's code runs as it stands there, in a process and a folder of its own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OUTPUT = re.compile(r"# → (.*)$", re.MULTILINE)
BLOCKS = BLOCK.findall(README)


def test_readme_has_code() -> None:
    """Guards the test below against passing over nothing."""
    assert BLOCKS


@pytest.mark.parametrize("source", BLOCKS, ids=[f"block-{n}" for n in range(1, len(BLOCKS) + 1)])
def test_code_of_the_readme_runs(source: str, tmp_path: Path) -> None:
    """Each Python block is a whole program, ends by itself and prints what its `# →` comments say."""
    program = tmp_path / "example.py"
    program.write_text(source, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", program.name], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == OUTPUT.findall(source)


def test_first_screen_shows_little_code() -> None:
    """Twenty lines are enough to see what it is."""
    assert len(BLOCKS[0].strip().splitlines()) <= 20


@pytest.mark.parametrize("target", sorted(set(re.findall(r"`make ([a-z-]+)", README))))
def test_commands_of_the_readme_exist(target: str) -> None:
    """Every `make …` named in the README is a target of the Makefile."""
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", README))))
def test_links_of_the_readme_lead_somewhere(link: str) -> None:
    """Relative links point at files that exist."""
    assert (ROOT / link).exists()
