# pyright: strict
"""What callers write, through the names of the package alone. Lines marked `# error` must be type errors, all others must not.

Never run, only read by type checkers; `author_calls.py` is what authors of workflows and activities write.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, assert_type

import perdure
from perdure import (
    AdmissionRules,
    ChildHandle,
    Client,
    Handle,
    Interceptor,
    Limits,
    OriginQuota,
    PayloadCodec,
    Retry,
    Worker,
    activity,
    errors,
    testing,
    workflow,
)
from perdure.codecs import AesGcm, Chain, Zstd, decoded
from perdure.interceptors import ActivityCall, ClientCall, WorkflowCall


@dataclass
class Order:
    id: str
    cents: int = 0


@activity
async def charge(order: Order, cents: int = 1) -> str:
    return order.id * cents


@activity
def later(text: str) -> str:
    activity.complete_later()


@workflow
async def fulfil(order: Order, note: str = "") -> int:
    return len(await charge(order)) + len(note)


@workflow
async def six(a: int, b: str, c: float, d: bool, e: bytes, f: Order) -> str:
    return f"{a}{b}{c}{d}{e!r}{f}"


@workflow
async def nothing() -> None: ...


@workflow
class Cart:
    @workflow.run
    async def run(self, user: str) -> int:
        await workflow.wait_until(lambda: bool(user))
        await workflow.wait_until(user)  # error
        await workflow.wait_until(lambda x: x)  # error
        assert_type(workflow.all_handlers_finished(), bool)
        return len(user)

    @workflow.signal
    def add(self, item: str, count: int = 1) -> None: ...

    @workflow.signal(name="clear")
    async def empty(self) -> None: ...

    @workflow.query
    def size(self) -> int:
        return 1

    @workflow.query(name="has")
    def holds(self, item: str) -> bool:
        return bool(item)

    @workflow.update
    async def checkout(self, code: str) -> list[str]:
        return [code]


async def starts(client: Client) -> None:
    order = Order("1")
    handle = await client.start(fulfil(order, note="n"), id="order-1", queue="fast", memo={"a": 1}, attributes={"x": [""]})
    assert_type(handle, Handle[int])
    assert_type(await client.start(fulfil, order, id="order-1"), Handle[int])
    assert_type(await client.start(fulfil, order, "n"), Handle[int])
    assert_type(await client.start(six, 1, "b", 3.0, True, b"e", order, start_delay=3), Handle[str])
    assert_type(await client.start(nothing, on_conflict="attach", reuse="never", timeout=timedelta(days=1)), Handle[None])
    assert_type(await client.start("fulfil", order, id="x", priority=3, origin="visitor"), Handle[Any])
    assert_type(await client.start(Cart.run("ann"), id="cart"), Handle[int])
    assert_type(await client.execute(fulfil(order), id="x"), int)
    assert_type(await client.execute(fulfil, order, id="x"), int)
    assert_type(await client.execute("fulfil", order), Any)
    assert_type(await client.signal_with_start(Cart.run("ann"), Cart.add("x"), id="cart", signal_id="s"), Handle[int])
    assert_type(await client.signal_with_start(fulfil(order), "approve", True, id="x"), Handle[int])
    await client.start(fulfil(3))  # error
    await client.start(fulfil("1"), id="x")  # error
    await client.start(fulfil, "1", id="x")  # error
    await client.start(fulfil, order, 3)  # error
    await client.start(fulfil)  # error
    await client.start(six, 1, "b", 3.0, True, b"e")  # error
    await client.start(six, 1, "b", 3.0, True, b"e", "f")  # error
    await client.start(fulfil(order), id=3)  # error
    await client.start(fulfil(order), on_conflict="replace")  # error
    await client.start(fulfil(order), reuse="sometimes")  # error
    await client.start(fulfil(order), timeout="1h")  # error
    await client.start(fulfil(order), colour="red")  # error
    await client.start(fulfil(order), attributes={"x": {}})  # error
    await client.start(3)  # error
    await client.start(Cart.add("x"))  # error
    await client.execute(fulfil())  # error
    await client.execute(fulfil, "x")  # error
    text: str = await client.execute(fulfil(order))  # error
    await client.signal_with_start(Cart.run("ann"), Cart.add(3), id="cart")  # error
    await client.signal_with_start(Cart.run("ann"), Cart.add("x"))  # error
    print(text)


async def lists(client: Client) -> None:
    assert_type(client.handle("x"), Handle[Any])
    assert_type(client.handle("x", "run", workflow=fulfil), Handle[int])
    assert_type(await client.count("status = 'running'"), int)
    page = await client.list("type = 'fulfil'", limit=10)
    assert_type(page.cursor, str | None)
    assert_type(page.items[0].workflow_id, str)
    async for summary in client.list(status=["running", "failed"], started_after=datetime.now(UTC)):
        assert_type(summary.started_at, datetime)
    client.handle(3)  # error
    client.handle("x", workflow=3)  # error
    client.list(3)  # error
    client.list(limit="10")  # error
    client.list(status="walking")  # error
    await client.count(started_after="2026-01-01")  # error
    for _ in client.list():  # error
        pass


async def completions(client: Client) -> None:
    await client.complete_activity("token", {"any": "thing"})
    await client.fail_activity("token", ValueError("no"))
    await client.heartbeat_activity("token", "row", 3)
    await client.complete_activity(3, "x")  # error
    await client.fail_activity("token", "no")  # error
    await client.heartbeat_activity()  # error


async def talks(handle: Handle[int]) -> None:
    assert_type(handle.id, str)
    assert_type(handle.run_id, str | None)
    assert_type(await handle.result(), int)
    assert_type(await handle.result(timeout=timedelta(seconds=3)), int)
    await handle.signal(Cart.add("x", count=2), signal_id="s")
    await handle.signal(Cart.add, "x")
    await handle.signal(Cart.empty)
    await handle.signal("add", {"any": "value"})
    assert_type(await handle.query(Cart.size()), int)
    assert_type(await handle.query(Cart.size), int)
    assert_type(await handle.query(Cart.holds, "x", timeout=3), bool)
    assert_type(await handle.query("size", 3), Any)
    assert_type(await handle.update(Cart.checkout("c")), list[str])
    assert_type(await (await handle.start_update(Cart.checkout, "c")).result(), list[str])
    await handle.cancel("enough", request_id="r")
    await handle.terminate("enough")
    await handle.pause("a minute")
    await handle.resume()
    assert_type(await handle.reset(3, "a bug is fixed", request_id="r"), Handle[int])
    description = await handle.describe()
    assert_type(description.workflow_id, str)
    assert_type(description.closed_at, datetime | None)
    for event in await handle.history(notes=True):
        assert_type(event.id, int)
        assert_type(event.type, str)
        assert_type(event.time, datetime)
        assert_type(event.is_note, bool)
        assert_type(event.due, Any)
    handle.id = 3  # error
    await handle.result(timeout="3")  # error
    await handle.signal(Cart.add(3))  # error
    await handle.signal(Cart.add("x", colour="red"))  # error
    await handle.signal(Cart.add, 3)  # error
    await handle.signal(Cart.size())  # error
    await handle.signal("add", signal_id=3)  # error
    await handle.query(Cart.add("x"))  # error
    await handle.query(Cart.holds(3))  # error
    await handle.query(Cart.holds)  # error
    await handle.query("size", timeout="3")  # error
    await handle.update(Cart.size())  # error
    await handle.start_update(Cart.add("x"))  # error
    await handle.cancel(3)  # error
    await handle.terminate(3)  # error
    await handle.pause(3)  # error
    await handle.resume(3)  # error
    await handle.reset()  # error
    await handle.reset("3")  # error
    await handle.reset(3, request_id=3)  # error
    await handle.history(notes="all")  # error
    await handle.describe("all")  # error
    print(description.colour, handle.colour)  # error


async def runs() -> None:
    async with perdure.embedded("./data", queues=["default"], namespace="n", limits=Limits(attributes_max=3)) as app:
        app.register(fulfil, charge, Cart)
        assert_type(app.client, Client)
        assert_type(await app.client.execute(fulfil(Order("1")), id="x"), int)
        async with Worker(app.client, queue="slow", workflows=[fulfil], activities=[charge], max_activities=3) as worker:
            assert_type(worker, Worker)
            assert_type(worker.build_id, str)
            worker.stop()
        await asyncio.wait_for(Worker(app.client, queue=["a", "b"]).run(), 3)
        await Worker("http://localhost", api_key="k", namespace="n", workflows=[fulfil]).run()
        Worker(workflows=[fulfil]).run_forever()
        Worker(3)  # error
        Worker(app.client, queue=3)  # error
        Worker(app.client, workflows=fulfil)  # error
        Worker(app.client, max_activities="3")  # error
    perdure.embedded(Path("data"), build_id="b", grace=3.0)
    perdure.embedded()  # error
    perdure.embedded("data", queues=3)  # error
    perdure.embedded("data", colour="red")  # error
    perdure.embedded("data", limits=3)  # error
    Limits(attributes="3")  # error
    Limits(attributes_max="3")  # error
    rules = AdmissionRules(queue_wait_p99_s=2.5, origins={"visitor": OriginQuota(starts_per_second=5, burst=20)})
    perdure.embedded("data", admission=rules)
    perdure.embedded("data", admission={"visitor": 5})  # error
    AdmissionRules(origins={"visitor": 5})  # error
    OriginQuota(starts_per_minute=5)  # error
    Retry(initial="1")  # error
    assert_type(perdure.__version__, str)
    print(perdure.nothing)  # error
    print(testing.nothing)  # error


class Reversing:
    def encode(self, data: bytes, /) -> bytes:
        return data[::-1]

    def decode(self, data: bytes, /) -> bytes:
        return data[::-1]


class NoCodec:
    def encode(self, data: str) -> str:
        return data


class Tracing(Interceptor):
    async def call(self, call: ClientCall, next: Callable[[ClientCall], Awaitable[Any]]) -> Any:
        assert_type(call.args, tuple[Any, ...])
        return await next(call)

    async def execute_activity(self, call: ActivityCall, next: Callable[[ActivityCall], Awaitable[Any]]) -> Any:
        call.name = "other"  # error
        return await next(3)  # error

    async def execute_workflow(self, call: ActivityCall, next: Callable[[WorkflowCall], Awaitable[Any]]) -> Any: ...  # error


def edges(client: Client) -> None:
    perdure.embedded("data", codec=Reversing(), interceptors=[Tracing()], max_processes=3)
    perdure.embedded("data", codec=[Zstd(), AesGcm({"k": b"k" * 32}, current="k"), Chain(Zstd(level=3))])
    Worker(client, codec=Reversing(), interceptors=[Tracing()], max_processes=3)
    testing.environment(codec=Reversing(), interceptors=[Tracing()])
    codec: PayloadCodec = Reversing()
    assert_type(codec.encode(b""), bytes)
    assert_type(AesGcm.generate_key(), bytes)
    assert_type(decoded(Order("1"), codec), Order)
    perdure.embedded("data", codec=NoCodec())  # error
    perdure.embedded("data", codec=Reversing)  # error
    perdure.embedded("data", interceptors=[Tracing])  # error
    perdure.embedded("data", max_processes="3")  # error
    AesGcm([b"k" * 32])  # error
    Zstd(level="3")  # error


async def tests() -> None:
    async with testing.environment(seed=3, start=datetime(2026, 1, 1, tzinfo=UTC), max_cached_runs=1) as env:
        assert_type(env, testing.Environment)
        env.register(fulfil)
        assert_type(env.client, Client)
        assert_type(env.now(), datetime)
        await env.advance(timedelta(days=3))
        await env.advance(86_400)
        await env.sleep(3)
        await env.idle()
        await env.advance("1d")  # error
        await env.sleep("1d")  # error
        print(env.colour)  # error
    testing.environment(seed="3")  # error
    testing.environment(start="2026-01-01")  # error


async def wrongs(client: Client, child: ChildHandle[int]) -> None:
    try:
        await client.execute(fulfil(Order("1")))
        await child.signal(Cart.add("x"))
        await child.signal(Cart.add, 3)  # error
        await child.cancel(3)  # error
    except errors.WorkflowAlreadyStarted as error:
        assert_type(error.run_id, str)
        assert_type(error.code, str)
    except errors.ResourceExhausted as error:
        assert_type(error.retry_after, float)
    except (errors.ActivityError, errors.ChildWorkflowError) as error:
        assert_type(error.attempts, int)
        print(error.colour)  # error
    except errors.PerdureError as error:
        print(error.code)
    print(errors.Nothing)  # error
