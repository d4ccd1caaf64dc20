"""Signals a process heeds on its loop, and the children it forks."""

import subprocess
import sys

SCRIPT = """
import asyncio, os, signal, sys, time
from perdure.runtime.signals import heed, heed_no_more

def forked() -> int:
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    return pid

async def main() -> None:
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        heed(number, told.set)
    child = forked()
    os.kill(child, signal.SIGTERM)
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    print(os.waitstatus_to_exitcode(status), told.is_set(), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    await told.wait()
    print("told", flush=True)
    heed_no_more(signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)

asyncio.run(main())
"""


def test_a_forked_child_ends_by_a_signal_its_parent_heeds():
    """SIGTERM to the child ends the child and tells the parent nothing; the parent still heeds its own, until it heeds it no more."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines() == ["-15 False", "told"], done.stderr
    assert done.returncode == -15
