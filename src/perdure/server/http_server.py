"""The node's one port: uvicorn's protocols inside the loop that already runs, without uvicorn's own main loop or signal handlers.

Started and stopped once. Stopping is graceful in order: the application takes nothing new and lets long polls end, what is under way
is answered, only then the port and the connections close.
"""

import asyncio
import logging
from collections.abc import Collection
from contextlib import suppress
from ssl import SSLContext
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.server import ServerState

from perdure.core.errors import Unavailable
from perdure.runtime.chance import RealChance
from perdure.server.app import App
from perdure.server.browsing import readable_by
from perdure.server.guarded_protocol import GuardedProtocol
from perdure.server.guarded_socket import GuardedSocket
from perdure.wire.frames import WEBSOCKET_BYTES_MAX

GRACE_S: Final = 10.0
"""So long may requests under way take to be answered when the server stops."""
CLOSING_S: Final = 1.0
"""So long may connections take to close before they are cut."""
PING_S: Final = 4.0
"""So often is whoever is at the other end of a WebSocket asked for a sign of life, and so long does it have to give one."""
BACKLOG: Final = 1024

log: Final = logging.getLogger(__name__)


class HttpServer:
    """Serves an application at an address. `port` 0 takes one that is free; `ssl` makes it HTTPS."""

    def __init__(
        self,
        app: App,
        host: str = "127.0.0.1",
        port: int = 7373,
        *,
        ssl: SSLContext | None = None,
        frame_bytes_max: int = WEBSOCKET_BYTES_MAX,
        origins: Collection[str] = (),
    ) -> None:
        """`origins`: whose pages may read answers, beside its own."""
        self.app = app
        self._served = readable_by(app, origins)
        self.host = host
        self.port = port
        self._ssl = ssl
        self._frame_bytes_max = frame_bytes_max
        self._state = ServerState()
        self._listener: asyncio.Server | None = None
        self._is_stopped = False

    @property
    def url(self) -> str:
        """Where it is reached, once it has started: `http://127.0.0.1:7373`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self._ssl else 'http'}://{host}:{self.port}"

    async def start(self) -> int:
        """Listen; returns the port. Raises `Unavailable` when the address cannot be taken."""
        make = self._factory()
        try:
            listener = await self._listen(make, self.port)
            ports = {bound.getsockname()[1] for bound in listener.sockets}
            if self.port == 0 and len(ports) > 1:  # a name with several addresses: one port for all of them
                listener.close()
                listener = await self._listen(make, min(ports))
        except OSError as error:
            raise Unavailable(f"cannot listen on {self.host}:{self.port}: {error.strerror or error}") from error
        self._listener = listener
        self.port = listener.sockets[0].getsockname()[1]
        return self.port

    async def _listen(self, make: Any, port: int) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        handshake_s = self.app.limits.head_s if self._ssl is not None else None
        return await loop.create_server(
            make, self.host, port, ssl=self._ssl, backlog=BACKLOG, ssl_handshake_timeout=handshake_s
        )

    def _factory(self) -> Any:
        limits = self.app.limits
        config = Config(
            self._served,
            interface="asgi3",
            http=GuardedProtocol,
            ws=GuardedSocket,
            ws_max_size=self._frame_bytes_max,
            ws_per_message_deflate=False,
            ws_ping_interval=PING_S,
            ws_ping_timeout=PING_S,
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=limits.idle_s,  # type: ignore[arg-type]  # it goes to call_later as it is
        )
        config.load()
        protocol = type("GuardedProtocol", (GuardedProtocol,), {"limits": limits, "fresh_id": staticmethod(RealChance().token)})
        return lambda: protocol(config=config, server_state=self._state, app_state={})

    async def stop(self, grace: float = GRACE_S) -> None:
        """Answer what is under way, for at most `grace` seconds, then close. Idempotent."""
        self.app.begin_to_stop()
        listener, self._listener = self._listener, None
        if listener is None:
            return
        try:
            await self._drain(grace)
        finally:
            listener.close()
            await self._close_connections()
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSING_S):
                    await listener.wait_closed()

    async def _drain(self, grace: float) -> None:
        """Until nothing is under way, WebSockets among it: these are told to close."""
        for connection in list(self._state.connections):
            connection.shutdown()
        tasks = set(self._state.tasks)
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=grace)
        if late:
            log.warning("%d requests were not answered within %g s of stopping", len(late), grace)

    async def _close_connections(self) -> None:
        """Close them all, cut those that do not, and end what was left of the requests."""
        for connection in list(self._state.connections):
            connection.shutdown()
        tasks = set(self._state.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSING_S)
        for connection in list(self._state.connections):
            connection.transport.abort()
