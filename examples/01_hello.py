"""The smallest durable workflow: one step and one pause, written down as they happen."""

import asyncio
import tempfile

import perdure
from perdure import activity, workflow


@activity
async def greet(name: str) -> str:  # may touch the world; runs again if the process dies before its result is written down
    return f"Hello, {name}!"


@workflow
async def hello(name: str) -> str:  # pure: replayed from its history after a crash
    greeting = await greet(name)
    await asyncio.sleep(0.1)  # a durable timer: the process may die and come back meanwhile
    return greeting


async def main() -> None:
    with tempfile.TemporaryDirectory() as data:  # a real application names a folder that stays
        async with perdure.embedded(data) as app:
            app.register(hello, greet)
            handle = await app.client.start(hello("world"), id="hello-1")
            print(await handle.result())  # → Hello, world!
            for event in await handle.history():
                print(event.id, event.type)
            # → 1 started
            # → 2 activity_scheduled
            # → 3 activity_completed
            # → 4 timer_started
            # → 5 timer_fired
            # → 6 completed


if __name__ == "__main__":
    asyncio.run(main())
