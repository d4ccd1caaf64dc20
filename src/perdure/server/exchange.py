"""One request over the port and what became of it: who asked, under which id, how it was answered. Finds no route and asks no gate."""

import logging
import re
from typing import Final

from starlette.types import Message, Receive, Scope, Send

from perdure.core.principal import Principal
from perdure.ports import Chance

access_log: Final = logging.getLogger("perdure.access")
"""One line a request, at level INFO: caller, method, path, status, milliseconds, request id."""

_is_request_id: Final = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}").fullmatch
NOBODY: Final = Principal("-", "read-only")
"""Who asks what anyone may ask."""


class Exchange:
    """`chance` makes the id of a request that brings none. A WebSocket is one exchange, to its end."""

    __slots__ = (
        "_send",
        "began",
        "headers",
        "held",
        "id",
        "is_socket",
        "method",
        "principal",
        "raw_path",
        "receive",
        "route_path",
        "scope",
        "status",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send, chance: Chance) -> None:
        self.scope = scope
        self.receive = receive
        self._send = send
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        given = self.headers.get("x-request-id", "")
        self.id = given if _is_request_id(given) else chance.token()
        self.is_socket = scope["type"] == "websocket"
        self.method: str = "WEBSOCKET" if self.is_socket else scope["method"]
        self.raw_path: str = scope["raw_path"].decode("latin-1")
        self.route_path = ""
        """The template of the path, once its route is found."""
        self.principal = NOBODY
        self.status = 0
        self.held = 0
        self.began = False

    @property
    def peer(self) -> str:
        """The caller's address, without its port."""
        client = self.scope.get("client")
        return client[0] if client else ""

    async def tell(self, message: Message) -> None:
        """`send` of a stream, which sees when it has begun."""
        if not self.began:
            self.began = True
            self.status = message.get("status", 101)
        await self._send(message)

    async def begin(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """Answer whole. A WebSocket that was not accepted is answered like any request."""
        self.began = True
        kind = "websocket.http.response" if self.is_socket else "http.response"
        await self._send({"type": f"{kind}.start", "status": status, "headers": headers})
        await self._send({"type": f"{kind}.body", "body": body})

    def log(self, ms: float) -> None:
        """Words for people, and the same bound to the record for programs."""
        bound = {"peer": self.peer, "principal": self.principal.name, "status": self.status, "request_id": self.id}
        access_log.info(
            "%s %s %s %s %d %.1fms %s",
            self.peer,
            self.principal.name,
            self.method,
            self.raw_path,
            self.status,
            ms,
            self.id,
            extra=bound,
        )
