"""The ASGI application of a node's one port: finds the route, asks the gate, reads the request, answers; an error becomes an envelope.

Adds little to a request: no middleware, one look at a tree, one dict of headers. It knows routes as values and none by name.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from email.utils import formatdate
from typing import Final

from starlette.types import Receive, Scope, Send

from perdure.core.errors import InvalidArgument, PerdureError, ResourceExhausted, Unavailable
from perdure.ports import Chance, Frontend, News, Overview
from perdure.runtime.chance import RealChance
from perdure.runtime.http_limits import HTTP_LIMITS, HttpLimits
from perdure.server.access import Gate
from perdure.server.arguments import prepare, read_body, read_query
from perdure.server.envelope import Refusal, details_of, envelope, headers_of, status_of
from perdure.server.exchange import Exchange, access_log
from perdure.server.long_poll import CallerGone, LongPolls
from perdure.server.metrics import Metrics
from perdure.server.path_tree import PathTree
from perdure.server.request_tally import RequestTally
from perdure.server.route import HttpAnswer, HttpRequest, NoQuery, Route
from perdure.server.routes.activities import Activities
from perdure.server.routes.description import SelfDescription
from perdure.server.routes.messages import Messages
from perdure.server.routes.overview import Figures
from perdure.server.routes.probes import Probes
from perdure.server.routes.runs import Runs
from perdure.server.routes.scraping import Scraping
from perdure.server.routes.standing import Standing
from perdure.server.routes.starting import Starting
from perdure.server.routes.steering import Steering
from perdure.server.routes.watching import Watching

log: Final = logging.getLogger(__name__)

_JSON_TYPE: Final = re.compile(r"application/(?:[\w.+-]+\+)?json\s*(?:;.*)?", re.IGNORECASE).fullmatch
DISCARDED_MAX: Final = 16 * 1024 * 1024
"""A body that is refused and not longer than this is read to its end, so that its sender gets to see the answer."""

Ready = Callable[[], str]
"""Why the node cannot serve; empty when it can."""


class App:
    """Answers HTTP requests and WebSockets by a table of routes."""

    def __init__(
        self,
        routes: Iterable[Route],
        gate: Gate,
        chance: Chance,
        limits: HttpLimits,
        polls: LongPolls,
        requests: RequestTally | None = None,
    ) -> None:
        self.routes = tuple(routes)
        self.requests = requests or RequestTally()
        self.limits = limits
        self.polls = polls
        self._gate = gate
        self._chance = chance
        self._tree = PathTree(self.routes)
        prepare(route.body for route in self.routes if route.body is not None)
        self._under_way = 0
        self._held = 0
        """Bytes of bodies of the requests under way."""
        self._date = (-1, b"")

    @property
    def under_way(self) -> int:
        """Requests that are not answered yet, probes not counted."""
        return self._under_way

    def begin_to_stop(self) -> None:
        """From now on nothing new is taken but probes, which tell that the node is not ready; whoever waits is answered. Idempotent."""
        self.polls.end()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            raise RuntimeError("the application has no lifespan of its own: its server starts and stops it")
        exchange = Exchange(scope, receive, send, self._chance)
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            await self._serve(exchange)
        except CallerGone:
            exchange.status = 499
        except Refusal as no:
            text = envelope(no.code, no.message, exchange.id, no.details)
            await self._say(exchange, HttpAnswer(text, no.status, no.headers), is_last=no.is_last)
        except PerdureError as error:
            text = envelope(error.code, error.message, exchange.id, details_of(error))
            await self._say(exchange, HttpAnswer(text, status_of(error), headers_of(error)))
        except Exception:
            log.exception("answering %s %s failed (request id %s)", exchange.method, exchange.raw_path, exchange.id)
            text = envelope("PERDURE_ERROR", "the node failed at this; its log says why", exchange.id)
            await self._say(exchange, HttpAnswer(text, 500))
        finally:
            self.requests.add(exchange.method, exchange.route_path, exchange.status, loop.time() - began)
            if access_log.isEnabledFor(logging.INFO):
                exchange.log((loop.time() - began) * 1_000)

    async def _serve(self, exchange: Exchange) -> None:
        route, path = self._tree.find(exchange.method, exchange.raw_path)
        exchange.route_path = route.path
        if route.permission is None:
            await self._answer(exchange, route, path)
            return
        principal = exchange.principal = self._gate.admit(exchange.headers, exchange.peer)
        principal.require(route.permission)
        if self.polls.has_ended:
            raise Unavailable("the node is stopping; ask again when it is back")
        if self._under_way >= self.limits.requests_max:
            raise ResourceExhausted(f"{self.limits.requests_max} requests are under way (http.requests_max)")
        self._under_way += 1
        try:
            await self._answer(exchange, route, path)
        finally:
            self._under_way -= 1
            self._held -= exchange.held

    async def _answer(self, exchange: Exchange, route: Route, path: Mapping[str, str]) -> None:
        text = exchange.scope["query_string"]
        request = HttpRequest(
            exchange.scope,
            exchange.receive,
            exchange.id,
            exchange.headers,
            exchange.principal,
            path,
            read_query(route.query, text),
        )
        if route.body is not None:
            request.body = read_body(route.body, await self._body(exchange, route))
        elif route.query is NoQuery and text:
            raise InvalidArgument("this path takes no query parameters")
        if route.handler is not None:
            await self._say(exchange, await route.handler(request))
        elif route.stream is not None:
            await route.stream(request, exchange.tell)

    async def _body(self, exchange: Exchange, route: Route) -> bytes:
        """The whole body. Raises a `Refusal` when it is too long or no JSON."""
        limits, headers = self.limits, exchange.headers
        declared = headers.get("content-length", "")
        if declared and int(declared) > limits.body_bytes_max:
            raise self._too_long(is_last=int(declared) > DISCARDED_MAX or "expect" in headers)
        pieces: list[bytes] = []
        size = 0
        while True:
            message = await exchange.receive()
            if message["type"] == "http.disconnect":
                raise CallerGone
            piece = message.get("body", b"")
            size += len(piece)
            self._hold(exchange, len(piece))
            if size > limits.body_bytes_max:
                raise self._too_long(is_last=True)
            pieces.append(piece)
            if not message.get("more_body", False):
                break
        if not size:
            if route.is_body_optional:
                return b"{}"
            raise InvalidArgument("this path needs a JSON body")
        if not _JSON_TYPE(headers.get("content-type", "")):
            raise Refusal("UNSUPPORTED_MEDIA_TYPE", "send JSON, and say so: Content-Type: application/json")
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _hold(self, exchange: Exchange, count: int) -> None:
        exchange.held += count
        self._held += count
        if self._held > self.limits.bodies_bytes_max:
            raise ResourceExhausted(f"bodies of {self._held:,} bytes are under way (http.bodies_bytes_max)")

    def _too_long(self, *, is_last: bool) -> Refusal:
        said = f"the body has more than {self.limits.body_bytes_max:,} bytes (http.body_bytes_max)"
        return Refusal("PAYLOAD_TOO_LARGE", said, is_last=is_last)

    async def _say(self, exchange: Exchange, found: HttpAnswer, *, is_last: bool = False) -> None:
        exchange.status = found.status
        if exchange.began:
            return  # a stream that broke: the server cuts the connection
        headers = [
            (b"content-type", found.content_type),
            (b"content-length", b"%d" % len(found.body)),
            (b"x-request-id", exchange.id.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"cache-control", b"no-store"),
            (b"date", self._now()),
            *found.headers,
        ]
        if is_last or self.polls.has_ended:
            headers.append((b"connection", b"close"))
        await exchange.begin(found.status, headers, found.body)

    def _now(self) -> bytes:
        """The `Date` header, made once a second."""
        second = int(asyncio.get_running_loop().time())
        if self._date[0] != second:
            self._date = (second, formatdate(usegmt=True).encode())
        return self._date[1]


def build_app(
    frontend: Frontend,
    gate: Gate,
    *,
    limits: HttpLimits = HTTP_LIMITS,
    chance: Chance | None = None,
    ready: Ready | None = None,
    overview: Overview | None = None,
    news: News | None = None,
    routes: Iterable[Route] = (),
) -> App:
    """The application of a node.

    `ready` says why the node cannot serve (empty: it can), `overview` and `news` tell of the node; `routes` are those of other parts.
    """
    chance = chance or RealChance()
    polls = LongPolls(limits.waits_max)
    requests = RequestTally()
    table: list[Route] = [
        *Probes(ready or _always, polls, overview).table(),
        *Starting(frontend, chance).table(),
        *Runs(frontend, polls, limits).table(),
        *Standing(frontend).table(),
        *Messages(frontend, chance, polls, limits).table(),
        *Steering(frontend, chance).table(),
        *Activities(frontend).table(),
        *(_about_node(overview, news, polls, limits, requests) if overview is not None else ()),
        *routes,
    ]
    table += SelfDescription(lambda: table).table()
    return App(table, gate, chance, limits, polls, requests)


def _about_node(
    overview: Overview, news: News | None, polls: LongPolls, limits: HttpLimits, requests: RequestTally
) -> Iterable[Route]:
    """Routes to what a node tells of itself."""
    watching = Watching(news, polls, limits) if news is not None else None
    metrics = Metrics(overview, requests, watching.count if watching is not None else lambda: (0, 0))
    yield from Figures(overview).table()
    yield from Scraping(metrics).table()
    if watching is not None:
        yield from watching.table()


def _always() -> str:
    return ""
