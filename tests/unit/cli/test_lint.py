"""`perdure lint`: findings on standard output, exit codes, formats."""

import json
from pathlib import Path

import pytest

from perdure.cli.app import run

WRONG = "from perdure import workflow\n\n@workflow\nasync def flow():\n    print(hash('x'))\n"


@pytest.fixture
def wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.py").write_text(WRONG, encoding="utf-8")
    (tmp_path / "right.py").write_text(WRONG.replace("print(hash('x'))", "return 1"), encoding="utf-8")
    return "wrong.py"


def test_findings_are_lines_with_their_place(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`file:line:column: code [rule] …`, a mend below it, exit code 1."""
    assert run(["lint", wrong, "right.py"]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[0].startswith("wrong.py:5:5: PD204 [print] print() (in flow): ")
    assert out.splitlines()[2].startswith("wrong.py:5:11: PD302 [identity] hash() (in flow): ")
    assert err == "perdure: 2 findings\n"


def test_nothing_found_is_zero_and_silent(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    """By file and by dotted name; also when the rules that would speak are taken away."""
    assert run(["lint", "right.py"]) == run(["lint", "right"]) == 0
    assert run(["lint", wrong, "--ignore", "print,PD302"]) == run(["lint", wrong, "--select", "clock", "--select", "io"]) == 0
    assert capsys.readouterr() == ("", "")


def test_findings_as_json(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One array, or one object a line; nothing on standard error."""
    assert run(["lint", wrong, "-o", "json"]) == 1
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert [(f["path"], f["line"], f["column"], f["code"], f["rule"], f["workflow"]) for f in found] == [
        ("wrong.py", 5, 5, "PD204", "print", "flow"),
        ("wrong.py", 5, 11, "PD302", "identity", "flow"),
    ]
    assert err == ""
    assert run(["lint", wrong, "-o", "jsonl"]) == 1
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == found
    assert run(["lint", "right.py", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize("tokens", [["lint"], ["lint", "nowhere.py"], ["lint", "right.py", "--select", "zeal"]])
def test_misuse_is_two(tokens: list[str], wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No module, an unknown one, an unknown rule."""
    assert wrong
    assert run(tokens) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("perdure: ")
