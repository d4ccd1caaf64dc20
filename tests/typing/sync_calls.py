# pyright: strict
"""What callers write who do not await. Lines marked `# error` must be type errors, all others must not; never run, only read."""

from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

import perdure
from perdure import SyncClient, workflow
from perdure.codecs import Zstd
from perdure.sdk.stack import WorkflowStack
from perdure.sdk.sync_handle import SyncHandle, SyncUpdateHandle


@workflow
async def fulfil(order: str, cents: int = 1) -> int:
    return len(order) * cents


@workflow
async def six(a: int, b: str, c: float, d: bool, e: bytes, f: list[int]) -> str:
    return f"{a}{b}{c}{d}{e!r}{f}"


@workflow
async def nothing() -> None: ...


@workflow
class Cart:
    @workflow.run
    async def run(self, user: str) -> bytes:
        return user.encode()

    @workflow.signal
    def add(self, item: str, count: int = 1) -> None: ...

    @workflow.query
    def holds(self, item: str) -> bool:
        return bool(item)

    @workflow.update
    async def checkout(self, code: str) -> list[str]:
        return [code]


def starts(sync: SyncClient) -> None:
    assert_type(sync.start(fulfil("o"), id="o", queue="fast", timeout=timedelta(days=1), attributes={"a": 1}), SyncHandle[int])
    assert_type(sync.start(fulfil, "o", 3, id="o", on_conflict="attach"), SyncHandle[int])
    assert_type(sync.start(six, 1, "b", 3.0, True, b"e", [1]), SyncHandle[str])
    assert_type(sync.start(nothing), SyncHandle[None])
    assert_type(sync.start("fulfil", "o", id="o"), SyncHandle[Any])
    assert_type(sync.execute(fulfil("o")), int)
    assert_type(sync.execute(six, 1, "b", 3.0, True, b"e", [1]), str)
    assert_type(sync.execute("fulfil", "o"), Any)
    assert_type(sync.signal_with_start(Cart.run("ann"), Cart.add("x"), id="c", signal_id="s"), SyncHandle[bytes])
    sync.start(fulfil(3))  # error
    sync.start(fulfil, 3)  # error
    sync.start(fulfil)  # error
    sync.start(six, 1, "b", 3.0, True, b"e")  # error
    sync.start(fulfil("o"), id=3)  # error
    sync.start(fulfil("o"), colour="red")  # error
    sync.start(3)  # error
    sync.execute(fulfil, 3)  # error
    text: str = sync.execute(fulfil("o"))  # error
    sync.signal_with_start(Cart.run("ann"), Cart.add("x"))  # error
    sync.signal_with_start(Cart.run("ann"), Cart.add(3), id="c")  # error
    print(text)


def lists(sync: SyncClient) -> None:
    assert_type(sync.handle("x"), SyncHandle[Any])
    assert_type(sync.handle("x", "run", workflow=fulfil), SyncHandle[int])
    assert_type(sync.count("status = 'running'"), int)
    page = sync.list("type = 'fulfil'", limit=10)
    assert_type(page.cursor, str | None)
    assert_type(page.items[0].workflow_id, str)
    for summary in sync.list(status="failed", started_after=datetime.now(UTC)):
        assert_type(summary.started_at, datetime)
    sync.handle(3)  # error
    sync.list(limit="10")  # error
    sync.list(status="walking")  # error
    sync.count(started_after="2026-01-01")  # error


async def wrong_places(sync: SyncClient) -> None:
    await sync.count()  # error
    await sync.start(fulfil("o"))  # error
    async for _ in sync.list():  # error
        pass


def completions(sync: SyncClient) -> None:
    sync.complete_activity("token", {"any": "thing"})
    sync.fail_activity("token", ValueError("no"))
    assert_type(sync.heartbeat_activity("token", "row", 3), bool)
    sync.complete_activity(3)  # error
    sync.fail_activity("token", "no")  # error
    sync.heartbeat_activity()  # error


def talks(talking: SyncHandle[int], sync: SyncClient) -> None:
    assert_type(talking.id, str)
    assert_type(talking.run_id, str | None)
    assert_type(talking.result(), int)
    assert_type(talking.result(timeout=timedelta(seconds=3)), int)
    talking.signal(Cart.add("x", count=2), signal_id="s")
    talking.signal(Cart.add, "x")
    talking.signal("add", {"any": "value"})
    assert_type(talking.query(Cart.holds("x")), bool)
    assert_type(talking.query(Cart.holds, "x", timeout=3), bool)
    assert_type(talking.query("holds", "x"), Any)
    assert_type(talking.update(Cart.checkout("c")), list[str])
    assert_type(talking.update("checkout", "c"), Any)
    answer = talking.start_update(Cart.checkout, "c")
    assert_type(answer, SyncUpdateHandle[list[str]])
    assert_type(answer.result(timeout=3), list[str])
    talking.cancel("enough", request_id="r")
    talking.terminate("enough")
    talking.pause("a minute")
    talking.resume()
    assert_type(talking.reset(3, "a bug is fixed"), SyncHandle[int])
    assert_type(talking.describe().standstill, tuple[str, ...])
    assert_type(talking.stack(), WorkflowStack)
    assert_type(talking.stack().waits_for[0].deadline, datetime | None)
    for event in talking.history(notes=True):
        assert_type(event.type, str)
    talking.result(timeout="3")  # error
    talking.signal(Cart.add(3))  # error
    talking.signal(Cart.add, 3)  # error
    talking.query(Cart.holds)  # error
    talking.query(Cart.add("x"))  # error
    talking.update(Cart.holds("x"))  # error
    talking.start_update(Cart.add("x"))  # error
    answer.result(timeout="3")  # error
    talking.cancel(3)  # error
    talking.terminate(3)  # error
    talking.pause(3)  # error
    talking.resume(3)  # error
    talking.reset("3")  # error
    talking.describe("all")  # error
    talking.stack("all")  # error
    talking.history(notes="all")  # error
    print(talking.colour, sync.colour)  # error


def connections() -> None:
    with SyncClient("http://127.0.0.1:7373", "key", "default", codec=Zstd(), interceptors=[], timeout=3, ca="ca.pem") as sync:
        assert_type(sync, SyncClient)
    perdure.SyncClient().close()
    perdure.SyncClient(3)  # error
    perdure.SyncClient(timeout="3")  # error
    perdure.SyncClient(codec=Zstd)  # error
    perdure.SyncClient(colour="red")  # error
    sync.close(3)  # error
