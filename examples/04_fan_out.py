"""A thousand activities at once, a hundred in flight: ordinary gather and a semaphore."""

import asyncio
import tempfile

import perdure
from perdure import activity, workflow


@activity
async def square(number: int) -> int:
    return number * number


@workflow
async def sum_of_squares(count: int) -> int:
    room = asyncio.Semaphore(100)

    async def one(number: int) -> int:
        async with room:
            return await square(number)

    return sum(await asyncio.gather(*(one(number) for number in range(count))))


async def main() -> None:
    with tempfile.TemporaryDirectory() as data:
        async with perdure.embedded(data) as app:
            app.register(sum_of_squares, square)
            handle = await app.client.start(sum_of_squares(1_000), id="squares")
            print(await handle.result())  # → 332833500
            history = await handle.history()
            print(sum(event.type == "activity_completed" for event in history), "results written down")
            # → 1000 results written down


if __name__ == "__main__":
    asyncio.run(main())
