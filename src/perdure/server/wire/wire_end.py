"""The node's end of the wire: where clients and workers in other processes reach the engine, as one WebSocket endpoint of the node's port.

It carries requests to `ports.Frontend` and tasks from it, and decides nothing. What one connection does to it, others do not notice. It
ends with `stop`, which comes before the engine's own and before the HTTP server's.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Final

from msgspec.structs import replace
from starlette.types import Send

from perdure.core.errors import PerdureError, PermissionDenied, ResourceExhausted, Unavailable
from perdure.core.principal import Principal
from perdure.ports import Frontend
from perdure.runtime.wire_limits import WIRE_LIMITS, WireLimits
from perdure.sdk.payload_bound import limits_of
from perdure.server.access import Gate
from perdure.server.route import HttpAnswer, HttpRequest, Route, answer
from perdure.server.wire.connection import Connection
from perdure.server.wire.report_door import check_name
from perdure.server.wire.session import Session
from perdure.server.wire.traffic import Traffic
from perdure.wire.messages import PATH, VERSION, Hello, Welcome

HEARD_S: Final = 1.0
"""So often at most is it passed on that a session's workers are alive."""
SESSION_CHARS_MIN: Final = 16
"""A session's name is a secret: whoever knows it may go on with it."""

log: Final = logging.getLogger(__name__)


class WireEnd:
    """Hung into the table of routes with `routes`."""

    def __init__(
        self,
        frontend: Frontend,
        gate: Gate,
        node: str,
        *,
        limits: WireLimits = WIRE_LIMITS,
        lives_for: float | None = None,
        heard: Callable[[str, str], None] | None = None,
    ) -> None:
        """`node` names this life of the node. `lives_for`: seconds a worker's claim lives without a sign of life; None: as the engine's
        limits say. `heard` is told of each worker's signs of life, and where it is."""
        self.frontend = frontend
        self.limits = limits
        self.lives_for = int((limits_of(frontend).claim_lives_s if lives_for is None else lives_for) * 1_000_000)
        self.now = frontend.now
        self._heard = heard
        self._gate = gate
        self._node = node
        self._sessions: dict[str, Session] = {}
        self._owners: dict[str, Session] = {}
        """Which session a worker's name belongs to."""
        self._ends: dict[str, asyncio.TimerHandle] = {}
        """When sessions without a connection are forgotten, soonest first."""
        self._beats: dict[str, float] = {}
        self._connections: set[Connection] = set()
        self._ended = Traffic()
        """Of connections and sessions that are over."""
        self._stopped = False

    # ------------------------------------------------------------------------------------------------------------- serving

    def routes(self) -> tuple[Route, ...]:
        """Its places in the table of the port. The wire has its own gate: any role may connect, what is asked is looked at each by itself."""
        return (
            Route(
                method="WEBSOCKET",
                path=PATH,
                name="wire",
                summary="The wire of clients and workers",
                tag="wire",
                permission=None,
                stream=self.serve,
            ),
            Route(
                method="GET",
                path="/api/v1/traffic",
                name="traffic",
                summary="What has gone over the wire of clients and workers",
                description="Frames, messages and bytes of this life of the node; beats and what is answered to them are left out.",
                tag="Node",
                permission="read",
                handler=self.tell_traffic,
                answers={200: Traffic},
            ),
        )

    async def tell_traffic(self, _: HttpRequest) -> HttpAnswer:
        """What has gone over its connections."""
        return answer(self.traffic())

    async def serve(self, request: HttpRequest, send: Send) -> None:
        """Serve one connection. Raises why it is not taken."""
        await request.receive()  # websocket.connect
        principal = self._admit(request)
        await send({"type": "websocket.accept"})
        client = request.scope.get("client")
        connection = Connection(self, principal, request.receive, send, f"{client[0]}:{client[1]}" if client else "")
        self._connections.add(connection)
        try:
            await connection.serve()
        except OSError:
            pass  # the other end is gone
        except PerdureError as error:
            log.info("a connection of %s ended: %s", principal.name, error)
        finally:
            self._connections.discard(connection)
            self._ended.add_in(connection.inbox)

    def _admit(self, request: HttpRequest) -> Principal:
        if self._stopped:
            raise Unavailable("the node is stopping")
        client = request.scope.get("client")
        principal = self._gate.admit(request.headers, client[0] if client else "")
        if len(self._connections) >= self.limits.connections_max:
            raise ResourceExhausted(
                f"{self.limits.connections_max:,} connections are open (wire.connections_max)", retry_after=1.0
            )
        return principal

    async def stop(self) -> None:
        """Take nothing more, answer what was taken, say goodbye. Idempotent."""
        self._stopped = True
        await asyncio.gather(*(connection.leave() for connection in list(self._connections)))
        for handle in self._ends.values():
            handle.cancel()
        for session in list(self._sessions.values()):
            self._forget(session)

    # ------------------------------------------------------------------------------------------------------------ sessions

    @property
    def sessions(self) -> Iterator[Session]:
        """Everyone who asks, those whose connection is gone for a moment too."""
        return iter(self._sessions.values())

    def traffic(self) -> Traffic:
        """What has gone over its connections so far. What beats are answered with is not counted."""
        total = replace(self._ended)
        for connection in self._connections:
            total.add_in(connection.inbox)
        for session in self._sessions.values():
            total.add_out(session.outbox)
        return total

    def welcome(self, principal: Principal, *, resumed: bool) -> Welcome:
        """What a new connection is told."""
        return Welcome(
            version=VERSION,
            resumed=resumed,
            node=self._node,
            lives_for=self.lives_for,
            limits=limits_of(self.frontend),
            may_work=principal.may("work"),
        )

    def open_session(self, hello: Hello, principal: Principal, connection: Connection) -> tuple[Session, bool]:
        """The session a connection belongs to, and whether it was known. A connection it had before is closed.

        Raises `PermissionDenied` when it is somebody else's, or one of its workers is.
        """
        if len(hello.session) < SESSION_CHARS_MIN:
            raise PermissionDenied(f"a session's name has at least {SESSION_CHARS_MIN} characters")
        check_name("the session's name", hello.session)
        session = self._sessions.get(hello.session)
        known = session is not None
        if session is None:
            session = self._made(hello, principal)
        elif session.principal != principal:
            raise PermissionDenied("the session belongs to another key")
        handle = self._ends.pop(session.id, None)
        if handle is not None:
            handle.cancel()
        before = session.connection
        if before is not None:
            before.drop("another connection has taken over")
            session.detach(before)
        session.attach(connection, hello.ack if known else 0)
        try:
            for name in hello.workers:
                session.add_worker(name)
        except PerdureError:
            self.left(session, connection)
            if not known:
                self._forget(session)  # it would keep the names it has got from those they belong to
            raise
        return session, known

    def _made(self, hello: Hello, principal: Principal) -> Session:
        while len(self._sessions) >= self.limits.sessions_max and self._ends:
            self._forget(self._sessions[next(iter(self._ends))])
        session = Session(hello.session, principal, self.frontend, self.limits, self.lives_for, self._own)
        self._sessions[session.id] = session
        return session

    def _own(self, name: str, session: Session | None) -> None:
        """A worker of that name speaks through the session; None: through none any more."""
        if session is None:
            self._owners.pop(name, None)
            return
        if self._owners.setdefault(name, session) is not session:
            raise PermissionDenied(f"worker {name!r} speaks through another connection")

    def left(self, session: Session, connection: Connection) -> None:
        """A connection of the session is over."""
        if session.connection is not connection:
            return
        session.detach(connection)
        if not self._stopped:
            self._end_later(session, self.limits.session_kept_s)

    def _end_later(self, session: Session, pause: float) -> None:
        self._ends[session.id] = asyncio.get_running_loop().call_later(pause, self._end, session)

    def _end(self, session: Session) -> None:
        """It has been without a connection for long; if it does not beat either, it is forgotten."""
        self._ends.pop(session.id, None)
        if session.connection is not None:
            return
        silent = asyncio.get_running_loop().time() - self._beats.get(session.id, 0.0)
        if silent < self.limits.session_kept_s:
            self._end_later(session, self.limits.session_kept_s - silent)
        else:
            self._forget(session)

    def beaten(self, session: str) -> None:
        """A sign of life of a session's process."""
        found = self._sessions.get(session)
        if found is None:
            return
        self._beats[session] = asyncio.get_running_loop().time()
        self.heard(found)

    def heard(self, session: Session) -> None:
        """A sign of life of a session's workers; passed on about once a second."""
        now = asyncio.get_running_loop().time()
        if self._heard is None or now < session.heard_at + HEARD_S:
            return
        session.heard_at = now
        for name in session.workers:
            self._heard(name, session.connection.peer if session.connection is not None else "")

    def _forget(self, session: Session) -> None:
        session.end()
        self._ended.add_out(session.outbox)
        self._beats.pop(session.id, None)
        handle = self._ends.pop(session.id, None)
        if handle is not None:
            handle.cancel()
        self._sessions.pop(session.id, None)
        for name in session.workers:
            self._owners.pop(name, None)
