"""Standard streams that were closed from outside."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("closed", ["1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_a_closed_stream_is_no_crash(closed: str) -> None:
    """What would have gone there goes nowhere; nothing of it turns up on the other one as a traceback."""
    command = f'exec "$0" -m perdure workflow --help {closed}'
    done = subprocess.run(["/bin/sh", "-c", command, sys.executable], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert ("start" in done.stdout) == ("1" not in closed)
