"""A node whose process activity runs until the node is killed. `python process_child.py DATA`: says the pid of the child it runs in."""

import os

import perdure
from perdure import activity, workflow


@activity(process=True)
def spin() -> None:
    print(f"child {os.getpid()}", flush=True)
    while True:
        pass


@workflow
async def spins() -> None:
    await spin()


async def main(data: str) -> None:
    async with perdure.embedded(data) as app:
        app.register(spins, spin)
        await app.client.execute(spins())
