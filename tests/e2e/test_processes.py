"""Process activities of a node that is killed."""

import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
PATIENCE_S = 60.0


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter when it goes between opening and reading
        return True


def test_children_end_with_a_node_that_is_killed(tmp_path: Path) -> None:
    """SIGKILL gives the node no chance to say anything: its children, busy with code that never looks, end all the same."""
    code = f"import sys, asyncio; sys.path.insert(0, {str(HERE)!r}); import process_child; asyncio.run(process_child.main({str(tmp_path)!r}))"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout is not None
        try:
            child = int(node.stdout.readline().split()[1])
            assert not is_gone(child)
            node.send_signal(signal.SIGKILL)
            node.wait()
            deadline = time.monotonic() + PATIENCE_S
            while not is_gone(child):
                assert time.monotonic() < deadline, "the child outlived its node"
                time.sleep(0.01)
        finally:
            node.kill()
