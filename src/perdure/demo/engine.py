"""The process that gets killed: engine and worker on a journal, and the buyers who place orders with it.

Run as `python -m perdure.demo.engine`. Started again it picks up where the disk says it was: orders not yet accepted are placed, answers
not yet acknowledged are sent, all under the ids they had before. Every change is told as a JSON line on standard output.
"""

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

import perdure
from perdure import Client, Handle
from perdure.demo import orders
from perdure.demo.book import Book
from perdure.demo.buyers import Purchase, purchases
from perdure.demo.lifeline import when_input_ends
from perdure.demo.orders import Receipt, fulfil
from perdure.errors import PerdureError, WorkflowAlreadyStarted, WorkflowClosed

IN_FLIGHT_MAX: Final = 32
"""Orders under way at once, those waiting for a late answer apart."""


class Desk:
    """Sees every purchase through: placed, approved, ended. What was acknowledged goes into the book before anyone is told."""

    def __init__(self, client: Client, book: Book, *, withhold: bool) -> None:
        self._client = client
        self._book = book
        self._writing = asyncio.Lock()
        self._withhold = withhold
        self._accepted = {line["order_id"] for line in book.lines if line["line"] == "start"}
        self._answered = {line["signal_id"] for line in book.lines if line["line"] == "signal"}
        self._ended = 0
        self._room = asyncio.Semaphore(IN_FLIGHT_MAX)

    async def serve(self, bought: list[Purchase]) -> None:
        """Returns when every purchase has ended."""
        self._tell()
        async with asyncio.TaskGroup() as group:
            for purchase in bought:
                group.create_task(self._see_through(purchase))

    async def _see_through(self, purchase: Purchase) -> None:
        async with self._room:
            handle = await self._place(purchase)
            if not purchase.is_parked:
                await self._answer(purchase, handle)
                return await self._wait(handle)
        # Whoever waits for a late answer must not take the room of the others.
        if not self._withhold:
            await self._answer(purchase, handle)
        return await self._wait(handle)

    async def _place(self, purchase: Purchase) -> Handle[Receipt]:
        order = purchase.order
        if order.id in self._accepted:
            return self._client.handle(order.id, workflow=fulfil)
        try:
            handle = await self._client.start(fulfil(order), id=order.id, on_conflict="attach", reuse="never")
        except WorkflowAlreadyStarted:  # before the last crash, and it has ended since
            handle = self._client.handle(order.id, workflow=fulfil)
        await self._write(line="start", order_id=order.id, cents=order.cents, needs_approval=order.is_large)
        self._accepted.add(order.id)
        self._tell()
        return handle

    async def _answer(self, purchase: Purchase, handle: Handle[Receipt]) -> None:
        signal_id = f"approve-{purchase.order.id}"
        if not purchase.order.is_large or signal_id in self._answered:
            return
        try:
            for _ in range(2 if purchase.answers_twice else 1):
                await handle.signal("approve", purchase.approves, signal_id=signal_id)
        except WorkflowClosed:  # it was delivered before the last crash, or with the first of two
            return
        await self._write(
            line="signal", order_id=purchase.order.id, name="approve", signal_id=signal_id, value=purchase.approves
        )

    async def _wait(self, handle: Handle[Receipt]) -> None:
        try:
            await handle.result()
        except PerdureError as error:  # an order that ended badly has ended; what that means is the auditor's to say
            print(f"{handle.id}: {error!r}", file=sys.stderr, flush=True)
        self._ended += 1
        self._tell()

    async def _write(self, **line: Any) -> None:
        async with self._writing:
            await asyncio.to_thread(self._book.append, line)

    def _tell(self) -> None:
        print(json.dumps({"accepted": len(self._accepted), "ended": self._ended}), flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m perdure.demo.engine", description="the demo's engine and its buyers")
    parser.add_argument("--data", type=Path, required=True, help="where the journal lies")
    parser.add_argument("--book", type=Path, required=True, help="list of what was acknowledged")
    parser.add_argument("--services", required=True, help="address of the services")
    parser.add_argument("--orders", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--withhold", action="store_true", help="do not send the late answers yet")
    return parser.parse_args()


async def _main(arguments: argparse.Namespace) -> None:
    os.environ[orders.SERVICES] = arguments.services
    book = Book(arguments.book)
    async with perdure.embedded(arguments.data) as app:
        app.register(orders)
        desk = Desk(app.client, book, withhold=arguments.withhold)
        await desk.serve(purchases(arguments.seed, arguments.orders))
    book.close()


if __name__ == "__main__":
    when_input_ends(lambda: os._exit(1))  # it is made to be killed; nothing needs tidying
    asyncio.run(_main(_arguments()))
