"""One WebSocket connection of an asker: bytes in and out by plain calls on the loop's thread, no task in between.

It knows frames as bytes. A half-dead connection is noticed by pings: within `PING_S` and `PONG_S` together.
"""

import asyncio
from collections.abc import Callable
from ssl import SSLError
from typing import Any, Final, cast

import msgspec
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import SEND_EOF, State
from websockets.uri import parse_uri

from perdure.core.errors import PerdureError, PermissionDenied, ResourceExhausted, Unauthenticated, Unavailable
from perdure.wire.address import Address
from perdure.wire.faults import Fault, error_of
from perdure.wire.frames import WEBSOCKET_BYTES_MAX

PING_S: Final = 4.0
"""So long after the last sign of life the node is asked for one."""
PONG_S: Final = 4.0
"""So long does it have to give one."""
CLOSE_S: Final = 2.0
"""So long is a close waited for."""
UNSENT_BYTES: Final = 1024 * 1024
"""Above this, what is to be sent waits outside of the transport."""


class Socket(asyncio.Protocol):
    """`received` is called with each WebSocket message, `lost` once, when there will be no more, `writable` when there is room again."""

    def __init__(
        self,
        address: Address,
        api_key: str | None,
        received: Callable[[bytes], None],
        lost: Callable[[str], None],
        writable: Callable[[], None],
    ) -> None:
        self._wire = ClientProtocol(parse_uri(address.url), max_size=WEBSOCKET_BYTES_MAX)
        self._api_key = api_key
        self._received = received
        self._lost = lost
        self._writable = writable
        self._loop = asyncio.get_running_loop()
        self._parts: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._heard = 0.0
        self._why = ""
        self.is_writable = True
        self.opened: asyncio.Future[None] = self._loop.create_future()
        self.opened.add_done_callback(_seen)
        self.ended: asyncio.Future[None] = self._loop.create_future()

    # ------------------------------------------------------------------------------------------------------- of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=UNSENT_BYTES)
        request = self._wire.connect()
        if self._api_key:
            request.headers["Authorization"] = f"Bearer {self._api_key}"
        self._wire.send_request(request)
        self._write()

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        self._wire.receive_data(data)
        self._read()

    def eof_received(self) -> None:
        self._wire.receive_eof()
        self._read()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._end(self._why or (str(exc) if exc is not None else "the connection was closed"))
        if not self.ended.done():
            self.ended.set_result(None)

    def pause_writing(self) -> None:
        self.is_writable = False

    def resume_writing(self) -> None:
        self.is_writable = True
        self._writable()

    # ------------------------------------------------------------------------------------------------------------- in and out

    def send(self, frame: bytes) -> None:
        """Send one WebSocket message. On a connection that is about to end it is lost, as it might have been on the way."""
        if self._wire.state is State.OPEN:
            self._wire.send_binary(frame)
            self._write()

    def close(self, why: str = "") -> None:
        """Say goodbye; the connection is gone at once for whoever holds it, and for good a moment later."""
        self._why = why
        if not self.opened.done() or self._transport is None or self._wire.close_expected() or self._transport.is_closing():
            self.abort(why)
            return
        self._wire.send_close(1000, why[:100])
        self._write()
        self._loop.call_later(CLOSE_S, self.abort, why)

    def abort(self, why: str) -> None:
        """Cut the connection; whoever holds it is told at once."""
        self._why = self._why or why
        if self._transport is not None:
            self._transport.abort()
            self._end(self._why)

    def _write(self) -> None:
        assert self._transport is not None
        for data in self._wire.data_to_send():
            if data is SEND_EOF or not data:
                if self._transport.can_write_eof():
                    self._transport.write_eof()
            elif not self._transport.is_closing():
                self._transport.write(data)

    def _read(self) -> None:
        for event in self._wire.events_received():
            if isinstance(event, Response):
                self._answered(event)
            elif not isinstance(event, Frame):
                continue
            elif event.opcode in {Opcode.BINARY, Opcode.TEXT, Opcode.CONT}:
                self._message(event)
            elif event.opcode is Opcode.CLOSE:
                close = self._wire.close_rcvd
                self._why = self._why or (close.reason if close is not None else "") or "the node closed the connection"
        if self._wire.handshake_exc is not None:
            self._refused(_error_of(self._wire.handshake_exc))
        self._write()
        if self._wire.parser_exc is not None:
            self.abort(str(self._wire.parser_exc))
        elif self._wire.close_expected():
            self._end(self._why or "the connection is closing")
            self._loop.call_later(CLOSE_S, self.abort, self._why)

    def _message(self, frame: Frame) -> None:
        self._parts.append(bytes(frame.data))
        if frame.fin:
            data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            self._parts = []
            self._received(data)

    def _answered(self, response: Response) -> None:
        if response.status_code == 101 and not self.opened.done():
            self.opened.set_result(None)
            self._watch()

    def _refused(self, error: PerdureError) -> None:
        if not self.opened.done():
            self.opened.set_exception(error)
        self.abort(error.message)

    def _end(self, why: str) -> None:
        """Tell whoever holds this, once, that nothing more will come."""
        if not self.opened.done():
            self.opened.set_exception(Unavailable(why))
        lost, self._lost = self._lost, _nobody
        lost(why)

    # ----------------------------------------------------------------------------------------------------------- signs of life

    def _watch(self) -> None:
        self._alarm = self._loop.call_later(PING_S, self._ping)

    def _ping(self) -> None:
        silent = self._loop.time() - self._heard
        if silent < PING_S:
            self._alarm = self._loop.call_later(PING_S - silent, self._ping)
            return
        if self._transport is None or self._transport.is_closing() or self._wire.close_expected():
            return
        self._wire.send_ping(b"perdure")
        self._write()
        self._alarm = self._loop.call_later(PONG_S, self._look, self._loop.time())

    def _look(self, pinged: float) -> None:
        # Once more round the loop: after a long callback the answer lies in the socket, unread.
        self._alarm = self._loop.call_later(0.05, self._judge, pinged)

    def _judge(self, pinged: float) -> None:
        if self._heard >= pinged:
            self._watch()
        else:
            self.abort(f"the node has been silent for {PING_S + PONG_S:g} s")


def _seen(opened: "asyncio.Future[None]") -> None:
    """Whoever gave up waiting does not ask why it failed."""
    if not opened.cancelled():
        opened.exception()


def _nobody(_why: str) -> None:
    """Whoever held the connection has been told."""


class _Envelope(msgspec.Struct):
    error: Fault


def _error_of(refusal: Exception) -> PerdureError:
    """Why the node would not open the connection."""
    if not isinstance(refusal, InvalidStatus):
        return Unavailable(f"whatever listens there is no perdure node: {refusal}")
    status, body = refusal.response.status_code, bytes(refusal.response.body or b"")
    try:
        return error_of(msgspec.json.decode(body, type=_Envelope).error)
    except msgspec.MsgspecError:
        kind: Any = {401: Unauthenticated, 403: PermissionDenied, 429: ResourceExhausted}.get(status, Unavailable)
        return cast("PerdureError", kind(f"the node answered with HTTP status {status}"))


def _untrusted(address: Address, error: SSLError) -> str:
    """Why TLS did not come about, in words for whoever wrote the address."""
    if error.reason == "WRONG_VERSION_NUMBER":
        return f"what listens at {address.base} speaks no TLS: is it http:// instead of https://?"
    why = getattr(error, "verify_message", "") or error.reason or error
    return f"{address.base} cannot be trusted ({why}); is ca= right?"


async def open_socket(
    address: Address,
    api_key: str | None,
    received: Callable[[bytes], None],
    lost: Callable[[str], None],
    writable: Callable[[], None],
) -> Socket:
    """Connect. Raises `Unavailable`, or what the node's gate says (`PermissionDenied`, `ResourceExhausted`)."""
    loop = asyncio.get_running_loop()
    made = Socket(address, api_key, received, lost, writable)
    try:
        await loop.create_connection(lambda: made, address.host, address.port, ssl=address.tls)
        await made.opened
    except SSLError as error:
        made.opened.cancel()
        raise Unavailable(_untrusted(address, error)) from None
    except OSError as error:
        made.opened.cancel()
        why = "connection refused" if isinstance(error, ConnectionRefusedError) else error.strerror or error
        raise Unavailable(f"no node answers at {address.base}: {why}") from None
    except BaseException:
        made.abort("given up")
        raise
    return made
