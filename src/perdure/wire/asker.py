"""An asker's end of the wire: one session over any number of connections.

Whatever was asked is asked again on the next connection until it is answered; the node answers each request once however often it is
asked. Everything runs on the loop's thread; answers are callbacks. It knows nothing of what is asked.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import MsgspecError, Raw

from perdure.core.errors import InvalidArgument, LimitExceeded, PerdureError, PermissionDenied, ResourceExhausted, Unavailable
from perdure.core.limits import LIMITS, Limits
from perdure.ports import Answer, Chance, Clock
from perdure.wire.address import Address
from perdure.wire.arrivals import Arrivals
from perdure.wire.asked import Asked
from perdure.wire.faults import error_of
from perdure.wire.frames import TO_NODE_BYTES_MAX, FrameError, Outbox, Unreadable, from_node, text_of
from perdure.wire.messages import (
    VERSION,
    Ask,
    Failed,
    Forget,
    Found,
    FromNode,
    Head,
    Hello,
    Leaving,
    Message,
    Replied,
    Welcome,
)
from perdure.wire.owner_time import OwnerTime
from perdure.wire.socket import Socket, open_socket

OPEN_S: Final = 5.0
"""So long may a connection take to open, greeting and all."""
AGAIN_FIRST_S: Final = 0.05
AGAIN_MAX_S: Final = 2.0
"""Pauses between attempts to connect: from the first, doubled each time up to the last, each shortened by up to a half at random."""
LOOK_S: Final = 0.5
"""While there is no node it is looked this often for asks whose patience has ended."""
ASKED_BYTES_MAX: Final = 512 * 1024 * 1024
"""Text of all that is unanswered. More is refused with `ResourceExhausted`."""
UNACKNOWLEDGED_MAX: Final = 64
"""Frames received after which the node is told so, if nothing else is said to it: until then it keeps what was in them."""

log: Final = logging.getLogger(__name__)


class Asker:
    """Use it with `open` and `close`. `opening()` gives what is said first on every connection, `heard` is called with what was not
    asked for, `workers()` names the workers that speak through it."""

    def __init__(
        self,
        address: Address,
        api_key: str | None,
        clock: Clock,
        chance: Chance,
        *,
        opening: Callable[[], Iterable[Message]],
        heard: Callable[[Any], None],
        workers: Callable[[], tuple[str, ...]],
    ) -> None:
        self.address = address
        self.api_key = api_key
        self.session = chance.token()
        self.time = OwnerTime(clock)
        self.limits: Limits = LIMITS
        self.lives_for = 0
        self.may_work = True
        """What the node has said of this key, as of its limits, when it was last connected to."""
        self.outbox = Outbox()
        self.inbox = from_node()
        self.connections = 0
        """How many have been opened."""
        self.stands: Callable[[str, bool], None] | None = None
        """Hears why the connection is gone and whether the node refuses another, and the empty text when there is one again; in place of
        the log, if anybody listens."""
        self._chance = chance
        self._opening = opening
        self._heard = heard
        self._workers = workers
        self._arrivals = Arrivals()
        self._acked = 0
        self._n = 0
        self._last = 0
        self._asked: dict[int, Asked] = {}
        self._bytes = 0
        self._socket: Socket | None = None
        self._ready = False
        """Greeted on this connection, and the node has not said that it leaves."""
        self._greeting: asyncio.Future[None] | None = None
        self._flushing = False
        self._node = ""
        self._down_since = 0.0
        self._why = "no connection was made yet"
        self._closed: Unavailable | None = None
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._looking: asyncio.TimerHandle | None = None

    @property
    def is_connected(self) -> bool:
        return self._ready

    @property
    def unanswered(self) -> int:
        """Asks that wait for an answer."""
        return len(self._asked)

    # ---------------------------------------------------------------------------------------------------------------- life

    async def open(self, timeout: float) -> None:
        """Connect, trying again until `timeout` seconds have passed. Raises `Unavailable`, or what the node's gate says."""
        try:
            async with asyncio.timeout(timeout):
                await self._until_welcome()
        except TimeoutError:
            raise Unavailable(self._unanswered(timeout)) from None
        self._task = self._loop.create_task(self._stay(), name="perdure wire")

    def _unanswered(self, timeout: float) -> str:
        """Why there is no connection, naming the address once."""
        if self.address.base in self._why:
            return f"{self._why} (tried for {timeout:g} s)"
        return f"no perdure node answered at {self.address.base} within {timeout:g} s: {self._why}"

    async def _until_welcome(self) -> None:
        pause = AGAIN_FIRST_S
        while True:
            try:
                await self._connect()
            except Unavailable as error:
                self._why = error.message
            else:
                return
            await asyncio.sleep(self._jittered(pause))
            pause = min(2 * pause, AGAIN_MAX_S)

    async def _stay(self) -> None:
        """Be connected, for ever."""
        pause = AGAIN_FIRST_S
        while True:
            if self._socket is not None:
                await asyncio.wait([self._socket.ended])
                pause = AGAIN_FIRST_S
            await asyncio.sleep(self._jittered(pause))
            pause = min(2 * pause, AGAIN_MAX_S)
            try:
                async with asyncio.timeout(OPEN_S):
                    await self._connect()
            except (TimeoutError, PerdureError) as error:
                self._socket = None
                why = str(error) or f"no answer within {OPEN_S:g} s"
                if why != self._why and self.stands is None:
                    log.warning("no connection to %s: %s", self.address.base, why)
                self._why = why
                if isinstance(error, PermissionDenied):
                    if self.stands is not None:
                        self.stands(f"the node at {self.address.base} refuses: {error}", True)
                    self._fail(lambda asked: asked.may_fail, error)
            except Exception:
                log.exception("connecting to %s failed", self.address.base)
                self._socket = None

    def _jittered(self, pause: float) -> float:
        return pause * (0.5 + self._chance.seed() / 2**64)

    async def close(self) -> None:
        """Send what is still to be sent, and leave. What is unanswered fails. Idempotent."""
        if self._closed is not None:
            return
        self._closed = Unavailable("this client was closed")
        socket = self._socket
        if self._ready and socket is not None:
            self._flush()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._looking is not None:
            self._looking.cancel()
        self._ready = False
        self._fail(lambda _: True, self._closed)
        if socket is not None and not socket.ended.done():
            socket.close("this client was closed")
            await asyncio.wait([socket.ended])

    async def _connect(self) -> None:
        socket: Socket | None = None
        self._greeting = self._loop.create_future()
        self._greeting.add_done_callback(_seen)
        self.inbox.clear()
        self.outbox.clear()
        try:
            socket = await open_socket(self.address, self.api_key, self._received, self._lost, self._flush)
            self._socket = socket
            hello = Hello(version=VERSION, session=self.session, ack=self._arrivals.ack, workers=self._workers())
            self.outbox.add(text_of(hello))
            socket.send(self._frame())
            await self._greeting
        except BaseException:
            self._socket = None
            if socket is not None:
                socket.abort("given up")
            raise
        finally:
            self._greeting = None

    def _welcomed(self, welcome: Welcome) -> None:
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        self.connections += 1
        self.limits, self.lives_for, self.may_work = welcome.limits, welcome.lives_for, welcome.may_work
        if self.connections > 1 and self.stands is not None:
            self.stands("", False)
        elif self.connections > 1:
            log.info(
                "connected to %s again%s", self.address.base, "" if welcome.node == self._node else ", to another life of it"
            )
        self._node = welcome.node
        self._ready = True
        for message in self._opening():
            self.outbox.add(text_of(message))
        for asked in self._asked.values():
            asked.begin()
            self.outbox.add(asked.text)
        self._flush()

    def _lost(self, why: str) -> None:
        """The connection is gone. What was asked stays asked."""
        if self._greeting is not None and not self._greeting.done():
            self._greeting.set_exception(Unavailable(f"the node closed the connection: {why}"))
        was_ready, self._ready = self._ready, False
        self._why = why
        self._fail(lambda asked: not asked.patience, Unavailable(why))
        if self._closed is None and self.stands is not None:
            self.stands(f"the node at {self.address.base} does not answer ({why})", False)
        elif self._closed is None and was_ready:
            log.warning("the connection to %s is gone (%s); connecting again", self.address.base, why)
        if self._closed is None and self._looking is None:
            self._down_since = self._loop.time()
            self._looking = self._loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        """Tell those whose patience has ended."""
        now = self._loop.time()
        self._looking = self._loop.call_later(LOOK_S, self._look)
        down = self._down_since
        error = Unavailable(f"the node at {self.address.base} cannot be reached: {self._why}")
        self._fail(lambda asked: now - max(asked.since, down) > asked.patience, error)

    def _fail(self, which: Callable[[Asked], bool], error: PerdureError) -> None:
        for number, asked in list(self._asked.items()):
            if which(asked) and self._pop(number) is not None:
                self._answer(asked, None, error)

    # --------------------------------------------------------------------------------------------------------------- asking

    def ask(
        self,
        make: Callable[..., Ask],
        answer: Answer,
        read: Callable[[Raw], Any] | None = None,
        /,
        *,
        patience: float,
        may_fail: bool = True,
        doubt: Callable[[PerdureError], None] | None = None,
        **fields: Any,
    ) -> int:
        """Ask `make(id=…, **fields)`; `answer` hears what comes of it, perhaps at once. Gives the ask's number. The rest: see `Asked`."""
        self._last = number = self._last + 1
        try:
            text = text_of(make(id=number, **fields))
        except (MsgspecError, ValueError, TypeError, RecursionError) as error:
            answer(None, InvalidArgument(f"the request cannot be written as JSON: {error}"))
            return number
        refusal = self._closed or self._refusal(len(text))
        if not patience and not self._ready:
            refusal = refusal or Unavailable(self._why)
        if refusal is not None:
            answer(None, refusal)
            return number
        asked = Asked(text, answer, read, patience, may_fail, self._loop.time())
        self._asked[number] = asked
        self._bytes += len(text)
        asked.doubt = doubt
        if self._ready:
            asked.begin()
            self._put(text)
        return number

    def _refusal(self, size: int) -> PerdureError | None:
        if size > TO_NODE_BYTES_MAX:
            return LimitExceeded(f"the request has {size:,} bytes, more than {TO_NODE_BYTES_MAX:,} (to_node_bytes_max)")
        if self._bytes + size > ASKED_BYTES_MAX:
            return ResourceExhausted(f"requests of {ASKED_BYTES_MAX:,} bytes are unanswered (asked_bytes_max)")
        return None

    def forget(self, number: int) -> None:
        """Nobody waits for that answer any more."""
        if self._pop(number) is not None and self._ready:
            self._put(text_of(Forget(id=number)))

    def say(self, message: Message) -> None:
        """Say what is not answered. Without a connection it is not said: `opening` makes up for it."""
        if self._ready:
            self._put(text_of(message))

    def _put(self, text: bytes) -> None:
        self.outbox.add(text)
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        socket = self._socket
        while self._ready and socket is not None and self.outbox and socket.is_writable:
            socket.send(self._frame())

    def _frame(self) -> bytes:
        self._n += 1
        self._acked = self._arrivals.ack
        return self.outbox.take(Head(n=self._n, ack=self._acked))[0]

    def _pop(self, number: int) -> Asked | None:
        asked = self._asked.pop(number, None)
        if asked is not None:
            self._bytes -= len(asked.text)
        return asked

    # ------------------------------------------------------------------------------------------------------------- answers

    def _received(self, data: bytes) -> None:
        try:
            head, messages = self.inbox.take(data)
            self.time.heard(head.now)
            if self._greeting is not None and not self._greeting.done():
                self._greeted(self._greeting, head, messages)
                return
            if messages and isinstance(messages[0], Failed) and not messages[0].id:
                return  # no frame of the session: the connection is over, and the close behind it says why, too
            if not self._arrivals.is_new(head.n):
                return
        except (FrameError, LimitExceeded) as error:
            if self._socket is not None:
                self._socket.close(f"cannot be read: {error}")
            return
        for message in messages:
            self._take(message)
        if self._arrivals.ack - self._acked > UNACKNOWLEDGED_MAX and self._ready and self._socket is not None:
            self._socket.send(self._frame())

    def _greeted(self, greeting: "asyncio.Future[None]", head: Head, messages: list[FromNode | Unreadable]) -> None:
        """The first frame has come: what it says holds from here on, not from when the task that waits for it runs next, for the node may
        leave or be gone right behind it. What is answered in it is not asked again; a refusal is no frame of the session."""
        first = messages[0] if messages else None
        if isinstance(first, Welcome):
            self._arrivals.begin(head.n)
            for message in messages[1:]:
                self._take(message)
            self._welcomed(first)
            greeting.set_result(None)
        elif isinstance(first, Failed):
            greeting.set_exception(error_of(first.error))
        else:
            greeting.set_exception(Unavailable("whatever answers there does not speak this protocol"))

    def _take(self, message: FromNode | Unreadable) -> None:
        kind = type(message)
        if kind is Replied:
            asked = self._pop(message.id)  # type: ignore[union-attr]
            if asked is not None:
                self._answer(asked, message.reply, None)  # type: ignore[union-attr]
        elif isinstance(message, Found):
            self._found(message)
        elif isinstance(message, (Failed, Unreadable)):
            self._failed(message)
        elif isinstance(message, Leaving):
            self._ready = False
        else:
            self._heard(message)

    def _found(self, message: Found) -> None:
        asked = self._asked.get(message.id)
        if asked is None:
            return  # it was forgotten meanwhile
        value, error = asked.found(message)
        if error is not None or not message.more:
            self._pop(message.id)
            self._answer(asked, value, error)

    def _failed(self, message: Failed | Unreadable) -> None:
        asked = self._pop(message.id)
        if asked is None:
            return
        if isinstance(message, Failed):
            error = error_of(message.error)
            if asked.doubt is not None and asked.sent > 1:
                asked.doubt(error)
            else:
                self._answer(asked, None, error)
        else:
            self._answer(asked, None, PerdureError(f"the node's answer cannot be read by this version: {message.why}"))

    def _answer(self, asked: Asked, value: Any, error: PerdureError | None) -> None:
        try:
            asked.answer(value, error)
        except Exception:
            log.exception("taking an answer of the node failed")


def _seen(greeting: "asyncio.Future[None]") -> None:
    """A connection that was refused is known by its own error; nobody asks the greeting that never came."""
    if not greeting.cancelled():
        greeting.exception()
