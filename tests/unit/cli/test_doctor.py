"""`perdure doctor`: one line a check, a mend below what is not well, exit codes, formats."""

import json
from pathlib import Path

import pytest

from perdure.cli.app import run

CHECKS = ["python", "dependencies", "import", "open files", "clock", "directory", "disk sync", "preallocation", "space",
          "lock", "journal"]  # fmt: skip


def test_every_check_has_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the same order in every format; nothing is made."""
    data = str(tmp_path / "data")
    assert run(["doctor", "--data", data]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "→" not in line]
    assert [line[6:20].strip() for line in lines] == CHECKS
    assert {line[:5].strip() for line in lines} <= {"ok", "warn"}
    assert run(["doctor", "--data", data, "-o", "json"]) == 0
    assert [check["name"] for check in json.loads(capsys.readouterr().out)] == CHECKS
    assert list(tmp_path.iterdir()) == []


def test_what_fails_is_said_and_exits_with_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Checks that need the place are left out when it cannot be written to."""
    (tmp_path / "file").write_bytes(b"")
    assert run(["doctor", "--data", str(tmp_path / "file"), "-o", "jsonl"]) == 1
    checks = {check["name"]: check for check in map(json.loads, capsys.readouterr().out.splitlines())}
    assert checks["directory"]["status"] == "fail"
    assert checks["directory"]["mend"]
    assert "disk sync" not in checks


def test_a_port_is_tried_when_it_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A node needs none: without `--port` a taken one is no fault of the place."""
    assert run(["doctor", "--data", str(tmp_path), "--port", "0", "-o", "json"]) == 0
    assert [check["name"] for check in json.loads(capsys.readouterr().out)] == [*CHECKS, "port"]


def test_a_port_that_is_none_is_misuse() -> None:
    """Exit code 2."""
    assert run(["doctor", "--port", "70000"]) == 2
