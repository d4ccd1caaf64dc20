"""One connection of the wire, from its greeting to its end: frames in, frames out, and the reason why it was closed.

A frame that cannot be read costs its sender the connection and nobody else anything.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from perdure.core.errors import InvalidArgument, PerdureError, Unavailable
from perdure.core.principal import Principal
from perdure.server.wire.beats import BeatsHeard
from perdure.server.wire.reads import Reads
from perdure.wire.faults import fault_of
from perdure.wire.frames import FrameError, Unreadable, single, text_of, to_node
from perdure.wire.messages import (
    VERSION,
    AskAnswerQuery,
    AskCall,
    Beat,
    Failed,
    Forget,
    Grant,
    Head,
    Hello,
    Leaving,
    Subscribe,
    ToNode,
    Unsubscribe,
)

if TYPE_CHECKING:
    from perdure.server.wire.session import Session
    from perdure.server.wire.wire_end import WireEnd

GOING_AWAY: Final = 1001
REFUSED: Final = 1008
"""Close codes of WebSockets: the node stops; the other end has broken the protocol or a bound of it."""
STUCK_S: Final = 5.0
"""Whoever takes longer than this to read one frame reads too slowly."""
REASON_BYTES: Final = 120
"""A close frame's reason is no longer."""

log: Final = logging.getLogger(__name__)


class Connection:
    """`receive` and `send` are those of ASGI, for a WebSocket that was accepted."""

    def __init__(
        self,
        wire: "WireEnd",
        principal: Principal,
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[Any], Awaitable[None]],
        peer: str = "",
    ) -> None:
        self.peer = peer
        """Where it comes from: address and port."""
        self._wire = wire
        self._principal = principal
        self._receive = receive
        self._send = send
        self.inbox = to_node()
        self._wake = asyncio.Event()
        self._session: Session | None = None
        self._reads: Reads
        self._closing: tuple[int, str] | None = None
        self._sending: asyncio.Task[object] | None = None
        """The task that writes, while it waits for the other end to read."""
        self._sending_since = 0.0
        self._has_room = asyncio.Event()
        self._is_leaving = False
        self._flushed = asyncio.Event()
        """Set when the node stops and all it owes here has been sent, or cannot be."""

    # -------------------------------------------------------------------------------------------------------------- serving

    async def serve(self) -> None:
        """Until the other end leaves, breaks a rule, or the node stops."""
        try:
            hello = await self._greeting()
            if hello is None:
                return
            if self._closing is not None:
                await self._close_for(self._closing)
            elif hello.beats:
                await self._serve_beats(hello)
            else:
                await self._serve_session(hello)
        except PerdureError as error:
            await self._refuse(error)

    async def _greeting(self) -> Hello | None:
        try:
            async with asyncio.timeout(self._wire.limits.hello_s):
                frame = await self._next()
        except TimeoutError:
            raise FrameError(f"nothing was said for {self._wire.limits.hello_s:g} s") from None
        if frame is None:
            return None
        head, messages = self.inbox.take(frame)
        hello = messages[0] if messages else None
        if not isinstance(hello, Hello) or len(messages) > 1:
            raise FrameError("the first frame holds a hello and nothing else")
        if hello.version != VERSION:
            raise FrameError(f"this node speaks version {VERSION} of the protocol, not {hello.version}")
        self._hello_n = head.n
        return hello

    async def _next(self) -> bytes | None:
        """The next WebSocket message; None when there will be none."""
        event = await self._receive()
        if event["type"] == "websocket.disconnect":
            return None
        data = event.get("bytes")
        if data is None:
            raise FrameError("frames are binary messages")
        return bytes(data)

    async def _refuse(self, error: PerdureError) -> None:
        """Say why, and close."""
        log.info("a connection of %s is closed: %s", self._principal.name, error)
        try:
            await self._send_frame(single(Head(n=1 << 40, now=self._wire.now()), Failed(id=0, error=fault_of(error))))
            await self._close(REFUSED, error.message)
        except OSError:
            pass  # it is gone already

    async def _close(self, code: int, reason: str) -> None:
        reason = reason.encode()[:REASON_BYTES].decode(errors="ignore")
        await self._send({"type": "websocket.close", "code": code, "reason": reason})

    async def _send_frame(self, frame: bytes) -> None:
        await self._send({"type": "websocket.send", "bytes": frame})

    # ------------------------------------------------------------------------------------------------------------- a session

    async def _serve_session(self, hello: Hello) -> None:
        session, resumed = self._wire.open_session(hello, self._principal, self)
        self._session = session
        self._reads = Reads(self._wire.frontend, self._principal, self._wire.limits, self._say, session.takes, self._room)
        session.arrivals.begin(self._hello_n)
        welcome = self._wire.welcome(self._principal, resumed=resumed)
        session.outbox.add(text_of(welcome))
        session.resume()
        self._wake.set()
        reading = asyncio.get_running_loop().create_task(self._read(session), name="perdure wire reading")
        try:
            await self._write(session, reading)
        finally:
            self._flushed.set()
            reading.cancel()
            self._wire.left(session, self)
            await asyncio.gather(reading, return_exceptions=True)
            await self._reads.stop()

    def wake(self) -> None:
        """There is something to send."""
        outbox = self._session.outbox if self._session is not None else None
        if outbox is not None and outbox.size > self._wire.limits.unsent_bytes_max and self._is_stuck:
            self.drop("this end reads too slowly (wire.unsent_bytes_max)")
        self._wake.set()

    @property
    def _is_stuck(self) -> bool:
        """True when the other end has been reading at the frame that is being sent for too long. That there is much to send is no fault of
        its own: what a worker has claimed may have long histories."""
        return self._sending is not None and asyncio.get_running_loop().time() - self._sending_since > STUCK_S

    async def _room(self) -> None:
        """Wait until the other end has read enough for more to be put before it."""
        limit = self._wire.limits.unsent_bytes_max
        while self._session is not None and self._session.outbox.size > limit:
            self._has_room.clear()
            await self._has_room.wait()

    def drop(self, reason: str, code: int = REFUSED) -> None:
        """Close, whatever is still to be sent."""
        if self._closing is None:
            self._closing = (code, reason)
        if self._sending is not None:
            self._sending.cancel()  # whoever does not read keeps a frame waiting for ever
        self._wake.set()

    def _say(self, text: bytes) -> None:
        session = self._session
        if session is not None and session.connection is self:
            session.outbox.add(text)
            self.wake()

    async def _write(self, session: "Session", reading: "asyncio.Task[None]") -> None:
        """Send what there is to send, and close when that is asked for. Returns when the connection is over."""
        reading.add_done_callback(lambda _: self._wake.set())
        outbox, wake, wire = session.outbox, self._wake, self._wire
        room_again = wire.limits.unsent_bytes_max // 2
        while True:
            await wake.wait()
            wake.clear()
            while outbox and self._closing is None and session.connection is self:
                await self._send_unless_dropped(session.frame(wire.now()))
                if outbox.size <= room_again:
                    self._has_room.set()
            if self._is_leaving and not session.unanswered:
                self._flushed.set()
            if self._closing is not None:
                await self._close_for(self._closing)
                return
            if reading.done():
                await self._end_of(reading)
                return

    async def _send_unless_dropped(self, frame: bytes) -> None:
        self._sending = sending = asyncio.current_task()
        self._sending_since = asyncio.get_running_loop().time()
        try:
            await self._send_frame(frame)
        except asyncio.CancelledError:
            if self._closing is None or sending is None or sending.uncancel():
                raise  # it was not `drop`, or not `drop` alone
        finally:
            self._sending = None

    async def _close_for(self, why: tuple[int, str]) -> None:
        code, reason = why
        log.info("a connection of %s is closed: %s", self._principal.name, reason)
        try:
            async with asyncio.timeout(1.0):  # whoever does not read does not read this either
                await self._close(code, reason)
        except (TimeoutError, OSError):
            pass

    async def _end_of(self, reading: "asyncio.Task[None]") -> None:
        error = reading.exception()
        if isinstance(error, PerdureError):
            await self._refuse(error)
        elif error is not None and not isinstance(error, OSError):
            raise error

    async def _read(self, session: "Session") -> None:
        while (frame := await self._next()) is not None:
            head, messages = self.inbox.take(frame)
            if session.connection is not self:
                return  # another connection has taken the session over
            if not session.arrivals.is_new(head.n):
                continue
            session.acknowledged(head.ack)
            for message in messages:
                if type(message) is AskCall:
                    session.call(message)
                else:
                    self._take(session, message)
            if session.workers:
                self._wire.heard(session)

    def _take(self, session: "Session", message: ToNode | Unreadable) -> None:
        match message:
            case Subscribe():
                try:
                    session.subscribe(message)
                except PerdureError as error:
                    self.drop(error.message)
            case Grant():
                session.grant(message.line, message.credits)
            case Unsubscribe():
                session.unsubscribe(message.line)
            case Forget():
                self._reads.forget(message.id)
            case AskAnswerQuery() | AskCall():
                session.call(message)
            case Unreadable():
                self._unreadable(message)
            case Head() | Hello() | Beat():
                raise FrameError(f"a {type(message).__name__.lower()} has no place here")
            case _:
                self._reads.ask(message)

    def _unreadable(self, message: Unreadable) -> None:
        why = InvalidArgument(f"this is no message the node knows: {message.why}")
        if not message.id:
            raise FrameError(why.message)
        self._say(text_of(Failed(id=message.id, error=fault_of(why))))

    async def leave(self) -> None:
        """The node stops: say so, flush, close. Returns when that is done, or the other end does not read."""
        session = self._session
        if session is None:
            self.drop("the node is stopping", GOING_AWAY)
            return
        self._is_leaving = True
        self._say(text_of(Leaving()))
        try:
            async with asyncio.timeout(self._wire.limits.flush_s):
                await self._flushed.wait()
        except TimeoutError:
            log.warning("a connection of %s is closed with %d requests unanswered", self._principal.name, session.unanswered)
        self.drop("the node is stopping", GOING_AWAY)

    # ----------------------------------------------------------------------------------------------------------------- beats

    async def _serve_beats(self, hello: Hello) -> None:
        self._principal.require("work")
        heard = BeatsHeard(self._wire.frontend, self._wire.lives_for)
        numbers = 0

        async def say(message: Any) -> None:
            nonlocal numbers
            numbers += 1
            await self._send_frame(single(Head(n=numbers, now=self._wire.now()), message))

        await say(self._wire.welcome(self._principal, resumed=True))
        while (frame := await self._next()) is not None:
            for message in self.inbox.take(frame)[1]:
                if not isinstance(message, Beat):
                    raise FrameError("this connection is for beats")
                self._wire.beaten(hello.session)
                await say(await heard.take(message))
            if self._closing is not None:
                raise Unavailable(self._closing[1])
