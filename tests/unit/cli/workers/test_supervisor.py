"""The supervisor over real processes that do what a line of their plan says: they stand for workers that live, die, hang and come back."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from perdure.cli.exits import INTERRUPTED, USAGE
from perdure.cli.workers import messages as ms
from perdure.cli.workers import process, supervisor
from perdure.cli.workers.supervisor import Supervisor

CHILD = """
import json, os, signal, socket, sys, time
up = socket.socket(fileno=int(sys.argv[1]))
lines = up.makefile("r")
plan = json.loads(lines.readline())
def tell(**news):
    up.sendall(json.dumps(news).encode() + b"\\n")
def loads():
    tell(type="loaded", build_id="b", workflows=["w"], activities=["a"], queues=["default"], files=plan["modules"][1:])
def serves():
    loads()
    tell(type="serving", address="http://there")
def drains():
    for line in lines:
        print(line, file=sys.stderr, flush=True)
        return
"""
SERVES = CHILD + "serves(); drains()"


def command(script: str) -> Sequence[str]:
    return (sys.executable, "-c", script)


class Seen:
    """What was announced."""

    def __init__(self) -> None:
        self.announced: list[tuple[ms.Loaded, str, list[int]]] = []
        self.ready = asyncio.Event()

    def __call__(self, loaded: ms.Loaded, address: str, pids: Sequence[int]) -> None:
        self.announced.append((loaded, address, list(pids)))
        self.ready.set()

    @property
    def pids(self) -> list[int]:
        return self.announced[0][2]


def plan(*modules: str, **more: Any) -> ms.Plan:
    return ms.Plan(modules=modules or ("m",), **more)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  other processes tell nobody
            await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses are not what is tested here."""
    monkeypatch.setattr(supervisor, "PAUSE_S", 0.01)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def files_in(folder: Path) -> int:
    return len(list(folder.iterdir()))


async def test_all_serve_and_all_leave(capfd: pytest.CaptureFixture[str]) -> None:
    """It is announced once, when each of them serves; asked to stop, each is ordered to drain, and none is left."""
    seen = Seen()
    running = Supervisor(plan(grace=7.0), 3, seen, command(SERVES))
    task = asyncio.create_task(running.run())
    await asyncio.wait_for(seen.ready.wait(), 20)
    assert len(set(seen.pids)) == 3
    running.stop()
    assert await asyncio.wait_for(task, 20) == (0, None)
    assert capfd.readouterr().err.count('{"what":"drain","grace":7.0}') == 3
    assert not any(map(is_alive, seen.pids))
    assert len(seen.announced) == 1


async def test_one_that_is_killed_is_replaced_and_named(capfd: pytest.CaptureFixture[str]) -> None:
    """The others are left alone."""
    seen = Seen()
    running = Supervisor(plan(), 2, seen, command(SERVES))
    task = asyncio.create_task(running.run())
    await asyncio.wait_for(seen.ready.wait(), 20)
    os.kill(seen.pids[0], signal.SIGKILL)
    await until(lambda: len(running._serving) == 2 and seen.pids[0] not in [p.pid for p in running._processes.values()])
    assert seen.pids[1] in [p.pid for p in running._processes.values()]
    running.stop()
    await asyncio.wait_for(task, 20)
    said = capfd.readouterr().err
    assert f"worker process 1 (pid {seen.pids[0]}) was ended by SIGKILL; another takes its place in" in said
    assert "worker process 1 (pid " in said.split("takes its place")[1]


async def test_one_that_dies_at_once_ends_it_all(capfd: pytest.CaptureFixture[str]) -> None:
    """After five times in a row the reason is said and the exit code is 1; nobody is left behind."""
    seen = Seen()
    code, fault = await asyncio.wait_for(Supervisor(plan(), 2, seen, command("raise SystemExit(9)")).run(), 60)
    assert (code, fault) == (1, None)
    said = capfd.readouterr().err
    assert "ended with exit code 9 5 times within 10 s of its start: giving up" in said


async def test_what_cannot_be_a_worker_is_told_once_and_not_tried_again(tmp_path: Path) -> None:
    """Every process fails in the same way: one fault, one exit code, one start each."""
    script = CHILD + (
        f"open({str(tmp_path)!r} + f'/{{os.getpid()}}', 'w').close()\n"
        "tell(type='failed', code=2, name='INVALID_ARGUMENT', message='importing m failed')"
    )
    code, fault = await asyncio.wait_for(Supervisor(plan(), 2, Seen(), command(script)).run(), 60)
    assert code == USAGE
    assert fault is not None
    assert fault.message == "importing m failed"
    assert files_in(tmp_path) <= 2


async def test_one_that_does_not_leave_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is deaf to its order, or stopped, ends a while after its grace period."""
    monkeypatch.setattr(process, "KILL_AFTER_S", 0.1)
    seen = Seen()
    script = CHILD + "signal.signal(signal.SIGTERM, signal.SIG_IGN); serves(); signal.raise_signal(signal.SIGSTOP)"
    running = Supervisor(plan(grace=0.1), 1, seen, command(script))
    task = asyncio.create_task(running.run())
    await asyncio.wait_for(seen.ready.wait(), 20)
    running.stop()
    assert await asyncio.wait_for(task, 20) == (0, None)


async def test_asked_twice_it_hurries_and_asked_again_it_kills(capfd: pytest.CaptureFixture[str]) -> None:
    """Each request is shorter of patience than the one before; the exit code says that it was interrupted."""
    seen = Seen()
    script = CHILD + "serves()\nfor line in lines: print(line, file=sys.stderr, flush=True)"
    running = Supervisor(plan(), 1, seen, command(script))
    task = asyncio.create_task(running.run())
    await asyncio.wait_for(seen.ready.wait(), 20)
    running.stop()
    running.stop()
    said = ""

    def hurried() -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return '"hurry"' in said

    await until(hurried)
    running.stop()
    assert await asyncio.wait_for(task, 20) == (INTERRUPTED, None)
    assert said.index('"drain"') < said.index('"hurry"')


async def test_a_node_that_is_away_is_told_once(capfd: pytest.CaptureFixture[str]) -> None:
    """By however many processes, once more when it answers that it lets nobody in any more, and when it is back for all of them."""
    seen = Seen()
    script = CHILD + (
        "serves()\nlines.readline()\n"
        "tell(type='away', why='no node answers at there'); tell(type='away', why='no node answers at there')\n"
        "tell(type='away', why='it refuses', refused=True); tell(type='away', why='it refuses', refused=True)\n"
        "tell(type='serving', address='http://there'); drains()"
    )
    running = Supervisor(plan(), 2, seen, command(script))
    task = asyncio.create_task(running.run())
    await asyncio.wait_for(seen.ready.wait(), 20)
    for each in running._processes.values():
        each._order(ms.Order(what="hurry"))
    said = ""

    def back() -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return "is back" in said

    await until(back)
    running.stop()
    await asyncio.wait_for(task, 20)
    assert 1 <= said.count("no node answers at there; waiting for it") <= 2
    assert 1 <= said.count("it refuses; waiting for it") <= 2
    assert said.count("is back") <= said.count("waiting for it")


async def test_a_changed_file_replaces_every_process(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Also after one that could not be loaded, which is waited out."""
    source = tmp_path / "flows.py"
    source.write_text("good")
    script = CHILD + (
        "text = open(plan['modules'][1]).read()\n"
        "if text == 'bad':\n"
        "    tell(type='failed', code=2, name='INVALID_ARGUMENT', message='it is bad', files=plan['modules'][1:])\n"
        "else:\n"
        "    loads(); tell(type='serving', address=text); drains()"
    )
    seen = Seen()
    running = Supervisor(plan("m", str(source), reload=True), 2, seen, command(script))
    task = asyncio.create_task(running.run())
    await asyncio.wait_for(seen.ready.wait(), 20)
    source.write_text("bad")
    said = ""

    def waits() -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return "waiting for a change" in said

    await until(waits)
    await until(lambda: not running._processes)
    source.write_text("good again")
    await until(lambda: len(running._serving) == 2)
    running.stop()
    assert await asyncio.wait_for(task, 20) == (0, None)
    assert said.count("it is bad") == 1


def test_a_plan_hides_its_key() -> None:
    """What is logged of it shows none."""
    assert "hush" not in repr(plan(api_key="hush"))
