"""Everything that makes a running node reachable: where it listens, who is let in, TLS, the application, and the word in its directory.

Made before the node starts, so that a mistake in the settings is known first; started after it, stopped before it.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from perdure.core.errors import Unavailable
from perdure.core.principal import Principal
from perdure.engine.frontend import EngineFrontend
from perdure.ports import Chance, Clock, Frontend, News, Overview
from perdure.runtime.api_key import hash_of, new_api_key
from perdure.runtime.settings.tree import LOCAL_NAME, KeySettings, ServerSettings, Settings
from perdure.server.access import Gate, KnownKey
from perdure.server.app import build_app
from perdure.server.binding import check_binding
from perdure.server.http_server import HttpServer
from perdure.server.place import announce, withdraw, within_reach
from perdure.server.port_holder import explained
from perdure.server.route import Route
from perdure.server.tls import server_context
from perdure.server.wire.wire_end import WireEnd


class FrontDoor:
    """One node's way in, by its settings. `data` is the directory in which it says where it is; None: nowhere.

    `ready` says why the node cannot serve (empty: it can), `overview` and `news` tell of it, `heard` is told of workers that give a
    sign of life, `leave` that the door is about to close; `routes` are further ones of the application. Raises `InvalidArgument` for an address that takes a key while there is
    none, and for TLS files that do not do.
    """

    def __init__(
        self,
        frontend: Frontend,
        settings: Settings,
        clock: Clock,
        chance: Chance,
        *,
        data: Path | None = None,
        ready: Callable[[], str] | None = None,
        overview: Overview | None = None,
        news: News | None = None,
        heard: Callable[[str, str], None] | None = None,
        leave: Callable[[], None] | None = None,
        routes: Iterable[Route] = (),
    ) -> None:
        server = settings.server
        has_tls = bool(server.tls_certificate)
        check_binding(server.host, has_keys=bool(settings.access.keys), has_tls=has_tls, insecure=server.insecure)
        context = server_context(Path(server.tls_certificate), Path(server.tls_key)) if has_tls else None
        self.local_key = new_api_key() if settings.access.keys else ""
        """An admin's key for this life of the node, for commands of whoever may read its directory; empty when no key is asked for."""
        self._gate = _gate(settings.access.keys, self.local_key, server, clock)
        life = getattr(frontend, "incarnation", "") or chance.token()
        self._wire = WireEnd(frontend, self._gate, life, limits=settings.wire, heard=heard)
        self.app = build_app(
            frontend,
            self._gate,
            limits=settings.http,
            chance=chance,
            ready=ready,
            overview=overview,
            news=news,
            routes=(*self._wire.routes(), *routes),
        )
        self._http = HttpServer(self.app, server.host, server.port, ssl=context, origins=server.origins)
        self._leave = leave
        self._grace_s = server.grace_s
        self._data = data
        self._certificate = str(Path(server.tls_certificate).absolute()) if has_tls else ""
        self._is_announced = False

    @classmethod
    def of_engine(
        cls, engine: EngineFrontend, settings: Settings, clock: Clock, chance: Chance, *, data: Path | None = None
    ) -> Self:
        """The door of an engine, with all that it can tell of itself."""

        def ready() -> str:
            return "" if engine.fault is None else f"the node can write nothing more: {engine.fault}"

        return cls(
            engine,
            settings,
            clock,
            chance,
            data=data,
            ready=ready,
            overview=engine.overview,
            news=engine.news,
            heard=engine.roster.heard,
            leave=engine.leave,
        )

    @property
    def url(self) -> str:
        """Where it is reached from this machine, once it has started."""
        scheme, _, _ = self._http.url.partition(":")
        host = within_reach(self._http.host)
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self._http.port}"

    @property
    def port(self) -> int:
        """The port, once it has started."""
        return self._http.port

    async def start(self) -> None:
        """Listen, then say so. Raises `Unavailable` when the address cannot be taken."""
        try:
            await self._http.start()
        except Unavailable as error:
            raise await explained(error, self._http.host, self._http.port) from error
        if self._data is None:
            return
        try:
            announce(self._data, self.url, os.getpid(), self.local_key, self._certificate)
            self._is_announced = True
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Be ready no longer, let the streams end, answer what is under way, close. Idempotent."""
        try:
            if self._leave is not None:
                self._leave()
            self.app.begin_to_stop()
            try:
                await self._wire.stop()
            finally:
                await self._http.stop(self._grace_s)
        finally:
            if self._data is not None and self._is_announced:
                self._is_announced = False
                withdraw(self._data)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


def _gate(keys: Mapping[str, KeySettings], local_key: str, server: ServerSettings, clock: Clock) -> Gate:
    if not keys:
        return Gate.open(clock, hosts=server.hosts, origins=server.origins)
    known = [KnownKey(Principal(name, key.role), key.hash) for name, key in keys.items() if key.role]
    known.append(KnownKey(Principal(LOCAL_NAME, "admin"), hash_of(local_key)))
    return Gate(known, clock, hosts=server.hosts, origins=server.origins)
