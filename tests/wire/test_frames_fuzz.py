"""Frames that were real and are not any more: thousands of them kill nothing and corrupt nothing. The seed is in a failure's first line."""

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

import perdure
from perdure import activity, workflow
from perdure.core.errors import LimitExceeded
from perdure.wire.frames import FrameError, Unreadable, from_node, single, to_node
from perdure.wire.messages import VERSION, Head, Hello
from perdure.wire.socket import Socket

SEED = 20_260_412
ODD = (
    b"-1", b"0", b"1e400", b"18446744073709551616", b'"', b"{", b"[", b"]", b"}", b"null", b"true", b"\n", b"\x00", b"\xff\xfe", b"\\u0000",
    b"\\ud800", b"[" * 400, b'{"a":' * 400, b'{"is":"frame","n":5}', b'{"is":"hello","version":1,"session":"x"}', b"+", b".", b" " * 5_000,
)  # fmt: skip


def mutated(frame: bytes, chance: random.Random) -> bytes:
    """The frame, with one to four things wrong."""
    data = bytearray(frame)
    for _ in range(chance.randint(1, 4)):
        at, end = sorted((chance.randrange(len(data) + 1), chance.randrange(len(data) + 1)))
        match chance.randrange(7):
            case 0:
                if data:
                    data[min(at, len(data) - 1)] ^= 1 << chance.randrange(8)
            case 1:
                del data[at:]
            case 2:
                del data[at : min(end, at + 40)]
            case 3:
                data[at:at] = chance.choice(ODD)
            case 4:
                data[at:at] = data[at : min(end, at + 200)]
            case 5:
                lines = bytes(data).split(b"\n")
                chance.shuffle(lines)
                data = bytearray(b"\n".join(lines))
            case _:
                data[at : at + 1] = bytes((chance.randrange(256),))
    return bytes(data)


@activity
async def add(a: int, b: int) -> int:
    return a + b


@workflow
async def total(n: int) -> int:
    found = 0
    for i in range(n):
        found = await add(found, i)
    return found


@workflow
async def parked() -> int:
    return await workflow.receive("go", int)


@pytest.fixture
def frames_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What went over sockets, to the node and from it."""
    sent: list[bytes] = []
    received: list[bytes] = []
    send, message = Socket.send, Socket._message

    def watched_send(self: Socket, frame: bytes) -> None:
        sent.append(frame)
        send(self, frame)

    def watched_message(self: Socket, frame: Any) -> None:
        received.append(bytes(frame.data))
        message(self, frame)

    monkeypatch.setattr(Socket, "send", watched_send)
    monkeypatch.setattr(Socket, "_message", watched_message)
    return sent, received


async def talk(url: str) -> perdure.Client:
    """A client that has said a bit of everything, with a worker that has worked."""
    client = await perdure.connect(url)
    async with perdure.Worker(client, workflows=[total, parked], activities=[add]):
        assert await client.execute(total(3), id="closed") == 3
        handle = await client.start(parked(), id="parked")
        await handle.describe()
        await handle.signal("other", 1)
        assert [row async for row in client.list("status = 'running'")]
        await handle.history()
    return client


def wrong_frames(real: list[bytes], count: int, seed: int) -> Iterator[bytes]:
    chance = random.Random(seed)
    for _ in range(count):
        yield mutated(chance.choice(real), chance)


async def test_both_ends_read_anything(serve: Any, frames_of: Any) -> None:
    """Whatever bytes come, a reader gives messages, says which of them it cannot read, or refuses the frame; nothing else escapes it."""
    async with serve() as node:
        await (await talk(node.url)).close()
    sent, received = frames_of
    for make, real in ((to_node, sent), (from_node, received)):
        inbox = make()
        read = unread = refused = 0
        for frame in wrong_frames(real, 5_000, SEED):
            try:
                _, messages = inbox.take(frame)
            except (FrameError, LimitExceeded):
                inbox.clear()
                refused += 1
                continue
            unread += sum(isinstance(message, Unreadable) for message in messages)
            read += len(messages)
        assert read > 100
        assert unread > 100
        assert refused > 100


@pytest.mark.parametrize("seed", [SEED, SEED + 1])
async def test_no_frame_harms_the_node(serve: Any, frames_of: Any, seed: int) -> None:
    """Thousands of broken frames, each on a connection that was greeted: the node goes on, runs that were there are untouched, who else is
    connected notices nothing, and what the node has written down can be read again."""
    async with serve() as node:
        client = await talk(node.url)
        real = list(frames_of[0])
        before = [await history(node, id) for id in ("closed", "parked")]
        bystander = asyncio.create_task(client.handle("parked").result())
        frames = wrong_frames([frame for frame in real if b'"parked"' not in frame], 3_000, seed)
        connections = 0
        for batch in iter(lambda: [frame for _, frame in zip(range(50), frames, strict=False)], []):
            connections += await attack(node, batch, seed)
        assert connections > 100, f"seed {seed}"
        assert [await history(node, id) for id in ("closed", "parked")] == before, f"seed {seed}"
        assert not node.node.frontend.is_over
        async with perdure.Worker(client, workflows=[total, parked], activities=[add]):
            assert await client.execute(total(2), id=f"after-{seed}") == 1
            await client.handle("parked").signal("go", 7)
            assert await bystander == 7
        assert client.frontend.asker.connections == 1
        await client.close()
    async with serve() as again:
        assert await history(again, "closed") == before[0]
        assert await again.node.client.handle(f"after-{seed}").result() == 1


async def history(node: Any, workflow_id: str) -> Any:
    record = await node.node.frontend.record("default", workflow_id)
    return record.events


async def attack(node: Any, frames: list[bytes], seed: int) -> int:
    """Send these, a greeting before each that finds no connection; gives how many connections that took."""
    connections = 0
    wire: Any = None
    for frame in frames:
        if wire is None:
            wire = await connect(
                node.url.replace("http", "ws") + "/api/v1/wire", compression=None, proxy=None, max_size=None, ping_interval=None
            )
            connections += 1
            hello = Hello(version=VERSION, session=f"a-session-nobody-knows-{seed}-{id(wire)}-{connections}")
            await wire.send(single(Head(n=1), hello))
            await wire.recv()
        try:
            await wire.send(frame)
            if b"\n" in frame:
                continue
            async with asyncio.timeout(5):
                while True:  # a frame without any message is refused: wait for that
                    await wire.recv()
        except (ConnectionClosed, TimeoutError):
            wire = None
    if wire is not None:
        await wire.close()
    return connections
