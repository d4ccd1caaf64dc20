"""uvicorn's HTTP protocol under guard: what it does not bound itself is bounded here.

Bounds the time to send headers and body, the bytes and number of headers, the length of the URL, what is pipelined, the connections,
and callers that never read their answer. Answers with the envelope where an answer can still be given; else the connection is cut.
"""

from asyncio import TimerHandle, Transport
from email.utils import formatdate
from typing import Any, Final, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from perdure.runtime.http_limits import HttpLimits
from perdure.server.envelope import OWN, STATUS, envelope

PHRASES: Final = {
    400: "Bad Request",
    408: "Request Timeout",
    414: "URI Too Long",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}

LINGERING_S: Final = 1.0
"""So long is read on, and thrown away, from whoever was refused in the midst of what they sent."""
LINGERING_BYTES_MAX: Final = 4 * 1024 * 1024


class _Passed(Exception):  # noqa: N818  it never leaves the parser
    """A bound was passed while the parser was at it."""


class GuardedProtocol(HttpToolsProtocol):
    """One connection. `limits` and `chance` are the server's; see `http_server`."""

    limits: HttpLimits
    fresh_id: Any

    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any], _loop: Any = None) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._deadline: TimerHandle | None = None
        self._unread: TimerHandle | None = None
        self._unread_bytes = 0
        self._in_head = False
        """A request has begun whose headers have not ended."""
        self._in_body = False
        self._is_refused = False
        """The last word was said: what still comes is thrown away."""
        self._head_bytes = 0
        self._head_fields = 0
        self._raw_bytes = 0
        """What came since the request began, or the last one ended."""
        self._no: tuple[str, str] | None = None
        """Code and message of what was refused."""
        self._is_websocket = False
        """Another protocol has the connection: whatever is written here would be taken for one of its frames."""

    # ---------------------------------------------------------------------------------------------------------- connection

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections_max:
            self._refuse("UNAVAILABLE", f"{self.limits.connections_max} connections are open (http.connections_max)")
            return
        self._arm(self.limits.head_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().connection_lost(exc)
        for cycle, _ in self.pipeline:
            cycle.disconnected = True
        self.pipeline.clear()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._raw_bytes += len(data)
        if self._is_refused:
            if self._raw_bytes > LINGERING_BYTES_MAX:
                self.transport.close()
            return
        super().data_received(data)
        if self._is_out_of_hand:
            return
        if not self._in_body and self._raw_bytes > self.limits.header_bytes_max + self.limits.url_bytes_max:
            self._refuse(*_MANY_BYTES)
        elif self._is_idle and self._deadline is None and self.timeout_keep_alive_task is None:
            self._arm(self.limits.idle_s)  # bytes that begin no request, such as empty lines

    def handle_websocket_upgrade(self) -> None:
        self._is_websocket = True
        self._disarm()
        super().handle_websocket_upgrade()

    # -------------------------------------------------------------------------------------------------------------- parser

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._head_bytes = self._head_fields = self._raw_bytes = 0
        self._arm(self.limits.head_s)

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self.limits.url_bytes_max:
            self._pass("URL_TOO_LONG", f"the URL has more than {self.limits.url_bytes_max:,} bytes (http.url_bytes_max)")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value)
        self._head_fields += 1
        limits = self.limits
        if self._head_bytes > limits.header_bytes_max:
            self._pass(
                "HEADERS_TOO_LARGE", f"the headers have more than {limits.header_bytes_max:,} bytes (http.header_bytes_max)"
            )
        if self._head_fields > limits.headers_max:
            self._pass("HEADERS_TOO_LARGE", f"there are more than {limits.headers_max} headers (http.headers_max)")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= self.limits.pipelined_max:
            self._pass(
                "INVALID_ARGUMENT", f"more than {self.limits.pipelined_max} requests are sent ahead (http.pipelined_max)"
            )
        parser: Any = self.parser
        if parser.get_http_version() not in {"1.0", "1.1"}:
            self._pass("INVALID_ARGUMENT", "this is no HTTP/1.1 request")
        self._in_head, self._in_body = False, True
        self._arm(self.limits.body_s)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_body = False
        self._raw_bytes = 0
        self._disarm()
        super().on_message_complete()

    def _pass(self, code: str, message: str) -> None:
        self._no = (code, message)
        raise _Passed(message)

    @property
    def _is_out_of_hand(self) -> bool:
        """True when nothing more is read here: it was refused, closed, or became a WebSocket."""
        return self._is_refused or self._is_websocket or self.transport.is_closing()

    @property
    def _is_idle(self) -> bool:
        """True while no request is on its way in and none is being answered."""
        return not self._in_head and not self._in_body and not self._is_answering

    @property
    def _is_answering(self) -> bool:
        """True while a request was taken that is not answered whole."""
        cycle = cast("RequestResponseCycle | None", self.cycle)  # until the first request there is none
        return cycle is not None and not cycle.response_complete

    # --------------------------------------------------------------------------------------------------------------- clocks

    def _arm(self, seconds: float) -> None:
        self._disarm()
        self._deadline = self.loop.call_later(seconds, self._late)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self) -> None:
        self._deadline = None
        if self.transport.is_closing():
            return
        if self._in_head and self._is_answering:
            self._arm(self.limits.head_s)  # an earlier request is still being answered: its caller is not to lose that
        elif self._is_idle:
            self.transport.close()
        else:
            self._refuse("REQUEST_TIMEOUT", "the request was not sent in time (http.head_s, http.body_s)")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def _watch(self) -> None:
        self._unread_bytes = self.transport.get_write_buffer_size()
        self._unread = self.loop.call_later(self.limits.unread_s, self._check_read)

    def _check_read(self) -> None:
        """Cut a caller that has taken nothing at all of its answer meanwhile; whoever reads slowly goes on."""
        if self.transport.get_write_buffer_size() >= self._unread_bytes:
            self.transport.abort()
        else:
            self._watch()

    def timeout_keep_alive_handler(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            super().timeout_keep_alive_handler()

    # ------------------------------------------------------------------------------------------------------------- refusals

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  uvicorn's
        """Called by uvicorn when its parser gives up."""
        code, message = self._no or ("INVALID_ARGUMENT", "this is no HTTP/1.1 request")
        self._refuse(code, message)

    def _refuse(self, code: str, message: str) -> None:
        """Say no and close. Where this might be taken for the answer to another request, only close."""
        self._disarm()
        if self.transport.is_closing():
            return
        if not self._may_answer:
            self.transport.close()
            return
        self.transport.write(_refusal(code, message, self.fresh_id()))
        self._give_up_requests()
        if self.transport.can_write_eof():
            self._linger()
        else:
            self.transport.close()

    def _linger(self) -> None:
        """Say that nothing more is coming, and read a little on: a connection closed at once takes what was said last with it."""
        self._is_refused = True
        self._raw_bytes = 0
        self.transport.write_eof()
        self._deadline = self.loop.call_later(LINGERING_S, self.transport.close)

    def _give_up_requests(self) -> None:
        if self._is_answering:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    @property
    def _may_answer(self) -> bool:
        if self._is_answering:
            return self._in_body and not self.cycle.response_started and not self.pipeline
        return not self._in_body  # else what is being sent was answered already


_MANY_BYTES: Final = (
    "HEADERS_TOO_LARGE",
    "the request line and headers do not end (http.header_bytes_max, http.url_bytes_max)",
)


def _refusal(code: str, message: str, request_id: str) -> bytes:
    status = STATUS.get(code) or OWN[code]
    body = envelope(code, message, request_id)
    head = (
        f"HTTP/1.1 {status} {PHRASES[status]}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        f"x-request-id: {request_id}\r\ndate: {formatdate(usegmt=True)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
