"""`python -m perdure.chaos.leash ARGUMENTS…`: the `perdure` command, in a process that does not outlive whoever started it.

The command is the real one, run in this process; beside it a thread watches standard input, whose other end the trial holds.
"""

import os
import runpy
import sys

from perdure.demo.lifeline import when_input_ends

if __name__ == "__main__":
    when_input_ends(lambda: os._exit(1))
    sys.argv[0] = "perdure"
    runpy.run_module("perdure", run_name="__main__", alter_sys=False)
