"""Options that many commands share: durations as people type them and as help shows them."""

import shutil
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from perdure.cli.app import build, run
from perdure.runtime.durations import duration, spelled

TYPED = {
    "30d": 30 * 86_400,
    "12h": 43_200,
    "1d12h": 129_600,
    "90m": 5_400,
    "1.5s": 1.5,
    "2w": 1_209_600,
    "3600": 3_600,
    "0.5": 0.5,
    "0": 0,
}


@pytest.mark.parametrize(("text", "seconds"), TYPED.items())
def test_durations_are_typed_with_units_or_as_seconds(text: str, seconds: float) -> None:
    """And what is shown of one means the same when it is typed."""
    found = duration(text)
    assert found == timedelta(seconds=seconds)
    assert duration(spelled(found)) == found


@pytest.mark.parametrize("text", ["", "d", "-1d", "30 days, 0:00:00", "3x", "1d ", "nan", "9" * 30 + "d"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """With an error that says what is taken, or that it is too long."""
    with pytest.raises(ValueError, match=r"no duration: say 30d|longer than"):
        duration(text)


@pytest.mark.parametrize("command", [["dev"], ["journal", "compact"]])
def test_help_shows_a_duration_as_it_is_typed(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Not as Python prints one."""
    assert run([*command, "--help"]) == 0
    assert "[default: 30d]" in " ".join(capsys.readouterr().out.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_shells_complete_files_where_a_module_may_be_one(tmp_path: Path) -> None:
    """By the very script that --install-completion writes."""
    (tmp_path / "shop.py").touch()
    (tmp_path / "script").write_text(build().generate_completion(shell="bash"), encoding="utf-8")
    typed = [
        "perdure dev sh",
        "perdure worker sh",
        "perdure lint sh",
        "perdure replay sh",
        "perdure workflow stack o-1 --module sh",
    ]
    asking = "COMP_WORDS=({}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _perdure; echo ${{COMPREPLY[@]}}"
    lines = ["source ./script", *(asking.format(line) for line in typed)]
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["shop.py"] * len(typed)


def test_a_wrong_duration_is_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, before anything is opened."""
    assert run(["journal", "compact", "/nowhere", "--retention", "soon"]) == 2
    assert "30d" in capsys.readouterr().err
