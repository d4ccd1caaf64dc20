"""A node watched over HTTP: figures, the stream of events, metrics, health. Real node, real port, real sockets."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

import perdure
from perdure import workflow
from perdure.node import Node
from perdure.runtime.chance import RealChance
from perdure.runtime.http_limits import HttpLimits
from perdure.runtime.settings.tree import ServerSettings, Settings
from perdure.server.access import Gate
from perdure.server.app import build_app
from perdure.server.front_door import FrontDoor
from perdure.server.http_server import HttpServer


@workflow
async def waits() -> str:
    return await workflow.receive("go", str)


@workflow
async def other() -> int:
    return 1


class Site:
    """A node behind a port, and who asks it."""

    def __init__(self, app: Node, server: HttpServer, http: httpx2.AsyncClient) -> None:
        self.app = app
        self.server = server
        self.http = http

    async def get(self, path: str, **options: Any) -> Any:
        answer = await self.http.get(path, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()

    @asynccontextmanager
    async def watch(self, after: str | None = None, **params: str) -> AsyncIterator["Reader"]:
        headers = {"last-event-id": after} if after else {}
        async with self.http.stream("GET", "/api/v1/stream", params=params, headers=headers) as answer:
            if answer.status_code == 200:
                reader = Reader(answer)
                assert (await reader.part()).startswith(": ")  # it is heard from here on
                yield reader
            else:
                await answer.aread()
                raise AssertionError(answer.text)


class Reader:
    """Takes a stream apart."""

    def __init__(self, answer: httpx2.Response) -> None:
        self._parts = self._split(answer.aiter_text())

    async def _split(self, pieces: AsyncIterator[str]) -> AsyncIterator[str]:
        text = ""
        async for piece in pieces:
            text += piece
            *whole, text = text.split("\n\n")
            for part in whole:
                yield part

    async def part(self) -> str:
        return await anext(self._parts)

    async def next(self) -> dict[str, Any]:
        """The next event, beats left out."""
        while True:
            part = await self.part()
            if not part.startswith(":"):
                fields = dict(line.split(": ", 1) for line in part.split("\n"))
                return {"id": fields.get("id"), "event": fields["event"], **json.loads(fields["data"])}

    async def take(self, count: int) -> list[dict[str, Any]]:
        return [await self.next() for _ in range(count)]


@asynccontextmanager
async def site(
    house: Any, *things: object, limits: HttpLimits | None = None, kept: int = 10_000, **options: Any
) -> AsyncIterator[Site]:
    async with house(*things, limits=perdure.Limits(news_kept=kept), **options) as app:
        built = build_app(
            app.frontend, Gate.open(), limits=limits or HttpLimits(), overview=app.frontend.overview, news=app.frontend.news
        )
        server = HttpServer(built, port=0)
        await server.start()
        async with httpx2.AsyncClient(base_url=server.url, timeout=20) as http:
            try:
                yield Site(app, server, http)
            finally:
                await server.stop()


@pytest.mark.rule("O33")
async def test_events_come_as_they_happen_and_go_on_from_any_of_them(house) -> None:
    """In order, with ids; whoever comes back with the last id it saw is given what followed, once."""
    async with site(house, waits, other) as at:
        async with at.watch() as reader:
            handle = await at.app.client.start(waits(), id="w")
            await handle.signal("go", "on")
            await handle.result()
            events = await reader.take(3)
        assert [event["event"] for event in events] == ["run.started", "signal.received", "run.closed"]
        assert {event["workflow_id"] for event in events} == {"w"}
        assert events[2]["details"] == {"status": "completed"}
        await at.app.client.execute(other(), id="o")
        async with at.watch(events[1]["id"]) as reader:
            missed = await reader.take(3)
        assert [(event["event"], event["workflow_id"]) for event in missed] == [
            ("run.closed", "w"),
            ("run.started", "o"),
            ("run.closed", "o"),
        ]
        assert missed[0] == events[2]
        async with at.watch(last_event_id=missed[1]["id"]) as reader:  # for people, who cannot set a header
            assert await reader.next() == missed[2]


async def test_a_reader_is_less_than_a_second_behind(house) -> None:
    """From the moment something is durable to the moment a reader has it."""
    async with site(house, waits) as at, at.watch() as reader:
        loop = asyncio.get_running_loop()
        for n in range(10):
            began = loop.time()
            await at.app.client.start(waits(), id=f"w{n}")
            await reader.next()
            assert loop.time() - began < 1


async def test_only_what_is_asked_for_is_sent(house) -> None:
    """By type of event, with a star for the rest of it, by workflow type and by workflow id."""
    async with (
        site(house, waits, other) as at,
        at.watch(types="run.*") as runs,
        at.watch(types="signal.received,worker.left") as signals,
        at.watch(workflow_type="other") as others,
        at.watch(workflow_id="w2", types="run.closed") as one,
    ):
        for n in range(3):
            handle = await at.app.client.start(waits(), id=f"w{n}")
            await handle.signal("go", "on")
            await handle.result()
        await at.app.client.execute(other(), id="o")
        assert [event["event"] for event in await runs.take(8)] == ["run.started", "run.closed"] * 4
        assert [event["workflow_id"] for event in await signals.take(3)] == ["w0", "w1", "w2"]
        assert [event["workflow_id"] for event in await others.take(2)] == ["o", "o"]
        assert (await one.next())["workflow_id"] == "w2"


async def test_a_gap_is_told_first(house) -> None:
    """An id that fell out of the ring, and one of another life: first that something is missing, then all there is."""
    async with site(house, other, kept=4) as at:
        for n in range(4):
            await at.app.client.execute(other(), id=f"o{n}")
        life = at.app.frontend.news.life
        for old in (f"{life}-1", f"{life - 1000}-3"):
            async with at.watch(old) as reader:
                gap, *events = await reader.take(5)
            assert gap["event"] == "stream.gap"
            assert gap["reason"]
            assert [event["workflow_id"] for event in events] == ["o2", "o2", "o3", "o3"]
            async with at.watch(gap["id"]) as reader:  # its id is a place to go on from, too
                assert (await reader.next())["id"] == events[0]["id"]


async def test_what_cannot_be_asked_for_is_refused(house) -> None:
    """An id that is none, types that are none, an unknown parameter: 400, before anything is sent."""
    async with site(house) as at:
        for asked in ({"last_event_id": "yesterday"}, {"types": "run"}, {"types": "*"}, {"kind": "run.*"}):
            answer = await at.http.get("/api/v1/stream", params=asked)
            assert answer.status_code == 400, asked
            assert answer.json()["error"]["code"] == "INVALID_ARGUMENT"
        head = await at.http.head("/api/v1/stream")
        assert (head.status_code, head.headers["content-type"]) == (200, "text/event-stream")


async def test_readers_are_bounded(house) -> None:
    """One more than there may be is told to come back; when one leaves there is room again."""
    async with site(house, limits=HttpLimits(news_readers_max=2)) as at:
        async with at.watch(), at.watch():
            answer = await at.http.get("/api/v1/stream")
            assert answer.status_code == 429
            assert int(answer.headers["retry-after"]) >= 1
            assert "news_readers_max" in answer.json()["error"]["message"]
        async with asyncio.timeout(10):
            while (await at.http.head("/api/v1/stream")).status_code != 200:  # noqa: ASYNC110  nothing tells of it
                await asyncio.sleep(0.01)


async def test_silence_is_broken_by_a_beat_with_the_place(house) -> None:
    """A reader to whom nothing is of interest still learns how far it has come, so that a return costs no gap."""
    async with site(house, other, limits=HttpLimits(news_beat_s=0.05)) as at, at.watch(types="run.paused") as reader:
        await at.app.client.execute(other(), id="o")
        last = at.app.frontend.news.id_of(at.app.frontend.news.last)
        while f"id: {last}" not in (part := await reader.part()):
            assert part.startswith(": beat")


@pytest.mark.scenario(53)
async def test_a_reader_that_does_not_read_is_overtaken_told_and_let_go(house) -> None:
    """Its socket is full, the ring goes on: nothing is kept for it, nobody waits for it, and when it reads on it is told why it ends."""
    async with site(house, other, kept=200) as at:
        news = at.app.frontend.news
        host, port = at.server.url.removeprefix("http://").split(":")
        reading, writing = await asyncio.open_connection(host, int(port), limit=1024)
        writing.write(f"GET /api/v1/stream HTTP/1.1\r\nhost: {host}:{port}\r\n\r\n".encode())
        await reading.readuntil(b"retry: 2000\n\n")
        while True:  # until it is stuck: with nothing more taken from the ring
            for _ in range(100):
                news.say("tick", text="x" * 2_000)
            await at.app.client.execute(other(), id=f"o{news.last}")  # the engine goes on as if nobody watched
            if await _is_stuck(at):
                break
        for _ in range(500):
            news.say("tick", text="y")
        text = await _rest(reading)
        assert "event: stream.dropped" in text
        assert re.search(r"items were overwritten", text)
        writing.close()
        metrics = (await at.http.get("/metrics")).text
        assert "perdure_news_readers_dropped_total 1.0" in metrics


async def _is_stuck(at: Site) -> bool:
    """A transport of the server holds more than it likes to."""
    await asyncio.sleep(0.05)
    return any(connection.flow.write_paused for connection in at.server._state.connections)


async def _rest(reading: asyncio.StreamReader) -> str:
    """All that comes until the stream's last event."""
    text = b""
    while b"event: stream.dropped" not in text:
        piece = await reading.read(65_536)
        if not piece:
            break
        text = text[-100:] + piece
    return (text + await reading.readuntil(b"\n\n")).decode() if b"overwritten" not in text else text.decode()


async def test_a_stop_ends_streams_cleanly(house) -> None:
    """First that the node is stopping, then the end of the stream; nobody has to wait for a reader."""
    async with site(house, waits) as at, at.watch() as reader:
        await at.app.client.start(waits(), id="w")
        at.app.frontend.leave()
        await at.server.stop()
        assert [event["event"] for event in await reader.take(3)] == ["run.started", "node.stopping", "stream.end"]
        with pytest.raises(StopAsyncIteration):
            await reader.part()


@pytest.mark.rule("F22")
async def test_figures_over_http(house) -> None:
    """Stats, queues, workers, shards and nodes, as JSON that says what the engine counts."""
    async with site(house, waits) as at:
        await at.app.client.start(waits(), id="w")
        await at.app.client.start(waits(), id="p")
        await at.app.client.handle("p").pause()
        stats = await at.get("/api/v1/stats")
        assert stats["open"] == {"running": 1, "paused": 1, "quarantined": 0, "parked": 0}
        assert stats["started"] == 2
        assert stats["commits"] >= stats["syncs"] > 0
        assert stats["disk"]["journal_bytes"] > 0
        queues = await at.get("/api/v1/queues")
        assert {(line["queue"], line["kind"]) for line in queues["items"]} == {("default", "workflow"), ("default", "activity")}
        workers = await at.get("/api/v1/workers")
        assert [worker["queues"] for worker in workers["items"]] == [["default"]]
        shards = await at.get("/api/v1/shards")
        assert [shard["shard"] for shard in shards["items"]] == list(range(64))
        nodes = await at.get("/api/v1/nodes")
        assert [node["shards"] for node in nodes["items"]] == [64]
        assert {shard["node"] for shard in shards["items"]} == {nodes["items"][0]["node"]}


async def test_health_names_the_parts(house) -> None:
    """Well at first; with a write that does not get done it says which part, and is well no more."""
    async with site(house, waits) as at:
        health = await at.get("/health")
        assert {part["name"]: part["status"] for part in health["components"]} == dict.fromkeys(
            ("journal", "disk", "index", "loop"), "ok"
        )
        committer, clock = at.app.frontend.committer, at.app.clock
        committer.writing_since = clock.now() - 10_000_000
        stuck = await at.http.get("/health")
        assert stuck.status_code == 503
        parts = {part["name"]: part for part in stuck.json()["components"]}
        assert parts["journal"]["status"] == "failed"
        assert "10 s" in parts["journal"]["details"]
        committer.writing_since = 0


async def test_metrics_agree_with_the_figures(house) -> None:
    """Prometheus' own parser reads them; what is counted is what happened; labels are route templates, never paths."""
    from prometheus_client.parser import text_string_to_metric_families

    async with site(house, waits, other) as at:
        await at.app.client.start(waits(), id="w")
        await at.app.client.execute(other(), id="o")
        await at.http.get("/api/v1/workflows/o")
        await at.http.get("/api/v1/workflows/nobody")
        await at.http.get("/no/such/path")
        answer = await at.http.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain")
        found = {
            (sample.name, *sorted(sample.labels.values())): sample.value
            for family in text_string_to_metric_families(answer.text)
            for sample in family.samples
        }
        assert found["perdure_runs_open", "running"] == 1
        assert found["perdure_runs_started_total", "waits"] == 1
        assert found["perdure_runs_closed_total", "completed", "other"] == 1
        assert found["perdure_sync_seconds_count",] == at.app.frontend.tally.syncs
        assert found["perdure_sync_seconds_bucket", "+Inf"] == found["perdure_sync_seconds_count",]
        route = "/api/v1/workflows/{workflow_id}"
        assert found["perdure_http_requests_total", route, "2xx", "GET"] == 1
        assert found["perdure_http_requests_total", route, "4xx", "GET"] == 1
        assert found["perdure_http_requests_total", "", "", "4xx"] == 1
        assert found["perdure_http_request_seconds_count", route] == 2
        assert "nobody" not in answer.text


async def test_what_a_node_tells_is_described(house) -> None:
    """Every route of these stands in the API's own description, with the type of its answer."""
    async with site(house) as at:
        document = await at.get("/api/v1/openapi.json")
        for path in ("stats", "queues", "workers", "shards", "nodes"):
            answer = document["paths"][f"/api/v1/{path}"]["get"]["responses"]["200"]
            assert "$ref" in answer["content"]["application/json"]["schema"]
        assert "text/event-stream" in document["paths"]["/api/v1/stream"]["get"]["responses"]["200"]["content"]
        assert {"StreamQuery", "Histogram"}.isdisjoint(document["components"]["schemas"])
        assert "QueueFigures" in document["components"]["schemas"]


async def test_a_worker_elsewhere_is_seen(tmp_path: Path) -> None:
    """That it is one, where it is, its slots, its last sign of life; and that it has left."""
    node = perdure.embedded(tmp_path)
    front = node.frontend
    door = FrontDoor.of_engine(front, Settings(server=ServerSettings(port=0)), node.clock, RealChance())
    async with node, door, httpx2.AsyncClient(base_url=door.url) as http:
        reader = front.news.read()
        async with await perdure.connect(door.url) as client, perdure.Worker(client, workflows=[waits], max_activities=7):
            async with asyncio.timeout(20):
                while not (workers := (await http.get("/api/v1/workers")).json()["items"]):  # noqa: ASYNC110  nothing tells of it
                    await asyncio.sleep(0.05)
            (worker,) = workers
            assert worker["remote"]
            assert worker["peer"].startswith("127.0.0.1:")
            assert (worker["slots"], worker["in_hand"], worker["queues"]) == (7, 0, ["default"])
            assert worker["connected_at"] <= worker["heard_at"]
        async with asyncio.timeout(20):
            while "worker.left" not in (kinds := [item.kind for item in reader.take(100)]):
                assert await reader.more()
        assert (await http.get("/api/v1/workers")).json()["items"] == []
        assert kinds[-1] == "worker.left"
