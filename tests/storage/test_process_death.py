"""Real processes on a real disk: kill -9, the lock, a file size limit that makes writes short."""

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.core.errors import Unavailable
from perdure.core.events import SignalReceived, Started
from perdure.core.shards import SHARDS
from perdure.core.transition import RunChange, Transition
from perdure.ports import DiskFull
from perdure.runtime.chance import RealChance
from perdure.runtime.clock import RealClock
from perdure.runtime.files import LocalFiles
from perdure.store.journal import JournalStore

CHILD = """
import asyncio, sys
from pathlib import Path
from perdure.core.events import SignalReceived, Started
from perdure.core.transition import RunChange, Transition
from perdure.runtime.chance import RealChance
from perdure.runtime.clock import RealClock
from perdure.runtime.files import LocalFiles
from perdure.store.journal import JournalStore

def transition(workflow, number):
    if number == 1:
        event = Started(id=1, time=1, workflow_type="t", queue="q", run_id="r" + workflow, seed=1)
    else:
        event = SignalReceived(id=number, time=number, name="s")
    return Transition(workflow_id=workflow, runs=(RunChange(run_id="r" + workflow, events=(event,)),))

async def main():
    files = LocalFiles(Path(sys.argv[1]), inline_below=int(sys.argv[2]))
    store = JournalStore(files, RealClock(), RealChance(), segment_bytes_max=20_000)
    await store.open()
    lease = await store.acquire("n", range(64))
    number = 1
    while True:
        await store.commit(lease, [transition(workflow, number) for workflow in ("a", "b", "c")])
        print(number, flush=True)
        number += 1

asyncio.run(main())
"""


def journal(path: Path, **options) -> JournalStore:
    return JournalStore(LocalFiles(path, **options), RealClock(), RealChance(), segment_bytes_max=20_000, room_bytes=0)


def child(path: Path, inline_below: int = 0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path), str(inline_below)], stdout=subprocess.PIPE, text=True, bufsize=1
    )


@pytest.mark.rule("F7")
@pytest.mark.parametrize("inline_below", [0, 1_000_000])
@pytest.mark.parametrize("kill_after", [1, 37, 150])
def test_what_was_acknowledged_survives_kill(tmp_path, kill_after, inline_below) -> None:
    """Killed in the middle of its work, a process loses nothing it had acknowledged, and no group is half there out of order."""
    process = child(tmp_path, inline_below)
    acknowledged = 0
    try:
        while acknowledged < kill_after:
            acknowledged = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split("\n")
        acknowledged = max([acknowledged, *(int(text) for text in rest[:-1] if text)])
    finally:
        process.kill()
        process.wait()
        process.stdout.close()

    async def check() -> None:
        store = journal(tmp_path)
        await store.open()
        lengths = []
        for workflow in ("a", "b", "c"):
            record = await store.record("default", workflow)
            assert [event.id for event in record.events] == list(range(1, len(record.events) + 1))
            lengths.append(len(record.events))
        await store.close()
        assert min(lengths) >= acknowledged
        assert max(lengths) - min(lengths) <= 1
        assert lengths == sorted(lengths, reverse=True)
        assert not store.recovery.clean

    asyncio.run(check())


def test_a_second_process_is_refused_and_told_who_holds_it(tmp_path) -> None:
    """The lock names its holder, and is free at once when that one dies."""
    process = child(tmp_path)
    try:
        process.stdout.readline()
        with pytest.raises(Unavailable, match=f"pid {process.pid}"):
            asyncio.run(journal(tmp_path).open())
        assert json.loads((tmp_path / "lock").read_text())["pid"] == process.pid
    finally:
        process.kill()
        process.wait()
        process.stdout.close()

    async def check() -> None:
        store = journal(tmp_path)
        await store.open()
        await store.close()

    asyncio.run(check())


def lock_elsewhere(path: Path) -> subprocess.CompletedProcess[str]:
    program = "import sys; from pathlib import Path; from perdure.runtime.files import LocalFiles; LocalFiles(Path(sys.argv[1])).lock()"
    return subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False)


def test_a_second_store_in_one_process_is_refused(tmp_path) -> None:
    """The kernel would let one process lock twice, and would drop the lock at the second one's close; both do not happen here."""

    async def check() -> None:
        first, second = journal(tmp_path), journal(tmp_path)
        await first.open()
        with pytest.raises(Unavailable, match=f"pid {os.getpid()}"):
            await second.open()
        await second.close()
        other = await asyncio.to_thread(lock_elsewhere, tmp_path)
        assert f"pid {os.getpid()}" in other.stderr
        await first.close()
        await second.open()
        await second.close()

    asyncio.run(check())


def test_a_child_does_not_inherit_the_lock(tmp_path) -> None:
    """A child left behind by a dead owner keeps nobody out."""
    program = (
        "import os, sys, subprocess; from pathlib import Path; from perdure.runtime.files import LocalFiles;"
        "lock = LocalFiles(Path(sys.argv[1])).lock();"
        "child = subprocess.Popen(['sleep', '60'], close_fds=False, stdout=subprocess.DEVNULL);"
        "print(child.pid, flush=True); os._exit(0)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True, check=True)
    try:
        LocalFiles(tmp_path).lock().cancel()
    finally:
        os.kill(int(done.stdout), signal.SIGKILL)


def test_a_short_write_is_cut_back(tmp_path) -> None:
    """A write that gets only half way leaves nothing; when there is room again the next one stands where it should have."""

    def change(*events):
        return Transition(workflow_id="a", runs=(RunChange(run_id="r", events=events),))

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    async def check(inline_below: int) -> None:
        store = journal(tmp_path / str(inline_below), inline_below=inline_below)
        await store.open()
        lease = await store.acquire("n", range(SHARDS))
        await store.commit(lease, [change(Started(id=1, time=1, workflow_type="t", queue="q", run_id="r", seed=1))])
        path = next((tmp_path / str(inline_below) / "journal").iterdir())
        size = path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, hard))
        try:
            for _ in range(2):
                with pytest.raises(DiskFull):
                    await store.commit(lease, [change(SignalReceived(id=2, time=2, name="lost"))])
                assert path.stat().st_size == size
            assert len(await store.load("default", "a")) == 1
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        await store.commit(lease, [change(SignalReceived(id=2, time=2, name="kept"))])
        await store.close()
        again = journal(tmp_path / str(inline_below))
        await again.open()
        record = await again.record("default", "a")
        assert [event.type for event in record.events] == ["started", "signal_received"]
        assert record.events[1].name == "kept"
        await again.close()

    for inline_below in (0, 1_000_000):
        asyncio.run(check(inline_below))
