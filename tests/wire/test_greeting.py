"""What comes right behind a greeting, or in one frame with it, counts as much as what comes later."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import Raw, json
from websockets.frames import Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

import perdure
from perdure.core.errors import Unavailable
from perdure.core.limits import LIMITS
from perdure.core.replies import RunResult
from perdure.wire.faults import fault_of
from perdure.wire.frames import Inbox, text_of, to_node
from perdure.wire.messages import VERSION, AskResult, Failed, Found, Head, Hello, Leaving, Message, ToNode, Welcome

WELCOME = Welcome(version=VERSION, resumed=False, node="n", lives_for=10_000_000, limits=LIMITS, may_work=True)

Says = Callable[["Scripted", ToNode], None]


class Scripted(asyncio.Protocol):
    """One connection of a node that says what a test tells it to say, all that it says to one message in one write."""

    def __init__(self, says: Says, is_here: Callable[[], None]) -> None:
        self._is_here = is_here
        self._wire = ServerProtocol()
        self._says = says
        self._inbox: Inbox[ToNode] = to_node()
        self.n = 0
        self.acks: list[int] = []
        """What the frames that came acknowledged."""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._is_here()

    def data_received(self, data: bytes) -> None:
        self._wire.receive_data(data)
        for event in self._wire.events_received():
            if isinstance(event, Request):
                self._wire.send_response(self._wire.accept(event))
            elif event.opcode is Opcode.BINARY:
                head, messages = self._inbox.take(bytes(event.data))
                self.acks.append(head.ack)
                for message in messages:
                    self._says(self, message)
        self._transport.write(b"".join(self._wire.data_to_send()))
        if self._wire.close_expected():
            self._transport.close()

    def say(self, *messages: Message, n: int = 0) -> None:
        """One frame."""
        self.n = n or self.n + 1
        self._wire.send_binary(b"\n".join(map(text_of, (Head(n=self.n, now=1), *messages))))

    def close(self) -> None:
        self._wire.send_close(1001, "the node is stopping")

    def cut(self) -> None:
        """End the connection with what was said before, without goodbye."""
        self._transport.write(b"".join(self._wire.data_to_send()))
        self._transport.close()


@asynccontextmanager
async def scripted(*lives: Says) -> Any:
    """A node that says so on its first connection, its second, and so on; then nobody listens any more. Gives its address and its
    connections."""
    left: Iterator[Says] = iter(lives)
    made: list[Scripted] = []

    def accept() -> Scripted:
        made.append(Scripted(next(left), is_here))
        return made[-1]

    def is_here() -> None:
        if len(made) == len(lives):
            server.close()

    server = await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", made
    finally:
        server.close()
        for connection in made:
            connection._transport.abort()


def leaves(node: Scripted) -> None:
    node.say(Leaving())


def leaves_and_closes(node: Scripted) -> None:
    node.say(Leaving())
    node.close()


@pytest.mark.parametrize("then", [leaves_and_closes, Scripted.close, Scripted.cut])
async def test_a_node_that_leaves_behind_its_welcome_is_gone(then: Callable[[Scripted], None]) -> None:
    """The end of the connection comes in one piece with the welcome: whoever waits for a result is told when its patience has ended."""

    def says(node: Scripted, message: ToNode) -> None:
        if isinstance(message, Hello):
            node.say(WELCOME)
            then(node)

    async with scripted(says) as (url, _), await perdure.connect(url) as client:
        client.frontend.result_patience_s = 0.1
        with pytest.raises(Unavailable, match="cannot be reached"):
            await client.handle("w").result()
        assert not client.frontend.asker.is_connected


async def test_nothing_is_asked_of_a_node_that_leaves() -> None:
    """The word that it leaves comes in one piece with the welcome: what is asked then waits for the next node."""
    asked: list[ToNode] = []

    def first(node: Scripted, message: ToNode) -> None:
        asked.append(message)
        node.say(WELCOME)
        leaves(node)

    def second(node: Scripted, message: ToNode) -> None:
        node.say(WELCOME if isinstance(message, Hello) else found(message))

    async with scripted(first, second) as (url, made), await perdure.connect(url) as client:
        assert not client.frontend.asker.is_connected
        waiting = asyncio.create_task(client.frontend.result("default", "w"))
        await asyncio.sleep(0)
        assert client.frontend.asker.unanswered == 1
        made[0].cut()
        assert (await waiting).run_id == "r"
        assert [type(message) for message in asked] == [Hello]


async def test_what_is_answered_with_the_welcome_is_not_asked_again() -> None:
    """A node that knows the session answers in the greeting's frame what it had answered before: that counts, and is acknowledged."""
    again: list[ToNode] = []
    asks: list[AskResult] = []

    def first(node: Scripted, message: ToNode) -> None:
        if isinstance(message, Hello):
            node.say(WELCOME)
            return
        assert isinstance(message, AskResult)
        asks.append(message)
        node.cut()

    def second(node: Scripted, message: ToNode) -> None:
        again.append(message)
        if isinstance(message, Hello):
            node.say(WELCOME, found(asks[0]))

    async with scripted(first, second) as (url, _), await perdure.connect(url) as client:
        assert (await client.frontend.result("default", "w")).run_id == "r"
        assert [type(message) for message in again] == [Hello]
        assert client.frontend.asker.unanswered == 0


async def test_a_refusal_acknowledges_nothing() -> None:
    """The frame that refuses a connection has a number of its own: the next greeting says what had come before it."""

    def first(node: Scripted, message: ToNode) -> None:
        if isinstance(message, Hello):
            node.say(WELCOME)
        else:
            node.say(Failed(id=0, error=fault_of(Unavailable("no more"))), n=1 << 40)
            node.close()

    def second(node: Scripted, message: ToNode) -> None:
        node.say(Failed(id=0, error=fault_of(Unavailable("not yet"))), n=1 << 40)
        node.close()

    def third(node: Scripted, message: ToNode) -> None:
        node.say(WELCOME if isinstance(message, Hello) else found(message))

    async with scripted(first, second, third) as (url, made), await perdure.connect(url) as client:
        assert (await client.frontend.result("default", "w")).run_id == "r"
        assert [connection.acks[0] for connection in made] == [0, 1, 1]


def found(ask: ToNode) -> Found:
    """The answer to who waits for a result."""
    assert isinstance(ask, AskResult)
    return Found(id=ask.id, ok=Raw(json.encode(RunResult(run_id="r", status="completed"))))
