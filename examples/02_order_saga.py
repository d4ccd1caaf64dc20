"""A saga: when a later step fails for good, the earlier ones are undone, last first."""

import asyncio
import tempfile
from dataclasses import dataclass

import perdure
from perdure import Retry, activity, workflow


@dataclass
class Trip:
    city: str
    cents: int


class FullyBookedError(Exception):
    pass


@activity
async def charge(trip: Trip) -> None:
    print(f"took {trip.cents} cents")


@activity
async def refund(trip: Trip) -> None:
    print(f"gave {trip.cents} cents back")


@activity(retry=Retry(initial=0.01, non_retryable=[FullyBookedError]))
async def book_hotel(trip: Trip) -> str:
    raise FullyBookedError(f"no room in {trip.city}")


@workflow
async def book(trip: Trip) -> str:
    async with workflow.saga() as saga:
        await charge(trip)
        saga.add(refund(trip))  # a call is a value: it happens only if it is needed
        return await book_hotel(trip)


async def main() -> None:
    with tempfile.TemporaryDirectory() as data:
        async with perdure.embedded(data) as app:
            app.register(book, charge, refund, book_hotel)
            try:
                await app.client.execute(book(Trip("Venice", 7700)), id="trip-1")
            except perdure.errors.WorkflowFailed as error:
                print(error.__cause__)
            # → took 7700 cents
            # → gave 7700 cents back
            # → no room in Venice


if __name__ == "__main__":
    asyncio.run(main())
