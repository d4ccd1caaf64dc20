"""A wire that breaks on command: stands between an asker and its node and passes frames on, but for what it was told to do to some of them.

It breaks only what TCP can break (a connection may end between any two frames, delivered or not), and, when asked, what it cannot: frames
that come twice or change places.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, Self

from msgspec import Struct
from websockets.asyncio.client import connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from perdure.wire.frames import WEBSOCKET_BYTES_MAX

Direction = Literal["in", "out"]
"""To the node, or from it."""
FIRST: Final = 1
"""The greeting, which is frame 1 of each connection either way, is never doubled and never changes places."""


class Unkindness(Struct, frozen=True, kw_only=True):
    """`cut_at`: the connection ends with the frame of that number (counted over all connections, from 1), which arrives before when
    `delivered`. `cut_every`: again each time so many more have passed. `twice`: every frame comes twice. `swapped`: of frames that come
    close together, each two change places."""

    direction: Direction = "in"
    cut_at: int = 0
    cut_every: int = 0
    delivered: bool = False
    twice: bool = False
    swapped: bool = False


class UnkindWire:
    """Listens on a port of its own for the node at `host`, `port`. `on_cut` is awaited when a connection has been cut, before another is let in."""

    def __init__(
        self, host: str, port: int, unkindness: Unkindness, on_cut: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self.host = host
        self.port = port
        self.passed: dict[Direction, int] = {"in": 0, "out": 0}
        """Frames seen in each direction."""
        self.cuts = 0
        self._unkindness = unkindness
        self._on_cut = on_cut
        self._between = asyncio.Event()
        self._between.set()
        self._server: Server | None = None

    @property
    def url(self) -> str:
        """Where askers find it."""
        assert self._server is not None
        return f"http://127.0.0.1:{next(iter(self._server.sockets)).getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._server = await serve(
            self._relay, "127.0.0.1", 0, compression=None, max_size=WEBSOCKET_BYTES_MAX, ping_interval=None, close_timeout=0.5
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _relay(self, asker: ServerConnection) -> None:
        await self._between.wait()
        assert asker.request is not None
        kept = {name: asker.request.headers[name] for name in ("Authorization",) if name in asker.request.headers}
        url = f"ws://{self.host}:{self.port}{asker.request.path}"
        try:
            async with connect(
                url,
                additional_headers=kept,
                compression=None,
                proxy=None,
                max_size=WEBSOCKET_BYTES_MAX,
                ping_interval=None,
                close_timeout=0.5,
            ) as node:
                both = [
                    asyncio.ensure_future(self._pass("in", asker, node)),
                    asyncio.ensure_future(self._pass("out", node, asker)),
                ]
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                cut = any(task.done() and task.result() for task in both)
                for task in both:
                    task.cancel()
                await asyncio.gather(*both, return_exceptions=True)
                if cut:
                    await self._cut(asker, node)
        except OSError:
            pass  # the node is away: the asker's connection ends with this

    async def _cut(self, *ends: Any) -> None:
        self.cuts += 1
        self._between.clear()
        for end in ends:
            end.transport.abort()
        if self._on_cut is not None:
            await self._on_cut()
        self._between.set()

    async def _pass(self, direction: Direction, source: Any, target: Any) -> bool:
        """Pass frames on; true when the connection is to be cut."""
        number = 0
        try:
            async for frame in source:
                number += 1
                frames = [frame]
                if self._unkindness.swapped and number > FIRST and b'"is":"beat"' not in frame:
                    frames = await _with_next(source, frame)
                for each in frames:
                    if await self._one(direction, each, target, number):
                        return True
        except ConnectionClosed:
            pass
        return False

    async def _one(self, direction: Direction, frame: Any, target: Any, number: int) -> bool:
        unkind = self._unkindness
        self.passed[direction] += 1
        ends = direction == unkind.direction and _is_due(unkind, self.passed[direction])
        if ends and not unkind.delivered:
            return True
        await target.send(frame)
        if unkind.twice and number > FIRST:
            await target.send(frame)
        return ends


def _is_due(unkind: Unkindness, count: int) -> bool:
    if count == unkind.cut_at:
        return True
    return bool(unkind.cut_every) and count > unkind.cut_at and (count - unkind.cut_at) % unkind.cut_every == 0


async def _with_next(source: Any, frame: Any) -> list[Any]:
    """The frame behind the one that comes next, when one comes at once."""
    try:
        async with asyncio.timeout(0.01):
            return [await source.recv(), frame]
    except TimeoutError:
        return [frame]
