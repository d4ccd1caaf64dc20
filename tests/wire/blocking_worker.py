"""A worker process whose one activity blocks the loop it runs on. Arguments: the node's address, the seconds."""

import asyncio
import sys
import time

import perdure
from perdure import activity


@activity
async def block(seconds: float) -> str:
    time.sleep(seconds)  # noqa: ASYNC251  the point of it
    return "done"


async def main() -> None:
    async with await perdure.connect(sys.argv[1]) as client, perdure.Worker(client, activities=[block]):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
