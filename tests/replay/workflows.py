"""Workflows whose recorded histories must replay for ever: every kind of event this version writes occurs in one of them.

Never change what is here: a history in `golden/` was recorded with exactly this code. New ones go below, with a new name.
"""

import asyncio
from dataclasses import dataclass

from perdure import Retry, activity, workflow
from perdure.errors import ApplicationError

SWIFT = Retry(initial=0.001, jitter=0)


@dataclass
class Order:
    id: str
    cents: int


@activity(retry=SWIFT)
async def charge(order: Order) -> str:
    if activity.info().attempt == 1:
        raise ConnectionError("once")
    return f"receipt {order.id}"


@activity
def label(order_id: str, *, express: bool = False) -> bytes:
    return f"{order_id} {express}".encode()


@activity(retry=Retry(max_attempts=1))
async def refuses(order_id: str) -> None:
    raise ApplicationError("no such street", type="BadAddress", non_retryable=True)


@activity(start_to_close=0.01, retry=Retry(max_attempts=1))
async def too_slow() -> None:
    await asyncio.sleep(60)


@activity
async def endless() -> None:
    await asyncio.Event().wait()


@workflow
async def golden_order(order: Order) -> str:
    receipt, _ = await asyncio.gather(charge(order), label(order.id, express=True))
    drawn = workflow.side_effect(lambda: 7)
    new = workflow.version("golden change", 1, 2)
    try:
        async with asyncio.timeout(3_600):
            approved = await workflow.receive("approve", bool)
    except TimeoutError:
        approved = False
    await asyncio.sleep(0.001)
    return f"{receipt} {approved} {drawn} {new} {workflow.random().randint(1, 9) > 0}"


@workflow
async def golden_faults() -> list[str]:
    found = []
    try:
        await refuses("x")
    except ApplicationError as error:
        found.append(str(error.type))
    try:
        await too_slow()
    except Exception as error:  # noqa: BLE001
        found.append(type(error).__name__)
    task = asyncio.create_task(endless())
    await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.wait([task])
    found.append("cancelled" if task.cancelled() else "?")
    await asyncio.sleep(0.05)
    return found


@workflow
async def golden_chain(left: int) -> int:
    await workflow.receive("go", str)
    if left:
        workflow.continue_as_new(left - 1)
    return left


@workflow
async def golden_cancelled() -> None:
    try:
        await asyncio.sleep(3_600)
    finally:
        await label("cleanup")


@workflow
async def golden_failed() -> None:
    raise ValueError("wrong")


@workflow
async def golden_waits() -> None:
    await workflow.receive("never")


@workflow
class GoldenCart:
    """Takes updates: refused, at once, over a timer and an activity, with a change guarded, failing, and one that ends it."""

    def __init__(self) -> None:
        self.items: list[str] = []
        self.closed = False

    @workflow.run
    async def run(self) -> list[str]:
        await workflow.wait_until(lambda: self.closed)
        return self.items

    @workflow.signal
    def note(self, text: str) -> None:
        self.items.append(f"note {text}")

    @workflow.update
    def add(self, item: str) -> int:
        self.items.append(item)
        return len(self.items)

    @add.validator
    def _may_add(self, item: str) -> None:
        if not item:
            raise ValueError("nothing")

    @workflow.update
    async def weigh(self, item: str) -> str:
        if workflow.patched("heavier"):
            await asyncio.sleep(0.001)
        self.items.append(await label(item))
        return f"{workflow.time()} {len(self.items)}"

    @workflow.update
    async def close(self, fails: bool) -> None:
        self.closed = not fails
        if fails:
            raise ValueError("not yet")


@workflow
class GoldenListener:
    """Continues as new once, its handlers' work done; takes misfits, waits, and what comes while it ends."""

    def __init__(self) -> None:
        self.items: list[str] = []
        self.draw = workflow.random().random()

    @workflow.run
    async def run(self, before: list[str]) -> list[str]:
        await workflow.wait_until(lambda: len(before) + len(self.items) >= (4 if before else 2))
        await workflow.wait_until(workflow.all_handlers_finished)
        if not before:
            workflow.continue_as_new(self.items)
        return [*before, *self.items]

    @workflow.signal
    def add(self, item: str, count: int = 1) -> None:
        self.items += [item] * count

    @workflow.signal(name="labelled")
    async def add_labelled(self, item: str) -> None:
        self.items.append((await label(item)).decode())


EVERYTHING = (
    GoldenListener,
    charge,
    label,
    refuses,
    too_slow,
    endless,
    golden_order,
    golden_faults,
    golden_chain,
    golden_cancelled,
    golden_failed,
    golden_waits,
    GoldenCart,
)
