# pyright: strict
"""What authors write. Lines marked `# error` must be type errors, all others must not; never run, only read by type checkers."""

import asyncio
from collections.abc import Coroutine  # noqa: TC003  as authors write it
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Literal, assert_type
from uuid import UUID

from perdure import Client, Handle
from perdure.errors import ActivityError, ApplicationError, ResourceExhausted
from perdure.sdk.activity import Activity, activity
from perdure.sdk.call import Call
from perdure.sdk.child import ChildHandle
from perdure.sdk.handlers import QueryCall, SignalCall, UpdateCall
from perdure.sdk.options import Retry
from perdure.sdk.update_handle import UpdateHandle
from perdure.sdk.workflow import Workflow, workflow


@dataclass
class Order:
    id: str
    cents: int = 0


@activity
async def charge(order: Order, cents: int = 1) -> str:
    return order.id * cents


@activity(
    retry=Retry(max_attempts=5, non_retryable=(ValueError, "Declined")), start_to_close=30, heartbeat=timedelta(seconds=3)
)
def label(order_id: str, *, express: bool = False) -> bytes:
    return order_id.encode() * express


@activity()
async def ping() -> None: ...


@activity(name="sum", queue=None, on_cancel="wait", priority=3, summary="adds", idempotency_key="k", start_to_close=None)
def add(*numbers: int, **named: float) -> float:
    return sum(numbers) + sum(named.values())


class Payments:
    @activity
    async def take(self, order: Order, *, note: str = "") -> int:
        return order.cents + len(note)

    @activity(queue="bank")
    def refund(self, cents: int) -> str:
        return str(cents)


@workflow
async def fulfil(order: Order, note: str = "") -> int:
    text, data = await asyncio.gather(charge(order), label(order.id, express=True))
    assert_type(text, str)
    assert_type(data, bytes)
    assert_type(await asyncio.wait_for(charge(order, 2), 3), str)
    assert_type(await asyncio.wait_for(charge(order, cents=2), timeout=3), str)
    assert_type(await asyncio.shield(label("x")), bytes)
    assert_type(asyncio.create_task(charge(order)), asyncio.Task[str])
    async with asyncio.TaskGroup() as group:
        task = group.create_task(label(order.id))
    assert_type(task.result(), bytes)
    assert_type(await ping(), None)
    assert_type(await add(1, 2, 3, four=4.0), float)
    async with asyncio.timeout(3):
        assert_type(await workflow.receive("approve", bool), bool)
    assert_type(await workflow.receive("lines", list[Order]), list[Order])
    assert_type(await workflow.receive("order", type=Order), Order)
    assert_type(await workflow.receive("anything"), Any)
    assert_type(await workflow.receive("choice", Literal["yes", "no"]), Any)
    return len(text) + len(data) + len(note)


@workflow(name="quick", queue="fast", timeout=timedelta(hours=1), retry=Retry(initial=0.5, factor=3))
async def quick(payments: str) -> None:
    shop = Payments()
    assert_type(await shop.take(Order("1"), note="n"), int)
    assert_type(await Payments.take(Order("1"), note="n"), int)
    assert_type(await shop.refund(3), str)
    assert_type(await shop.refund.options(start_to_close=3)(cents=3), str)
    assert_type(await charge.options(queue="gpu", retry=None, heartbeat=None)(Order(payments)), str)
    assert_type(await fulfil(Order("1")), int)
    assert_type(await fulfil.options(queue="gpu", timeout=3)(Order("1"), note="n"), int)
    child = await workflow.start_child(fulfil(Order("1")), id="kid", on_parent_close="abandon")
    assert_type(child, ChildHandle[int])
    assert_type(await child, int)
    assert_type(await (await workflow.start_child("fulfil", 1, "n")), Any)
    await child.signal("go", 3)
    await child.cancel("enough")
    await workflow.external(child.id).signal("go")
    await workflow.external(child.id).cancel()
    await workflow.sleep(1.5)
    await workflow.sleep(timedelta(days=1), summary="tomorrow")
    await workflow.sleep_until(datetime.now(UTC), "now")
    assert_type(workflow.now(), datetime)
    assert_type(workflow.time(), float)
    assert_type(workflow.random(), Random)
    assert_type(workflow.uuid4(), UUID)
    assert_type(workflow.uuid7(), UUID)
    assert_type(workflow.version("tax", 0, 2), int)
    assert_type(workflow.patched("tax"), bool)
    assert_type(workflow.side_effect(lambda: 3), int)
    assert_type(workflow.side_effect(lambda: "3", int), int)
    assert_type(workflow.is_replaying(), bool)
    assert_type(workflow.info().started_at, datetime)
    assert_type(workflow.info().memo["x"], Any)
    assert_type(workflow.info().attributes["x"], str | int | float | bool | datetime | list[str])
    workflow.set_attributes({"a": 1, "b": None, "c": ["x"], "d": datetime.now(UTC)})
    workflow.set_attributes({"a": b"x"})  # error
    workflow.set_attributes({1: "x"})  # error
    workflow.set_details("half way")
    workflow.set_details(1)  # error
    workflow.logger.info("hello %s", payments, extra={"a": 1})
    async with workflow.saga() as saga:
        saga.add(label("x"))
        saga.add(charge(Order("1")))
        await saga.compensate()
    if payments:
        workflow.continue_as_new(payments)
    try:
        await ping()
    except ActivityError as error:
        assert_type(error.attempts, int)
        raise ApplicationError("no", type="Declined", details=[1], non_retryable=True, next_retry_delay=3) from error


@activity
def beat() -> None:
    activity.heartbeat("row", 3)
    assert_type(activity.info().heartbeat_details, tuple[Any, ...])
    assert_type(activity.info().deadline, datetime | None)
    if activity.is_cancelled() or activity.is_stopping():
        activity.logger.warning("stopping")


def values() -> None:
    assert_type(charge(Order("1")), Call[str])
    assert_type(fulfil(Order("1"), note="n"), Call[int])
    assert_type(label.name, str)
    assert_type(label.options(priority=1)("x"), Call[bytes])
    as_coroutine: Coroutine[None, None, str] = charge(Order("1"))
    as_activity: Activity[[], None] = ping
    as_workflow: Workflow[[str], None] = quick
    assert_type(Retry().delay(3), float)
    assert_type(ResourceExhausted("full", retry_after=3).retry_after, float)
    print(as_coroutine, as_activity, as_workflow, charge.fn, fulfil.fn, UUID(int=0))


@workflow
class Basket:
    @workflow.run
    async def run(self, user: str) -> int:
        return len(user)

    @workflow.update
    async def checkout(self, code: str) -> list[str]:
        return [code]

    @checkout.validator
    def _may_check_out(self, code: str) -> None: ...

    @workflow.update(name="count")
    def counted(self, most: int = 3) -> int:
        return most


async def updates(client: Client) -> None:
    handle = await client.start(Basket.run("ann"), id="b")
    assert_type(await handle.update(Basket.checkout("c"), update_id="u"), list[str])
    assert_type(await handle.update(Basket.checkout, "c"), list[str])
    assert_type(await handle.update(Basket.counted(most=4)), int)
    assert_type(await handle.update(Basket.counted), int)
    assert_type(await handle.update("checkout", "c"), Any)
    accepted = await handle.start_update(Basket.checkout("c"))
    assert_type(accepted, UpdateHandle[list[str]])
    assert_type(await accepted.result(timeout=3), list[str])
    await accepted.result(timeout="3")  # error
    assert_type(await (await handle.start_update(Basket.counted, 2)).result(), int)
    await handle.update(Basket.checkout(3))  # error
    await handle.update(Basket.checkout, 3)  # error
    await handle.update(Basket.checkout)  # error
    await handle.update(Basket.run("x"))  # error
    await handle.update(Basket.counted, 1, 2)  # error
    await handle.update(3)  # error
    await handle.start_update(Basket.checkout("c"), update_id=3)  # error
    total: str = await handle.update(Basket.counted())  # error
    print(total)


@workflow
class Cart:
    def __init__(self) -> None:
        self.items: list[str] = []

    @workflow.run
    async def run(self, user: str, limit: int = 3) -> list[str]:
        await workflow.wait_until(lambda: len(self.items) >= limit)
        await workflow.wait_until(workflow.all_handlers_finished)
        assert_type(self.size(), int)
        assert_type(await self.checkout("code"), bytes)
        self.add(user, count=2)
        await self.add_later(user)
        await workflow.wait_until("x")  # error
        self.add(3)  # error
        return self.items

    @workflow.signal
    def add(self, item: str, count: int = 1) -> None:
        self.items += [item] * count

    @workflow.signal(name="later")
    async def add_later(self, item: str) -> None:
        self.items.append(item)

    @workflow.query
    def size(self, *, of: str | None = None) -> int:
        return len(self.items) + len(of or "")

    @workflow.query(name="first")
    def first_item(self, default: str) -> str:
        return self.items[0] if self.items else default

    @workflow.update
    async def checkout(self, code: str) -> bytes:
        return code.encode()

    @checkout.validator
    def _check_checkout(self, code: str) -> None:
        if not code:
            raise ValueError

    @workflow.update(name="clear-all")
    def clear(self) -> int:
        return len(self.items)


@workflow(name="till", queue="tills", timeout=3)
class Till(Cart):
    @workflow.signal
    def add(self, item: str, count: int = 1) -> None:
        self.items += [item.upper()] * count


async def steering(client: Client) -> None:
    handle = await client.start(fulfil, Order("1"), id="o", start_delay=timedelta(hours=1), priority=3, attributes={"a": 1})
    assert_type(handle, Handle[int])
    assert_type(await handle.reset(3, "why"), Handle[int])
    await handle.reset("3")  # error
    await handle.pause("why")
    await handle.resume()
    await client.start(fulfil(Order("1")), start_delay="soon")  # error
    await client.start(fulfil(Order("1")), attributes={"a": b"x"})  # error


async def handlers(client: Client) -> None:
    handle = await client.start(Cart.run("ann", limit=4), id="cart", queue="x")
    assert_type(handle, Handle[list[str]])
    assert_type(await client.execute(Till.run("ann")), list[str])
    assert_type(await client.start(Cart.run, "ann", 3), Handle[list[str]])
    assert_type(Cart.add("x", count=2), SignalCall)
    assert_type(Cart.size(), QueryCall[int])
    assert_type(Cart.checkout("x"), UpdateCall[bytes])
    assert_type(Cart(), Cart)
    await handle.signal(Cart.add("x"), signal_id="s")
    await handle.signal(Cart.add, "x", signal_id="s")
    await handle.signal(Cart.add_later("x"))
    await handle.signal("add", "x")
    await handle.signal("add", value="x")
    await handle.signal("add")
    assert_type(await handle.query(Cart.size(of="x"), timeout=3), int)
    assert_type(await handle.query(Cart.size), int)
    assert_type(await handle.query(Cart.first_item, "none"), str)
    assert_type(await handle.query(Till.first_item("none"), timeout=timedelta(seconds=1)), str)
    assert_type(await handle.query("size", 1, 2), Any)
    assert_type(await handle.update(Cart.checkout("x"), update_id="u"), bytes)
    assert_type(await handle.update(Cart.checkout, "x"), bytes)
    assert_type(await handle.update(Cart.clear()), int)
    assert_type(await handle.update("checkout", "x"), Any)
    assert_type(await client.signal_with_start(Cart.run("ann"), Cart.add("x"), id="cart"), Handle[list[str]])
    await client.start(Cart.run(3))  # error
    await client.start(Cart.run, 3)  # error
    await client.start(Cart)  # error
    Cart.add(3)  # error
    Cart.add("x", times=3)  # error
    Cart.size(3)  # error
    Cart.checkout()  # error
    await handle.signal(Cart.size())  # error
    await handle.signal(Cart.add, 3)  # error
    await handle.signal(Cart.add)  # error
    await handle.query(Cart.add("x"))  # error
    await handle.query(Cart.first_item)  # error
    await handle.query(Cart.first_item, 3)  # error
    await handle.query(Cart.size(), timeout="3")  # error
    await handle.update(Cart.size())  # error
    wrong: str = await handle.query(Cart.size())  # error
    print(wrong)


async def mistakes(order: Order) -> None:
    await charge()  # error
    await charge("order")  # error
    await charge(order, cents="2")  # error
    await charge(order, colour=3)  # error
    await charge(order, 1, 2)  # error
    await label("x", True)  # error
    await label(order)  # error
    await ping(1)  # error
    await add("1")  # error
    await fulfil()  # error
    await fulfil(order, note=3)  # error
    await quick(3)  # error
    await Payments().take("order")  # error
    await Payments().take(order, "note")  # error
    await Payments.refund("3")  # error
    await charge.options(start_to_close="3")(order)  # error
    await charge.options(queue="gpu")("order")  # error
    await charge.options(name="other")(order)  # error
    wrong: int = await charge(order)  # error
    first, second = await asyncio.gather(charge(order), label("x"))
    wrong = first  # error
    wrong = second  # error
    wrong = await asyncio.create_task(label("x"))  # error
    flag = await workflow.receive("approve", bool)
    wrong = await workflow.receive("name", str) + flag  # error
    await workflow.receive(3)  # error
    await workflow.sleep("3")  # error
    await workflow.sleep_until(3.0)  # error
    workflow.version("tax", "0", 1)  # error
    workflow.side_effect(3)  # error
    workflow.saga().add(charge)  # error
    await workflow.start_child(3)  # error
    await workflow.start_child(fulfil(order), on_parent_close="kill")  # error
    await workflow.start_child(fulfil(order), 3)  # error
    await workflow.external(3).cancel()  # error
    await workflow.external("x").signal(3)  # error
    fulfil.options(retries=3)  # error
    Retry(attempts=3)  # error
    Retry(max_attempts="3")  # error
    Retry(non_retryable=(3,))  # error
    ApplicationError("no", kind="error")  # error
    ActivityError("no", kind="nonsense")  # error
    print(wrong, flag, workflow.nothing)  # error


def bad_definitions() -> None:
    workflow.run(3)  # error
    workflow.signal(3)  # error
    workflow.signal(title="add")  # error
    workflow.query(3)  # error
    workflow.query(name=3)  # error
    workflow.update(3)  # error
    workflow.patched(3)  # error
    activity(retries=3)  # error
    activity(start_to_close="3")  # error
    activity(on_cancel="maybe")  # error
    activity(3)  # error
    workflow(start_to_close=3)  # error
    workflow(timeout="3")  # error
    workflow(lambda: 3)  # error
    workflow(Payments())  # error
    workflow(3)  # error
    workflow.run(lambda self: 3)  # error
    workflow.signal(3)  # error
    workflow.signal(queue="x")  # error
    workflow.query(name=3)  # error
    workflow(frozen=True)  # error
