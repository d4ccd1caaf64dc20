"""A worker in a process of its own, run as `python zombie_child.py URL PLACE BUILD [freeze]` by test_zombies.

It says on standard output what it does. Its activity goes on when somebody opens the pipe `gate-PID` in PLACE. With `freeze` it stops
itself (SIGSTOP) in the midst of a decision. It drains and ends with SIGTERM.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

import perdure
from perdure import Retry, activity, workflow

PLACE = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(os.devnull)
BUILD = sys.argv[3] if len(sys.argv) > 3 else ""
FREEZES = "freeze" in sys.argv
HOUR = 3600.0


def say(*words: object) -> None:
    print(*words, flush=True)


@activity(retry=Retry(initial=0.01, jitter=0))
def pay(order: str) -> str:
    """Blocks its thread until the gate of this process is opened."""
    say("began", activity.info().attempt)
    with (PLACE / f"gate-{os.getpid()}").open() as gate:
        gate.read()
    say("ended", activity.info().attempt)
    return f"{order} by {BUILD}"


@workflow
async def order(name: str) -> str:
    paid = await pay(name)
    await workflow.receive("go", str)
    return paid


def hesitate() -> None:
    if FREEZES:
        signal.raise_signal(signal.SIGSTOP)


@workflow
async def hesitant(name: str) -> str:
    """Its decision after the first signal takes a frozen worker for ever."""
    await workflow.receive("begin", str)
    hesitate()
    waiting = asyncio.create_task(asyncio.sleep(HOUR))
    await workflow.receive("go", str)
    waiting.cancel()
    return f"{name} by {BUILD}"


async def main() -> None:
    os.mkfifo(PLACE / f"gate-{os.getpid()}")
    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    async with await perdure.connect(sys.argv[1]) as client:
        worker = perdure.Worker(client, workflows=[order, hesitant], activities=[pay], build_id=BUILD, grace=20)
        async with worker:
            say("ready")
            await ending.wait()
        say("drained")


if __name__ == "__main__":
    asyncio.run(main())
