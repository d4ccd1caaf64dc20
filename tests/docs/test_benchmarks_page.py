"""The page of benchmarks: figures with the machine they are of, how each was measured, and the command's own output."""

import re
from pathlib import Path

import pytest

from perdure.bench import embedded

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
OUTPUT = re.compile(r"<!-- begin: (perdure [^>]+) -->\n(.*?)<!-- end -->", re.DOTALL)


def labels(text: str) -> list[str]:
    """First cells of all rows, numbers left out."""
    cells = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")]
    return [re.sub(r"[\d,.]+", "#", cell) for cell in cells if not set(cell) <= set("- :")]


@pytest.mark.rule("O38")
def test_what_is_shown_is_what_the_command_prints(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The page holds a whole report: each row the command prints today, the machine before all figures."""
    (shown,) = [output for command, output in OUTPUT.findall(PAGE) if command.startswith("perdure bench embedded")]
    small = {"workflows": 20, "repeats": 1, "in_flight": 8, "long_run": 30, "parked": 20}
    embedded.main(**small, data=tmp_path, output="markdown")  # type: ignore[arg-type]
    printed = [label for label in labels(capsys.readouterr().out) if not label.startswith("lowest")]  # of several repeats
    missing = [label for label in printed if label not in labels(shown)]
    assert missing == []
    assert len(printed) > 25
    head = shown[: shown.index("| workflows |")]
    assert re.search(r"CPU \| .*\d+ cores", head)
    for row in ("memory", "filesystem", "system", "Python", "perdure"):
        assert re.search(rf"\| {row} \| \S+", head), row


@pytest.mark.rule("O38")
def test_every_figure_says_how_it_was_measured() -> None:
    """What stands in the report has its row in the table of methods."""
    (shown,) = [output for command, output in OUTPUT.findall(PAGE) if command.startswith("perdure bench embedded")]
    methods = PAGE[PAGE.index("## What each figure is") :]
    for figure in ("one client", "workflows/s", "commits per workflow", "fdatasyncs per workflow", "bare model", "memory"):
        assert figure in shown
        assert f"\n| {figure}" in methods, figure
