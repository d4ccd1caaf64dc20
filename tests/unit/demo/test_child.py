"""Processes of the demo: listened to, killed, stopped, and never outliving whoever holds them."""

import asyncio
import os
from pathlib import Path

import pytest

from perdure.demo.child import Child, ChildDiedError


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A program that says its process id and then does as its argument says."""
    (tmp_path / "program.py").write_text(
        "import os, signal, sys\n"
        "if sys.argv[1] == 'deaf': signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print(os.getpid(), flush=True)\n"
        "if sys.argv[1] == 'die': sys.exit('it was too much')\n"
        "sys.stdin.read()\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    return "program"


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("end", [Child.kill, Child.stop])
def test_when_kill_or_stop_returns_it_is_gone(module: str, tmp_path: Path, end: object) -> None:
    """And both may be repeated."""

    async def story() -> int:
        child = await Child.start(module, "wait", log=tmp_path / "log")
        pid = int(await child.line())
        assert is_there(pid)
        assert callable(end)
        await end(child)
        await end(child)
        assert await child.line() == ""
        return pid

    assert not is_there(asyncio.run(story()))


def test_one_that_does_not_listen_is_killed(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its grace, stopping is killing."""
    monkeypatch.setattr("perdure.demo.child.STOP_GRACE_S", 0.01)

    async def story() -> int:
        child = await Child.start(module, "deaf", log=tmp_path / "log")
        await child.line()
        await child.stop()
        return await child.wait()

    assert asyncio.run(story()) == -9


def test_one_that_died_says_why(module: str, tmp_path: Path) -> None:
    """The error has its exit code and the end of its log."""

    async def story() -> ChildDiedError:
        child = await Child.start(module, "die", log=tmp_path / "log")
        while await child.line():
            pass
        return await child.died()

    assert str(asyncio.run(story())) == "program ended by itself (exit code 1)\nit was too much"
