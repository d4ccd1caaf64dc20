"""The client that is not awaited, over a whole node that lives on the client's own loop: any thread, any number of them, real waits."""

import asyncio
import gc
import os
import signal
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure import activity, workflow
from perdure.core.errors import InvalidArgument, NondeterminismError, NotFound, Unavailable, WorkflowClosed, WorkflowFailed
from perdure.sdk.client import Client
from perdure.sdk.sync_client import SyncCaller
from perdure.sdk.sync_handle import SyncHandle, SyncUpdateHandle

if TYPE_CHECKING:
    from perdure.node import Node


@activity
async def double(number: int) -> int:
    return 2 * number


@workflow
async def doubled(number: int) -> int:
    return await double(number)


@workflow
async def waits() -> Any:
    return await workflow.receive("go")


@workflow
async def breaks() -> None:
    raise ValueError("no")


@workflow
class Basket:
    def __init__(self) -> None:
        self.items: list[str] = []
        self.done = False

    @workflow.run
    async def run(self, user: str) -> int:
        await workflow.wait_until(lambda: self.done)
        return len(self.items) + len(user)

    @workflow.signal
    def add(self, item: str) -> None:
        self.items.append(item)

    @workflow.query
    def size(self) -> int:
        return len(self.items)

    @workflow.update
    async def checkout(self, code: str) -> str:
        self.done = True
        return code + str(len(self.items))


class OfNode(SyncCaller):
    """A sync client of a node that it starts on its own loop."""

    def __init__(self, data: Path) -> None:
        super().__init__()
        self.data = data
        self.node: Node | None = None
        self.opened = 0

    async def _open(self) -> Client:
        self.opened += 1
        self.node = perdure.embedded(self.data)
        self.node.register(doubled, waits, breaks, double, Basket)
        await self.node.start()
        return self.node.client

    async def _shut(self, client: Client) -> None:
        assert self.node is not None
        assert self.node.client is client
        await self.node.stop()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[OfNode]:
    with OfNode(tmp_path / "data") as client:
        yield client


def test_every_verb_does_what_its_twin_does(client: OfNode) -> None:
    """Start, signal, query, update, describe, history, list, count and the ends of runs, without one await."""
    assert client.execute(doubled(4), id="d") == 8
    assert client.execute(doubled, 5) == 10
    assert client.execute("doubled", 6) == 12
    handle = client.start(Basket.run("ann"), id="basket")
    assert type(handle) is SyncHandle
    handle.signal(Basket.add("x"), signal_id="s")
    handle.signal(Basket.add, "x", signal_id="s")
    assert handle.query(Basket.size) == 1
    assert handle.describe().status == "running"
    started = handle.start_update(Basket.checkout("c"))
    assert type(started) is SyncUpdateHandle
    assert started.result(timeout=30) == "c1"
    assert handle.result(timeout=timedelta(seconds=30)) == 4
    assert handle.history()[0].type == "started"
    with pytest.raises(WorkflowClosed):
        handle.signal(Basket.add("y"))
    with pytest.raises(WorkflowFailed) as failed:
        client.execute(breaks())
    assert isinstance(failed.value.__cause__, ValueError)
    with pytest.raises(NotFound):
        client.handle("nobody").describe()
    again = client.handle("basket", workflow=Basket.run).reset(1, "again")
    assert again.run_id != handle.run_id
    assert again.result(timeout=30) == 4
    assert client.count("status = 'completed'") == 5


def test_a_listing_is_a_page_and_walks_all_of_them(client: OfNode) -> None:
    """`.items` and `.cursor` are the page that was asked for; `for` goes on to the last one; a bad query is refused at the call."""
    for number in range(5):
        client.execute(doubled(number), id=f"w{number}")
    listing = client.list(limit=2)
    assert [row.workflow_id for row in listing.items] == ["w4", "w3"]
    assert listing.cursor
    assert [row.workflow_id for row in listing] == ["w4", "w3", "w2", "w1", "w0"]
    assert [row.workflow_id for row in client.list(limit=2, cursor=listing.cursor).items] == ["w2", "w1"]
    with pytest.raises(InvalidArgument) as refused:
        client.list("status = ")
    assert refused.value.column


def test_many_threads_share_one_connection(client: OfNode) -> None:
    """Each gets the answer to its own call."""
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(lambda number: client.execute(doubled(number)), range(64))) == [2 * n for n in range(64)]
    assert client.opened == 1


def test_waiting_ends_with_its_time_and_the_run_goes_on(client: OfNode) -> None:
    """`result(timeout=)` raises TimeoutError; a later wait gets the result."""
    handle = client.start(waits(), id="w")
    with pytest.raises(TimeoutError, match="it goes on"):
        handle.result(timeout=0.05)
    handle.signal("go", 3)
    assert handle.result(timeout=30) == 3


def test_control_c_leaves_the_wait_alone(client: OfNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """KeyboardInterrupt comes out of the waiting call at once; client and run are as before."""
    handle = client.start(waits(), id="w")
    main = threading.main_thread().ident
    assert main is not None
    waiting = asyncio.run_coroutine_threadsafe

    def interrupt(*args: Any) -> Any:
        future = waiting(*args)
        threading.Thread(target=signal.pthread_kill, args=(main, signal.SIGINT)).start()
        return future

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", interrupt)
    with pytest.raises(KeyboardInterrupt):
        handle.result(timeout=30)
    monkeypatch.undo()
    handle.signal("go", 4)
    assert handle.result(timeout=30) == 4


def test_an_event_loop_is_never_held_up(client: OfNode) -> None:
    """Where a loop runs on the thread the call is refused, in words that say what to do; from a thread of that program it works."""

    async def program() -> int:
        with pytest.raises(RuntimeError, match=r"client\.execute\(\) blocks.*perdure\.connect\(\)"):
            client.execute(doubled(1))
        return await asyncio.to_thread(client.execute, doubled(2))

    assert asyncio.run(program()) == 4


def test_workflow_code_is_refused(client: OfNode) -> None:
    """Workflow code that calls it gets a NondeterminismError, and its run is quarantined, as with the client that is awaited."""
    seen: list[str] = []

    @workflow
    async def calls() -> None:
        for call in (lambda: client.execute(doubled(1)), lambda: client.handle("x").describe(), client.close):
            try:
                call()
            except NondeterminismError as error:
                seen.append(str(error))
        await workflow.receive("never")

    assert client.node is not None
    client.node.register(calls)
    handle = client.start(calls(), id="c")
    with pytest.raises(TimeoutError):
        handle.result(timeout=0.2)
    assert client.handle("c").describe().status == "quarantined"
    assert [line.partition(" is not allowed")[0] for line in seen[:3]] == [
        "client.execute()",
        "handle.describe()",
        "client.close()",
    ]


def test_closing_ends_what_waits(tmp_path: Path) -> None:
    """Calls under way and later ones raise `Unavailable`; the thread is gone; closing again does nothing."""
    client = OfNode(tmp_path / "data")
    handle = client.start(waits(), id="w")
    raised: list[BaseException] = []
    began = threading.Event()

    def wait() -> None:
        async def result(inner: Client) -> Any:
            began.set()
            return await inner.handle("w").result()

        try:
            client.call("test", result)
        except Exception as error:  # noqa: BLE001  whatever it is, it is looked at below
            raised.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    began.wait(30)
    client.close()
    waiting.join(30)
    client.close()
    assert [type(error) for error in raised] == [Unavailable]
    with pytest.raises(Unavailable, match="closed"):
        handle.describe()
    assert not [thread for thread in threading.enumerate() if thread.name == "perdure client"]


def test_a_client_nobody_can_reach_tries_again(tmp_path: Path) -> None:
    """A connection that cannot be made is `Unavailable` for everyone who waits for it, and the next call tries anew."""
    data = tmp_path / "data"
    client = OfNode(data)
    with OfNode(data) as holder:
        holder.execute(doubled(1), id="first")
        for _ in range(2):
            with pytest.raises(Unavailable):
                client.count()
    assert client.count() == 1
    assert client.opened == 3
    client.close()


@pytest.mark.filterwarnings("ignore:.*sqlite3:pytest.PytestUnraisableExceptionWarning")  # its node was forgotten too
def test_a_forgotten_client_leaves_no_thread(tmp_path: Path) -> None:
    """Dropped without close, its thread ends by itself."""
    client = OfNode(tmp_path / "data")
    client.count()
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "perdure client"]
    gone = weakref.ref(client)
    del client
    gc.collect()
    thread.join(30)  # its own loop may have been the last to hold the client
    assert not thread.is_alive()
    gc.collect()
    assert gone() is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_child_of_a_fork_connects_anew(tmp_path: Path) -> None:
    """After a fork the same object works in the child, on a connection of its own, and the parent's goes on."""
    client = OfNode(tmp_path / "data")
    client.execute(doubled(1), id="before")
    handle = client.handle("before")
    child = os.fork()
    if child == 0:
        code = 9
        try:
            client.data = tmp_path / "other"  # the parent's node holds its own directory
            code = 0 if client.execute(doubled(7)) == 14 and client.opened == 2 and client.count() == 1 else 1
            client.close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert handle.result() == 2
    assert client.execute(doubled(3)) == 6
    client.close()
