"""A worker with one of several builds of one workflow, run as `python deploy_child.py URL PLACE BUILD VARIANT` by test_deploys.

It says `ready`, and drains and ends with SIGTERM.
"""

import asyncio
import signal
import sys

import perdure
from perdure import activity, workflow


@activity
async def ask(name: str) -> str:
    return f"asked for {name}"


@activity
async def fee(name: str) -> str:
    return f"fee of {name}"


@workflow(name="approval")
async def v1(name: str) -> str:
    await ask(name)
    await workflow.receive("approve", str)
    await ask(name)
    return "old"


@workflow(name="approval")
async def v2(name: str) -> str:
    """The change is guarded."""
    charged = workflow.patched("fee")
    if charged:
        await fee(name)
    await ask(name)
    await workflow.receive("approve", str)
    await ask(name)
    return "new" if charged else "old"


@workflow(name="approval")
async def unguarded(name: str) -> str:
    """The same change, and nobody thought of open runs."""
    await fee(name)
    await ask(name)
    await workflow.receive("approve", str)
    await ask(name)
    return "new"


@workflow
async def other(name: str) -> str:
    await workflow.receive("approve", str)
    return await ask(name)


VARIANTS = {"v1": v1, "v2": v2, "unguarded": unguarded}


async def main() -> None:
    url, _, build, variant = sys.argv[1:5]
    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    async with await perdure.connect(url) as client:
        worker = perdure.Worker(client, workflows=[VARIANTS[variant], other], activities=[ask, fee], build_id=build)
        async with worker:
            print("ready", flush=True)
            await ending.wait()
        print("drained", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
