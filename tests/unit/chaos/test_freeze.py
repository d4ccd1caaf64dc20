"""Holding processes still: they stop, go on by themselves, and never stay behind."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


@contextmanager
def freezer(seconds: str, pid: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "perdure.chaos.freeze", "--seconds", seconds, str(pid)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"frozen\n"
        yield process


def becomes(pid: int, what: int) -> bool:
    """Wait until the kernel says so of a child of this process."""
    found = os.waitid(os.P_PID, pid, what | os.WNOWAIT)
    return found is not None and found.si_pid == pid


def test_it_is_held_still_and_goes_on(victim: "subprocess.Popen[bytes]") -> None:
    """First it stands still; when the time is over it goes on and does what it was about to."""
    with freezer("2", victim.pid):
        assert becomes(victim.pid, os.WSTOPPED)
        assert becomes(victim.pid, os.WCONTINUED)
    victim.communicate(b"\n", timeout=20)
    assert victim.returncode == 0


def test_nothing_stays_held_still(victim: "subprocess.Popen[bytes]") -> None:
    """When whoever holds it is left alone, what it holds is killed."""
    with freezer("60", victim.pid) as holding:
        holding.communicate(timeout=20)  # ends its standard input
    assert victim.wait(20) == -9
