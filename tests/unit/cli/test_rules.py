"""`perdure rules`: a table, JSON, and an exit code that says whether a proof failed."""

import json
from pathlib import Path

import pytest

from perdure.cli.app import run


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests").mkdir()
    text = "@pytest.mark.rule('O1')\ndef test_a(): ...\n@pytest.mark.scenario(2)\ndef test_b(): ...\n"
    (tmp_path / "tests" / "test_x.py").write_text(text, encoding="utf-8")
    return tmp_path


def left(folder: Path, outcome: str) -> None:
    path = folder / ".pytest_cache" / "rules.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"rule": {"O1": {"tests/test_x.py::test_a": outcome}}}), encoding="utf-8")


def test_without_results_tests_are_not_run(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Marks are found by reading; everything else has no test or is not built."""
    assert run(["rules"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[1].split()[:4] == ["O1", "not", "run", "1"]
    assert "scenario 2" in out
    assert err.startswith("perdure: ")
    assert "2 not run" in err
    assert checkout.is_dir()


def test_the_last_outcome_is_told(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Passed is 0, failed is 1; a file may be given by name."""
    left(checkout, "passed")
    assert run(["rules", "--status", "passed", "-o", "json"]) == 0
    (rule,) = json.loads(capsys.readouterr().out)
    assert (rule["id"], rule["tests"]) == ("O1", {"tests/test_x.py::test_a": "passed"})
    left(checkout, "failed")
    assert run(["rules", ".pytest_cache/rules.json", "-o", "jsonl"]) == 1
    assert len(capsys.readouterr().out.splitlines()) > 200


@pytest.mark.parametrize("tokens", [["rules", "nowhere.json"], ["rules", "--status", "splendid"]])
def test_misuse_is_two(tokens: list[str], checkout: Path) -> None:
    """A file that is not there, a status there is not."""
    assert checkout.is_dir()
    assert run(tokens) == 2
