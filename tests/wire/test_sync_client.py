"""The client that is not awaited, over a real port: from threads, over a restart of the node, with a codec, and what it refuses."""

import asyncio
import threading
from typing import Any

import pytest

import perdure
from perdure import workflow
from perdure.codecs import Zstd
from perdure.errors import InvalidArgument, PermissionDenied, Unavailable
from perdure.runtime.api_key import hash_of
from perdure.runtime.clock import RealClock
from perdure.server.access import Gate, KnownKey, Principal


@workflow
async def waits(name: str) -> str:
    return name + await workflow.receive("go", str)


def talk(url: str) -> list[str]:
    """What a program without a loop does."""
    with perdure.SyncClient(url) as client:
        handle = client.start(waits, "a", id="w")
        assert [item.kind for item in handle.stack().waits_for]
        handle.signal("go", "b", signal_id="s")
        return [handle.result(timeout=20), *[run.workflow_id for run in client.list()]]


async def test_a_program_without_a_loop(serve: Any) -> None:
    """It starts, signals, waits and lists from a thread of its own."""
    async with serve() as node, await perdure.connect(node.url) as client, perdure.Worker(client, workflows=[waits]):
        assert await asyncio.to_thread(talk, node.url) == ["ab", "w"]


async def test_threads_share_a_client_and_a_restart_of_the_node(serve: Any) -> None:
    """Eight threads wait through one client while the node is stopped and started again; each gets its own result."""
    async with serve() as node:
        sync, port = perdure.SyncClient(node.url), node.server.port
        handles = await asyncio.to_thread(lambda: [sync.start(waits, f"{n}", id=f"w{n}") for n in range(8)])
        waiting = [asyncio.create_task(asyncio.to_thread(handle.result, 40)) for handle in handles]
        await asyncio.to_thread(sync.count)
    async with serve(port=port) as node, await perdure.connect(node.url) as client, perdure.Worker(client, workflows=[waits]):
        for n in range(8):
            await client.handle(f"w{n}").signal("go", "!")
        assert await asyncio.gather(*waiting) == [f"{n}!" for n in range(8)]
        await asyncio.to_thread(sync.close)


async def test_codec_and_interceptors_are_the_clients_own(serve: Any) -> None:
    """Given to the sync client they stand where they stand with `connect`; interceptors see the caller's context."""
    seen: list[str] = []

    class Noting(perdure.Interceptor):
        async def call(self, call: Any, next: Any) -> Any:
            seen.append(threading.current_thread().name)
            return await next(call)

    def program() -> str:
        with perdure.SyncClient(node.url, codec=Zstd(), interceptors=[Noting()]) as client:
            handle = client.start(waits, "x" * 5_000, id="w")
            handle.signal("go", "!")
            return handle.result(20)

    async with (
        serve() as node,
        await perdure.connect(node.url, codec=Zstd()) as client,
        perdure.Worker(client, workflows=[waits]),
    ):
        assert await asyncio.to_thread(program) == "x" * 5_000 + "!"
    assert set(seen) == {"perdure client"}


async def test_a_key_that_is_refused(serve: Any) -> None:
    """PermissionDenied at the first call, and the client may be closed."""
    key = KnownKey(Principal("ann", "admin"), hash_of("right"))

    def program(given: str) -> int:
        with perdure.SyncClient(node.url, given) as client:
            return client.count()

    async with serve(gate=Gate([key], RealClock())) as node:
        assert await asyncio.to_thread(program, "right") == 0
        with pytest.raises(PermissionDenied):
            await asyncio.to_thread(program, "wrong")


def test_what_can_be_no_address_is_refused_when_it_is_made() -> None:
    """Without a connection."""
    for wrong in ({"address": "nonsense://x"}, {"namespace": ""}, {"timeout": 0}, {"timeout": "3"}):
        with pytest.raises(InvalidArgument):
            perdure.SyncClient(**wrong)


def test_nobody_there_is_unavailable() -> None:
    """After `timeout` seconds, at the call."""
    client = perdure.SyncClient("http://127.0.0.1:1", timeout=0.2)
    with pytest.raises(Unavailable):
        client.count()
    client.close()


async def test_it_says_what_to_do_inside_a_loop() -> None:
    """A clear error in place of a standstill."""
    client = perdure.SyncClient()
    with pytest.raises(RuntimeError, match=r"perdure\.connect\(\)"):
        client.count()
    client.close()
