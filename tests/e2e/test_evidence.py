"""The evidence in its short form, the delayed signal, and what both do when they are interrupted. PERDURE_EVIDENCE=full runs all ten seeds."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(300)

FULL = os.environ.get("PERDURE_EVIDENCE") == "full"


def chaos(*arguments: str, timeout: float = 280) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "perdure", "chaos", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


@pytest.mark.slow
@pytest.mark.rule("F10")
@pytest.mark.rule("F13")
@pytest.mark.rule("F14")
@pytest.mark.rule("F15")
@pytest.mark.rule("F16")
@pytest.mark.rule("F17")
@pytest.mark.rule("F18")
@pytest.mark.rule("F19")
@pytest.mark.rule("F20")
@pytest.mark.rule("F27")
@pytest.mark.rule("F28")
@pytest.mark.rule("O23")
def test_nothing_is_lost_while_everything_is_replaced(tmp_path: Path) -> None:
    """Workers and node killed, v2 deployed over open runs: every run ends once, every effect is there once, every history replays.

    Afterwards the same books with one line of the ledger doubled are found out, and judged again they are clean.
    """
    done = chaos("run", "--short", "--out", str(tmp_path / "trial"), "-o", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    counts, replays = said["counts"], said["replays"]
    assert said["ok"]
    assert counts["runs"] == counts["completed"] == 10
    assert counts["published"] + counts["declined"] + counts["expired"] == 10
    assert counts["worker_kills"] >= 5
    assert (counts["server_kills"], counts["deploys"], counts["quarantines"]) == (2, 1, 0)
    assert min(counts["absorbed"], counts["signals_withheld"], counts["signals_twice"], counts["in_flight_at_deploy"]) > 0
    assert counts["old_path"] + counts["new_path"] == 10
    assert replays["reproduced_by_new"] == 10
    assert (replays["reproduced_by_old"], replays["refused_by_old"]) == (counts["old_path"], counts["new_path"])

    ledger = tmp_path / "trial" / "seed-1" / "world" / "ledger.jsonl"
    lines = ledger.read_text().splitlines(keepends=True)
    ledger.write_text(
        "".join([*lines, next(line for line in lines if '"operation":"charge"' in line and '"entry":"effect"' in line)])
    )
    doubled = chaos("report", str(tmp_path / "trial"))
    assert doubled.returncode == 1
    assert "charge was done 2 times under one key" in doubled.stdout
    ledger.write_text("".join(lines))
    assert chaos("report", str(tmp_path / "trial")).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not FULL, reason="ten minutes; PERDURE_EVIDENCE=full")
@pytest.mark.timeout(3000)
@pytest.mark.rule("F14")
@pytest.mark.rule("F18")
@pytest.mark.rule("F19")
def test_ten_seeds(tmp_path: Path) -> None:
    """The full form, with all its numbers."""
    done = chaos("run", "--out", str(tmp_path / "trial"), timeout=2900)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.rule("F21")
def test_an_approval_comes_after_everything_is_gone(tmp_path: Path) -> None:
    """Worker and node are killed and upgraded while a run waits; it goes on at the approval, in the middle of its history."""
    done = chaos("run", "delayed-signal", "--out", str(tmp_path / "trial"))
    assert done.returncode == 0, done.stdout + done.stderr
    words = done.stdout.split()
    assert words[:3] == ["resumed", "at", "event"]
    assert 6 <= int(words[3]) < int(words[5])
    report = json.loads(chaos("report", str(tmp_path / "trial"), "-o", "json").stdout)
    assert report["ok"]
    assert (report["counts"]["worker_kills"], report["counts"]["server_kills"]) == (1, 1)


@pytest.mark.slow
def test_a_seed_that_does_not_end_in_time_is_no_success(tmp_path: Path) -> None:
    """Time is up: everything is stopped, and what is unfinished is named."""
    done = chaos("run", "--short", "--timeout", "6", "--out", str(tmp_path / "trial"))
    assert done.returncode == 1
    assert "not everything ended in time: 6 s are over" in done.stdout
    assert "is not finished" in done.stdout
    assert str(tmp_path / "trial") in done.stderr


def test_trials_are_listed_and_others_refused(tmp_path: Path) -> None:
    """`list` names them; an unknown one, a directory in use, and nothing to report each have their exit code."""
    assert "delayed-signal" in chaos("list").stdout
    assert {trial["trial"] for trial in json.loads(chaos("list", "-o", "json").stdout)} == {"evidence", "delayed-signal"}
    assert chaos("run", "fire").returncode == 3
    (tmp_path / "note").write_text("mine")
    used = chaos("run", "--out", str(tmp_path))
    assert used.returncode == 2
    assert "is not empty" in used.stderr
    assert chaos("report", str(tmp_path)).returncode == 3


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_its_processes_end_with_it(tmp_path: Path, how: signal.Signals) -> None:
    """Ctrl-C, SIGTERM, even SIGKILL of the trial: world, node and workers do not outlive it."""
    command = [sys.executable, "-m", "perdure", "chaos", "run", "--seed", "1", "--out", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    while "killed the node" not in process.stderr.readline():
        assert process.poll() is None
    descendants = list(held(below(process.pid)))
    assert len(descendants) >= 4
    process.send_signal(how)
    process.communicate(timeout=60)
    assert process.returncode in {130, -how}
    assert all(ends(descendant) for descendant in descendants)


def below(pid: int) -> Iterator[int]:
    """Every process a process has started, and those these have started."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return
    for child in map(int, children):
        yield child
        yield from below(child)


def held(pids: Iterator[int]) -> Iterator[int]:
    """Those that are still there; workers are killed all the time."""
    for pid in pids:
        with suppress(ProcessLookupError):
            yield os.pidfd_open(pid)


def ends(pidfd: int) -> bool:
    """Wait until the process behind it has ended; false when it has not within half a minute."""
    readable, _, _ = select.select([pidfd], [], [], 30)
    os.close(pidfd)
    return bool(readable)
