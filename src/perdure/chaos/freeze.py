"""`python -m perdure.chaos.freeze --seconds S PID…`: hold processes still for a while, as a machine that swaps or is suspended does.

They go on afterwards and do not know how long they were away. Should whoever asked for it die meanwhile, they are killed: nothing that
is held still can end by itself.
"""

import argparse
import os
import signal
from contextlib import suppress
from time import sleep

from perdure.demo.lifeline import when_input_ends


def tell(pids: list[int], number: signal.Signals) -> None:
    """Send a signal to each; one that is gone is gone."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def main() -> None:
    """Returns when they go on."""
    parser = argparse.ArgumentParser(prog="python -m perdure.chaos.freeze", description="hold processes still")
    parser.add_argument("pids", type=int, nargs="+")
    parser.add_argument("--seconds", type=float, required=True)
    arguments = parser.parse_args()

    def give_up() -> None:
        tell(arguments.pids, signal.SIGKILL)
        os._exit(1)

    when_input_ends(give_up)
    tell(arguments.pids, signal.SIGSTOP)
    print("frozen", flush=True)
    sleep(arguments.seconds)
    tell(arguments.pids, signal.SIGCONT)


if __name__ == "__main__":
    main()
