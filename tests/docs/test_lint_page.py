"""The page about `perdure lint` names every rule with what the rule itself says; code in the documentation breaks none."""

import re
from pathlib import Path

import pytest

from perdure.lint.linter import lint
from perdure.lint.rules import RULES

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_page_lists_every_rule_in_its_own_words() -> None:
    """Name, code, why and mend stand in the table as they stand in the code."""
    page = (ROOT / "docs" / "reference" / "lint.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \| (PD\d+) \| (.+?) \| (.+?) \|$", page, re.MULTILINE)
    assert rows == [(rule.name, rule.code, rule.why, rule.mend) for rule in RULES.values()]


@pytest.mark.parametrize("page", PAGES, ids=[page.relative_to(ROOT).as_posix() for page in PAGES])
def test_code_in_pages_breaks_no_rule(page: Path, tmp_path: Path) -> None:
    """Every block of Python that shows a workflow is clean, but for the page that shows what is wrong."""
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    for number, block in enumerate(blocks):
        if "# wrong" not in block and "@workflow" in block:
            head = "" if "import" in block.partition("@")[0] else "import asyncio\nfrom perdure import activity, workflow\n"
            (tmp_path / f"block_{number}.py").write_text(head + block, encoding="utf-8")
    if any(tmp_path.iterdir()):
        assert lint([str(tmp_path)]) == []
