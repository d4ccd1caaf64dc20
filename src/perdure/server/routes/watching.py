"""`GET /api/v1/stream`: the news of the node as server-sent events, from any item that is still kept.

A reader holds a place in the ring and nothing else. Its socket's buffer is all that is ever kept for it: while that is full nothing is
read for it, the ring goes on, and when it is overtaken it is told so and let go. The engine never waits for it.
"""

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct
from starlette.types import Send

from perdure.core.errors import InvalidArgument, ResourceExhausted
from perdure.core.overview import NewsItem
from perdure.ports import FellBehind, News, NewsReader
from perdure.runtime.http_limits import HttpLimits
from perdure.server.long_poll import CallerGone, LongPolls, hung_up
from perdure.server.parameters import OptionalId
from perdure.server.route import HttpRequest, Route

BATCH: Final = 256
"""Items in one piece; others get a turn between two."""
REST_S: Final = 0.02
"""After a piece that took all there was, so long nothing is looked for: a burst goes out together."""
LAST_S: Final = 1.0
"""So long may the last event wait for room in the socket's buffer."""
TEXTS_MAX: Final = 1_000
"""Items whose text is kept for other readers."""

_encode: Final = msgspec.json.Encoder().encode
_HEADERS: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-accel-buffering", b"no"),
)

Wanted = Callable[[NewsItem], bool]


class StreamQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is wanted of the news; what is not given is not asked for."""

    types: Annotated[
        str,
        Meta(
            pattern=r"^([a-z_]+\.([a-z_]+|\*)(,[a-z_]+\.([a-z_]+|\*))*)?$",
            max_length=1_000,
            description="Types of event, with commas between; `run.*` stands for all that begin with `run.`",
        ),
    ] = ""
    namespace: OptionalId = ""
    workflow_type: OptionalId = ""
    workflow_id: OptionalId = ""
    last_event_id: Annotated[
        str, Meta(max_length=64, description="Go on behind this event; for those who cannot set the header `Last-Event-ID`")
    ] = ""


class NewsData(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`data` of an event: what happened to which run, and more about it in `details`."""

    time: Any
    namespace: str = ""
    workflow_id: str = ""
    run_id: str = ""
    workflow_type: str = ""
    details: dict[str, Any] = {}


class Watching:
    """The route. At most `news_readers_max` readers at once."""

    def __init__(self, news: News, polls: LongPolls, limits: HttpLimits) -> None:
        self._news = news
        self._polls = polls
        self._news_readers_max = limits.news_readers_max
        self._beat_s = limits.news_beat_s
        self._texts: dict[str, bytes] = {}
        self.open = 0
        """Readers there are."""
        self.dropped = 0
        """Readers that were let go because they read too slowly."""

    def count(self) -> tuple[int, int]:
        """Readers there are, and those that were too slow."""
        return self.open, self.dropped

    def table(self) -> tuple[Route, ...]:
        """The route."""
        return (
            Route(
                method="GET",
                path="/api/v1/stream",
                name="stream",
                summary="What happens on the node, as it happens",
                description="Server-sent events: `id`, `event` (its type), `data` (JSON). The latest 10,000 are kept: give the header "
                "`Last-Event-ID` to go on behind one of them. `stream.gap` comes first when not all that followed it is kept; "
                "`stream.dropped` comes last for a reader that is too slow, `stream.end` when the node stops.",
                tag="Node",
                permission="read",
                stream=self.stream,
                query=StreamQuery,
                answers={200: None},
                content_type="text/event-stream",
                errors=("RESOURCE_EXHAUSTED",),
            ),
        )

    async def stream(self, request: HttpRequest, send: Send) -> None:
        """Send what is asked for until one side ends it."""
        if self.open >= self._news_readers_max:
            raise ResourceExhausted(
                f"{self._news_readers_max} read the stream already (http.news_readers_max)", retry_after=5.0
            )
        query: StreamQuery = request.query
        reader = self._news.read(_last_id(request, query))
        self.open += 1
        try:
            await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS, _id_header(request)]})
            if request.scope["method"] == "HEAD":
                await send({"type": "http.response.body", "body": b""})
                return
            await self._tell(reader, _filter(query), request, send)
        finally:
            self.open -= 1

    async def _tell(self, reader: NewsReader, wanted: Wanted, request: HttpRequest, send: Send) -> None:
        loop = asyncio.get_running_loop()
        gone = loop.create_task(hung_up(request.receive), name="perdure stream: caller")
        ended = loop.create_task(self._polls.ended(), name="perdure stream: end")
        stream = _Stream(reader, wanted, self.text, send, gone, ended, self._beat_s)
        try:
            await stream.open()
            try:
                await stream.run()
                await stream.end("stream.end", "the node is stopping")
            except FellBehind as behind:
                self.dropped += 1
                await stream.end("stream.dropped", behind.message)
        finally:
            for task in (gone, ended):
                task.cancel()
            await asyncio.wait((gone, ended))

    def text(self, item: NewsItem) -> bytes:
        """An item as all readers get it."""
        text = self._texts.get(item.id)
        if text is None:
            if len(self._texts) >= TEXTS_MAX:
                self._texts.clear()
            text = self._texts[item.id] = _text_of(item)
        return text


class _Stream:
    """One reader, and the way to it."""

    def __init__(
        self,
        reader: NewsReader,
        wanted: Wanted,
        text: Callable[[NewsItem], bytes],
        send: Send,
        gone: "asyncio.Task[None]",
        ended: "asyncio.Task[None]",
        beat_s: float,
    ) -> None:
        self._reader = reader
        self._wanted = wanted
        self._text = text
        self._send = send
        self._gone = gone
        self._ended = ended
        self._beat_s = beat_s

    async def open(self) -> None:
        """Something comes at once, so that the caller knows that it is heard; first what is missing."""
        text = b": news of this node\nretry: 2000\n\n"
        if self._reader.gap:
            text += _own("stream.gap", self._reader.gap, f"id: {self._reader.id}\n")
        await self._put(text)

    async def run(self) -> None:
        """Until the node stops. Raises `FellBehind` for a reader that was overtaken, `CallerGone` for one that left."""
        while True:
            await self._send_all()
            if self._ended.done() or not await self._more():
                return

    async def _send_all(self) -> None:
        """All there is, piece by piece."""
        while items := self._reader.take(BATCH):
            text = b"".join([self._text(item) for item in items if self._wanted(item)])
            if text:
                await self._put(text)
            await asyncio.sleep(0)

    async def _more(self) -> bool:
        """Wait for more, with a beat now and then; false when there will be none."""
        more = asyncio.get_running_loop().create_task(self._reader.more(), name="perdure stream: more")
        try:
            while True:
                await self._pause(self._beat_s, more)
                if more.done() or self._ended.done():
                    break
                await self._put(f": beat\nid: {self._reader.id}\n\n".encode())
        finally:
            more.cancel()
            await asyncio.wait((more,))
        await self._pause(REST_S)
        return more.cancelled() or more.result()

    async def _pause(self, seconds: float, *others: "asyncio.Task[bool]") -> None:
        await asyncio.wait((*others, self._gone, self._ended), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if self._gone.done():
            raise CallerGone

    async def _put(self, text: bytes) -> None:
        """Hand over to the socket; while its buffer is full this waits, until the node stops."""
        sending = asyncio.get_running_loop().create_task(self._say(text, more=True), name="perdure stream: send")
        try:
            await asyncio.wait((sending, self._ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not sending.done():
                sending.cancel()
                await asyncio.wait((sending,))
        if sending.cancelled() or self._gone.done():
            raise CallerGone
        sending.result()

    async def end(self, kind: str, reason: str) -> None:
        """The last event. Who does not take it in time is gone."""
        try:
            async with asyncio.timeout(LAST_S):
                await self._say(_own(kind, reason), more=False)
        except TimeoutError:
            raise CallerGone from None

    async def _say(self, text: bytes, *, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": text, "more_body": more})


def _last_id(request: HttpRequest, query: StreamQuery) -> str:
    """The header counts: a reader that has connected again sets it, and keeps the address it was given first."""
    given = request.headers.get("last-event-id", "")
    if len(given) > 64:
        raise InvalidArgument("Last-Event-ID is longer than any id of this stream")
    return given or query.last_event_id


def _filter(query: StreamQuery) -> Wanted:
    kinds = [kind for kind in query.types.split(",") if kind]
    whole = frozenset(kind for kind in kinds if not kind.endswith("*"))
    begins = tuple(kind[:-1] for kind in kinds if kind.endswith("*"))
    fields = [(name, value) for name in ("namespace", "workflow_type", "workflow_id") if (value := getattr(query, name))]

    def wanted(item: NewsItem) -> bool:
        if kinds and item.kind not in whole and not item.kind.startswith(begins):
            return False
        return all(getattr(item, name) == value for name, value in fields)

    return wanted


def _text_of(item: NewsItem) -> bytes:
    data = _encode(
        NewsData(
            time=item.time,
            namespace=item.namespace,
            workflow_id=item.workflow_id,
            run_id=item.run_id,
            workflow_type=item.workflow_type,
            details=item.details,
        )
    )
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (item.id.encode(), item.kind.encode(), data)


def _own(kind: str, reason: str, head: str = "") -> bytes:
    """An event of the stream itself. With an id, whoever connects again goes on from there."""
    return f"{head}event: {kind}\n".encode() + b"data: %b\n\n" % _encode({"reason": reason})


def _id_header(request: HttpRequest) -> tuple[bytes, bytes]:
    return b"x-request-id", request.id.encode()
