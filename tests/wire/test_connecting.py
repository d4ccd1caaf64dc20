"""Client and worker over a real port: they reach the node, and come back by themselves when it has been away."""

import asyncio
import socket
from typing import Any

import pytest
import websockets

import perdure
from perdure import activity, workflow
from perdure.errors import InvalidArgument, NotFound, PermissionDenied, Unavailable
from perdure.runtime.api_key import hash_of
from perdure.runtime.clock import RealClock
from perdure.runtime.http_limits import HttpLimits
from perdure.server.access import Gate, KnownKey, Principal
from perdure.server.tls import server_context
from perdure.wire.messages import PATH


@activity
async def add(a: int, b: int) -> int:
    return a + b


@workflow
async def total(n: int) -> int:
    found = 0
    for i in range(n):
        found = await add(found, i)
    return found


@activity
async def slow(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "done"


@workflow
async def slowly(seconds: float) -> str:
    return await slow(seconds)


@workflow
class Cart:
    def __init__(self) -> None:
        self.items: list[str] = []

    @workflow.run
    async def run(self) -> int:
        await workflow.wait_until(lambda: "end" in self.items)
        return len(self.items)

    @workflow.signal
    def add(self, item: str) -> None:
        self.items.append(item)

    @workflow.query
    def size(self) -> int:
        return len(self.items)

    @workflow.update
    async def put(self, item: str) -> int:
        self.items.append(item)
        return len(self.items)


async def test_a_connection_outlives_the_bounds_of_http(serve: Any) -> None:
    """Once it speaks WebSocket, no clock of HTTP cuts it: after many times the idle bound it is still the same connection."""
    bounds = HttpLimits(idle_s=0.1, head_s=0.2, body_s=0.2)
    async with serve(http=bounds) as node, websockets.connect(node.url.replace("http", "ws") + PATH) as connection:
        with pytest.raises(TimeoutError):  # what the node does not send by itself, it does not send now either
            await asyncio.wait_for(connection.recv(), 1)
        assert connection.state is websockets.State.OPEN


async def test_steps_run_on_a_worker_over_the_wire(serve: Any) -> None:
    """A worker on a connected client runs workflow code and activities; the history is as it would be in one process."""
    async with serve() as node, await perdure.connect(node.url) as client:
        async with perdure.Worker(client, workflows=[total], activities=[add]):
            handle = await client.start(total(3), id="sum")
            assert await handle.result(timeout=10) == 3
        types = [event.type for event in await handle.history()]
        assert types == ["started", *["activity_scheduled", "activity_completed"] * 3, "completed"]


async def test_every_verb_of_a_client_works_over_the_wire(serve: Any) -> None:
    """Signal, query, update, describe, list, count and cancel are answered as in one process, errors included."""
    async with serve() as node, await perdure.connect(node.url) as client, perdure.Worker(client, workflows=[Cart]):
        handle = await client.start(Cart.run(), id="cart")
        await handle.signal(Cart.add("apple"))
        assert await handle.update(Cart.put("pear")) == 2
        assert await handle.query(Cart.size()) == 2
        assert (await handle.describe()).status == "running"
        assert await client.count("status = 'running'") == 1
        assert [row.workflow_id async for row in client.list()] == ["cart"]
        await handle.signal(Cart.add("end"))
        assert await handle.result(timeout=10) == 3
        with pytest.raises(NotFound):
            await client.handle("nobody").describe()


async def test_waits_outlive_a_restart_of_the_node(tmp_path: Any, serve: Any) -> None:
    """A client waits for a result and a worker for tasks while the node is stopped and started again: both go on by themselves."""
    async with serve() as node:
        port = node.server.port
        client = await perdure.connect(node.url)
        worker = perdure.Worker(client, workflows=[Cart])
        await worker.__aenter__()
        handle = await client.start(Cart.run(), id="cart")
        assert await handle.update(Cart.put("pear")) == 1
        waiting = asyncio.create_task(handle.result())
        asked = asyncio.create_task(handle.query(Cart.size()))
        assert await asked == 1
    async with serve(port=port):
        await handle.signal(Cart.add("end"))
        assert await waiting == 2
        await worker.__aexit__(None, None, None)
        await client.close()


async def test_nobody_there_is_unavailable_in_time() -> None:
    """Where nothing listens, `connect` gives up after the time it was given."""
    with pytest.raises(Unavailable, match=r"tried for 0\.3 s"):
        await perdure.connect("http://127.0.0.1:1", timeout=0.3)


@pytest.mark.parametrize("address", ["127.0.0.1:7373", "ftp://x", "http://", "http://h:99999", "http://u:p@h", "http://h?x=1"])
async def test_what_is_no_address_is_refused(address: str) -> None:
    """An address that cannot be one is an `InvalidArgument`, before anything is tried."""
    with pytest.raises(InvalidArgument):
        await perdure.connect(address, timeout=0.2)


async def test_keys_and_roles(serve: Any) -> None:
    """A key that is not known is refused; one that may only read can look and not start; a worker's key can work and not start."""
    keys = [KnownKey(Principal(role, role), hash_of(f"key-of-{role}")) for role in ("admin", "read-only", "worker")]  # type: ignore[arg-type]
    async with serve(total, add, gate=Gate(keys, RealClock())) as node:
        with pytest.raises(PermissionDenied):
            await perdure.connect(node.url, "nonsense", timeout=2)
        async with (
            await perdure.connect(node.url, "key-of-admin") as admin,
            await perdure.connect(node.url, "key-of-read-only") as reader,
            await perdure.connect(node.url, "key-of-worker") as worker,
        ):
            assert await admin.execute(total(2), id="sum") == 1
            assert await reader.handle("sum").result() == 1
            with pytest.raises(PermissionDenied):
                await reader.start(total(2), id="other")
            with pytest.raises(PermissionDenied):
                await worker.start(total(2), id="other")
            with pytest.raises(PermissionDenied):
                await worker.handle("sum").describe()


async def test_a_closed_client_refuses(serve: Any) -> None:
    """After `close`, calls under way and later ones raise `Unavailable`."""
    async with serve(Cart) as node:
        client = await perdure.connect(node.url)
        handle = await client.start(Cart.run(), id="cart")
        waiting = asyncio.create_task(handle.result())
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(Unavailable):
            await waiting
        with pytest.raises(Unavailable):
            await handle.describe()


async def test_https_to_a_node_without_tls_is_told_as_that(serve: Any) -> None:
    """Not as a certificate that nobody trusts: there is none."""
    async with serve() as node:
        with pytest.raises(Unavailable, match="speaks no TLS: is it http://"):
            await perdure.connect(node.url.replace("http://", "https://"), timeout=0.5)


async def test_an_address_is_named_once() -> None:
    """When nobody listens there, together with how long it was tried."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        with pytest.raises(Unavailable) as refused:
            await perdure.connect(url, timeout=0.2)
    assert str(refused.value) == f"no node answers at {url}: connection refused (tried for 0.2 s)"


async def test_tls(serve: Any, make_certificate: Any) -> None:
    """Over https, client, worker and beats trust the certificate they were given; without it the node is not trusted, and the reason is said."""
    certificate, key = make_certificate()
    limits = perdure.Limits(claim_lives_s=0.5)
    async with serve(queues=["others"], ssl=server_context(certificate, key), limits=limits) as node:
        url = node.url.replace("127.0.0.1", "localhost")
        with pytest.raises(Unavailable, match="cannot be trusted"):
            await perdure.connect(url, timeout=0.5)
        async with await perdure.connect(url, ca=certificate) as client:
            async with perdure.Worker(client, workflows=[slowly], activities=[slow]):
                assert await client.execute(slowly(1.2), id="slow") == "done"
            assert client.frontend._beats.sent > 1


async def test_a_connection_is_closed_however_often_it_is_told(serve: Any) -> None:
    """The server stops while a connection is closing already: it is not said goodbye twice, and the stop comes to its end."""
    async with serve(queues=["others"]) as node:
        client = await perdure.connect(node.url)
        for connection in list(node.server._state.connections):
            connection.shutdown()
            connection.shutdown()
        await client.close()
