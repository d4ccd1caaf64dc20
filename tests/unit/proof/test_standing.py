"""How a rule stands follows from its tests and their last outcomes."""

import re
from pathlib import Path

from perdure.proof.catalogue import promises
from perdure.proof.marks import marked_tests
from perdure.proof.page import page
from perdure.proof.standing import Standing, standings

ROOT = Path(__file__).parents[3]

TESTS = """
import pytest

@pytest.mark.rule("O1", "O2")
@pytest.mark.scenario(2)
def test_a(): ...

@pytest.mark.rule("F1")
class TestGroup:
    async def test_b(self): ...
    def helper(self): ...

@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.rule("F2"))])
def test_c(x): ...
"""


def by_id(found: list[Standing]) -> dict[str, Standing]:
    return {standing.id if standing.kind == "rule" else f"scenario {standing.id}": standing for standing in found}


def test_the_list_is_whole() -> None:
    """Every number from 1 on, each with a title of its own."""
    rules = [promise.id for promise in promises() if promise.kind == "rule"]
    assert rules == [f"{part}{n}" for part, last in (("O", 40), ("F", 28), ("R", 88)) for n in range(1, last + 1)]
    titles = [promise.title for promise in promises()]
    assert len(set(titles)) == len(titles)
    assert all(len(title.split()) >= 3 for title in titles)
    assert {promise.needs for promise in promises() if promise.id[0] in "RF"} == {"the gateway", ""}


def test_marks_are_read_without_importing(tmp_path: Path) -> None:
    """On functions, classes, modules and single parameters."""
    (tmp_path / "test_x.py").write_text("raise SystemExit\npytestmark = pytest.mark.rule('O9')\n" + TESTS, encoding="utf-8")
    (tmp_path / "test_broken.py").write_text("pytest.mark.rule(", encoding="utf-8")
    found = marked_tests(tmp_path, tmp_path)
    every = {"test_x.py::test_a", "test_x.py::TestGroup::test_b", "test_x.py::test_c"}
    assert found == {
        ("rule", "O1"): {"test_x.py::test_a"},
        ("rule", "O2"): {"test_x.py::test_a"},
        ("scenario", "2"): {"test_x.py::test_a"},
        ("rule", "F1"): {"test_x.py::TestGroup::test_b"},
        ("rule", "F2"): {"test_x.py::test_c"},
        ("rule", "O9"): every,
    }


def test_how_a_rule_stands(tmp_path: Path) -> None:
    """A failure outweighs a pass, a pass a skip; a test that was not run is listed."""
    (tmp_path / "test_x.py").write_text(TESTS, encoding="utf-8")
    results = {
        "rule": {
            "O1": {"test_x.py::test_a": "passed", "test_y.py::test_d[1]": "failed"},
            "F2": {"test_x.py::test_c[1]": "passed", "test_x.py::test_c[2]": "skipped"},
            "O3": {"test_y.py::test_e": "skipped"},
            "Z9": {"test_y.py::test_f": "passed"},
        }
    }
    found = by_id(standings(results, tmp_path, tmp_path))
    assert {id: found[id].status for id in ("O1", "O2", "O3", "O4", "F2", "R1", "Z9", "scenario 2")} == {
        "O1": "failed",
        "O2": "not run",
        "O3": "skipped",
        "O4": "no test",
        "F2": "passed",
        "R1": "not built yet",
        "Z9": "passed",
        "scenario 2": "not run",
    }
    assert found["F2"].tests == {"test_x.py::test_c[1]": "passed", "test_x.py::test_c[2]": "skipped"}
    assert found["Z9"].title == "?"


def test_no_mark_of_this_project_is_a_stranger() -> None:
    """Every number a test names is in the list."""
    found = standings({}, ROOT / "tests", ROOT)
    assert [standing.id for standing in found if standing.title == "?"] == []
    assert len([standing for standing in found if standing.tests]) > 60


def test_what_has_no_test_says_why() -> None:
    """Nothing is merely untested; and what has a test does not say that something must be built first."""
    found = standings({}, ROOT / "tests", ROOT)
    assert [standing.id for standing in found if standing.status == "no test"] == []
    tested = {(standing.kind, standing.id) for standing in found if standing.tests}
    assert [promise.id for promise in promises() if promise.needs and (promise.kind, promise.id) in tested] == []


def test_the_page_has_a_row_for_each() -> None:
    """One table for each part; no cell breaks its row."""
    lines = page(standings({}, ROOT / "tests", ROOT))
    rows = [line for line in lines if re.match(r"^\| (?:[OFR])?\d+ \|", line)]
    assert len(rows) == len(promises())
    assert all(row.count("|") == 5 for row in rows)
    assert len([line for line in lines if line.startswith("## ")]) == 4
