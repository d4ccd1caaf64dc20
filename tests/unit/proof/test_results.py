"""Outcomes of marked tests are carried from one session to the next, and go when their tests go."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.core.errors import InvalidArgument
from perdure.proof.results import merged, read_results

CONFTEST = Path(__file__).parents[2] / "conftest.py"

TESTS = """
def test_a(): ...
async def test_p(x): ...
class TestGroup:
    def test_b(self): ...
"""

OLD = {
    "rule": {
        "O1": {"test_x.py::test_a": "failed", "test_x.py::TestGroup::test_b": "passed", "test_gone.py::test_a": "passed"},
        "O2": {"test_x.py::test_a": "passed", "test_x.py::test_gone": "failed"},
    },
    "scenario": {"1": {"test_x.py::test_p[1]": "passed", "test_x.py::test_p[2]": "failed"}},
}


def test_what_ran_takes_the_place_of_what_it_was(tmp_path: Path) -> None:
    """Other tests keep their outcome; those that are gone, marks a test has lost and, after a whole session, lost parameters go."""
    (tmp_path / "test_x.py").write_text(TESTS, encoding="utf-8")
    new = {"rule": {"O1": {"test_x.py::test_a": "passed"}}, "scenario": {"1": {"test_x.py::test_p[1]": "failed"}}}
    group = {"test_x.py::TestGroup::test_b": "passed"}
    assert merged(OLD, new, tmp_path, whole=False) == {
        "rule": {"O1": {**group, "test_x.py::test_a": "passed"}},
        "scenario": {"1": {"test_x.py::test_p[1]": "failed", "test_x.py::test_p[2]": "failed"}},
    }
    assert merged(OLD, new, tmp_path, whole=True) == {
        "rule": {"O1": {**group, "test_x.py::test_a": "passed"}},
        "scenario": {"1": {"test_x.py::test_p[1]": "failed"}},
    }


def test_without_their_files_no_results_are_left(tmp_path: Path) -> None:
    """Neither missing tests nor files that do not parse count as there."""
    (tmp_path / "test_x.py").write_text("def test_a(:", encoding="utf-8")
    assert merged(OLD, {}, tmp_path, whole=True) == {}


def test_results_that_are_none(tmp_path: Path) -> None:
    """A missing file and one of something else are told."""
    with pytest.raises(InvalidArgument, match="a run of pytest leaves it"):
        read_results(tmp_path / "rules.json")
    (tmp_path / "rules.json").write_text("[]", encoding="utf-8")
    with pytest.raises(InvalidArgument, match="no file of results"):
        read_results(tmp_path / "rules.json")


def test_sessions_add_up(tmp_path: Path) -> None:
    """Two runs of pytest, each of one test, leave the outcome of both."""
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  rule: x\n  scenario: x\n", encoding="utf-8")
    mark = "import pytest\n\n@pytest.mark.rule('O1')\n"
    (tmp_path / "test_a.py").write_text(mark + "def test_a(): ...\n", encoding="utf-8")
    (tmp_path / "test_b.py").write_text(mark + "def test_b(): assert False\n", encoding="utf-8")
    for name in ("test_a.py", "test_b.py"):
        subprocess.run([sys.executable, "-m", "pytest", "-q", name], cwd=tmp_path, check=False, timeout=60, capture_output=True)
    left = json.loads((tmp_path / ".pytest_cache/rules.json").read_text(encoding="utf-8"))
    assert left == {"rule": {"O1": {"test_a.py::test_a": "passed", "test_b.py::test_b": "failed"}}}
