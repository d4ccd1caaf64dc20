"""The author API is exact to type checkers: right calls pass, wrong ones are errors, results keep their type."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CALLS = Path(__file__).with_name("author_calls.py")
MARKED = {number for number, line in enumerate(CALLS.read_text().splitlines(), 1) if line.endswith("# error")}


def run(*command):
    return subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)


def mypy(tmp_path):
    done = run("mypy", "--strict", "--no-error-summary", "--hide-error-context", "--cache-dir", str(tmp_path), str(CALLS))
    found = re.findall(r"^(\S+?):(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    assert found, done.stdout + done.stderr
    return [(Path(name).name, int(line), text) for name, line, text in found]


def pyright(_):
    done = run("pyright", "--outputjson", str(CALLS))
    assert done.stdout.startswith("{"), done.stdout + done.stderr
    errors = [item for item in json.loads(done.stdout)["generalDiagnostics"] if item["severity"] == "error"]
    return [(Path(item["file"]).name, item["range"]["start"]["line"] + 1, item["message"]) for item in errors]


@pytest.mark.slow
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_right_calls_pass_and_wrong_ones_do_not(checker, tmp_path):
    """Exactly the marked lines are errors, under mypy --strict and pyright strict."""
    found = checker(tmp_path)
    assert [error for error in found if error[:1] != (CALLS.name,) or error[1] not in MARKED] == []
    assert sorted(MARKED - {line for _, line, _ in found}) == []


def test_there_are_enough_of_both():
    """The file has not been emptied by a careless edit."""
    assert len(MARKED) >= 40
    assert CALLS.read_text().count("assert_type(") >= 40
