"""`perdure bench approvals`: a real server, a real worker, runs that wait and are told to go on, every figure read from the node."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.rule("F22")
@pytest.mark.rule("F23")
def test_waiting_runs_go_on_in_groups(tmp_path: Path) -> None:
    """Each costs two commits; all at once they share syncs, one after the other they do not; the bound is named, the yardstick beside it."""
    command = [sys.executable, "-m", "perdure", "bench", "approvals", "--runs", "600", "--data", str(tmp_path)]
    done = subprocess.run([*command, "-o", "json"], capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    (waiting,) = report["waiting"]
    alone, together = waiting["alone"], waiting["together"]
    assert waiting["stats"]["samples"] == waiting["nothing"]["samples"] >= 1_000
    assert 0 < waiting["stats"]["p50_us"] < 50_000
    assert alone["runs"] + together["runs"] == waiting["runs"] == 600
    for drain in (alone, together):
        assert 2.0 <= drain["commits"] / drain["runs"] < 2.2
        assert drain["server_cpu_s"] > 0
    assert together["commits"] / together["syncs"] > 2 * alone["commits"] / alone["syncs"]
    assert report["yardstick"]["flush_before"]["p50_us"] > 0
    assert list(tmp_path.iterdir()) == []
