"""uvicorn's WebSocket protocol under guard: one whose other end does not read is cut, and does not stay half closed for ever."""

from typing import TYPE_CHECKING, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.protocol import State

if TYPE_CHECKING:
    import asyncio

    from uvicorn._types import ASGISendEvent

CUT_S: Final = 1.0
"""So long after the application is done with it, or the other end has given no sign of life, may a connection take to close."""


class GuardedSocket(WebSocketsSansIOProtocol):
    """One connection."""

    async def send(self, message: "ASGISendEvent") -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True  # answered, with a refusal: uvicorn would log that it was not answered at all

    def on_task_complete(self, task: "asyncio.Task[None]") -> None:
        super().on_task_complete(task)
        self._cut_later()

    def shutdown(self) -> None:
        if self.handshake_complete and self.conn.state is not State.OPEN:
            self.stop_keepalive()  # one end has begun to close it: uvicorn would say goodbye once more, which may not be said twice
            self.transport.close()
        else:
            super().shutdown()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self._cut_later()

    def _cut_later(self) -> None:
        self.loop.call_later(CUT_S, self.transport.abort)
