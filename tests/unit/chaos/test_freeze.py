"""Holding processes still: they stop, go on by themselves, and never stay behind."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")


def state(pid: int) -> str:
    """`T`: held still."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def freezer(seconds: str, pid: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "perdure.chaos.freeze", "--seconds", seconds, str(pid)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"frozen\n"
    return process


def test_it_is_held_still_and_goes_on(victim: "subprocess.Popen[bytes]") -> None:
    """While the freezer runs it stands still, then it does what it was about to."""
    holding = freezer("0.3", victim.pid)
    assert state(victim.pid) == "T"
    assert holding.wait(10) == 0
    holding.communicate()
    victim.communicate(b"\n", timeout=10)
    assert victim.returncode == 0


def test_nothing_stays_held_still(victim: "subprocess.Popen[bytes]") -> None:
    """When whoever holds it is left alone, what it holds is killed."""
    holding = freezer("60", victim.pid)
    holding.communicate(timeout=10)  # ends its standard input
    assert victim.wait(10) == -9
