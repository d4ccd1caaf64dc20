"""How the port closes: readiness goes first, who waits is answered, what is under way is finished, then connections close."""

import asyncio
from contextlib import suppress
from typing import Any

import httpx2
import pytest

import perdure
from perdure import errors, workflow
from perdure.server.access import Gate
from perdure.server.app import build_app
from perdure.server.http_server import HttpServer
from perdure.server.route import HttpAnswer, HttpRequest, Route, answer

WORKFLOWS = "/api/v1/workflows"


@workflow
async def wait_for(name: str) -> Any:
    return await workflow.receive(name)


class Slow:
    """A route that answers when it is told to."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()
        self.was_cancelled = False

    async def serve(self, _: HttpRequest) -> HttpAnswer:
        self.begun.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        return answer({"slow": True})

    def route(self) -> Route:
        return Route(
            method="GET",
            path="/slow",
            name="slow",
            summary="",
            tag="Test",
            permission="read",
            handler=self.serve,
            answers={200: None},
        )


async def test_long_polls_end_cleanly(open_site: Any) -> None:
    """Whoever waits for a result or for events gets a 202, or what there is, at once, on a connection that closes then."""
    async with open_site(wait_for) as site:
        await site.post(WORKFLOWS, {"type": "wait_for", "id": "w", "input": ["go"]})
        result = asyncio.ensure_future(site.get(f"{WORKFLOWS}/w/result", wait=60))
        history = asyncio.ensure_future(site.get(f"{WORKFLOWS}/w/history", wait=60, after=5))
        await site.until_waiting(2)
        await site.server.stop()
        found = await result
        assert (found.status_code, found.json()["status"], found.headers["connection"]) == (202, "running", "close")
        assert ((await history).status_code, (await history).json()["items"]) == (200, [])
        with pytest.raises(httpx2.ConnectError):
            await site.get("/healthz")


async def test_what_is_under_way_is_answered_while_nothing_new_is_taken(tmp_path: Any) -> None:
    """While a request is being finished probes tell that the node is stopping, and new work is a 503; then the port is closed."""
    slow = Slow()
    async with perdure.embedded(tmp_path / "data") as node:
        server = HttpServer(build_app(node.frontend, Gate.open(), routes=[slow.route()]), port=0)
        await server.start()
        async with httpx2.AsyncClient(base_url=server.url, timeout=30) as http, httpx2.AsyncClient(base_url=server.url) as late:
            under_way = asyncio.ensure_future(http.get("/slow"))
            await slow.begun.wait()
            stopping = asyncio.ensure_future(server.stop(30))
            while not server.app.polls.has_ended:  # noqa: ASYNC110  it turns the loop
                await asyncio.sleep(0)
            probe = await late.get("/readyz")
            assert (probe.status_code, probe.json()["status"]) == (503, "stopping")
            assert (await late.get("/healthz")).status_code == 200
            refused = await late.get(WORKFLOWS)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "UNAVAILABLE")
            assert "retry-after" in refused.headers
            slow.may_end.set()
            assert (await under_way).json() == {"slow": True}
            await stopping
            with pytest.raises(httpx2.ConnectError):
                await late.get("/healthz")


async def test_what_is_not_answered_within_the_grace_is_cut(tmp_path: Any) -> None:
    """The server stops all the same, and the request's code is cancelled, not forgotten."""
    slow = Slow()
    async with perdure.embedded(tmp_path / "data") as node:
        server = HttpServer(build_app(node.frontend, Gate.open(), routes=[slow.route()]), port=0)
        await server.start()
        async with httpx2.AsyncClient(base_url=server.url, timeout=30) as http:
            under_way = asyncio.ensure_future(http.get("/slow"))
            await slow.begun.wait()
            await server.stop(0.05)
            assert slow.was_cancelled
            with suppress(httpx2.HTTPError):
                assert (await under_way).status_code >= 500
        assert server._state.tasks == set()


async def test_it_stops_once_and_any_number_of_times(open_site: Any) -> None:
    """Also before it was started."""
    async with open_site() as site:
        other = HttpServer(site.app, port=0)
        await other.stop()
        await site.server.stop()
        await site.server.stop()


async def test_a_port_that_is_taken_is_said(open_site: Any) -> None:
    """`Unavailable` with the address, and nothing is left listening."""
    async with open_site() as site:
        with pytest.raises(errors.Unavailable, match=str(site.server.port)):
            await HttpServer(build_app(site.node.frontend, Gate.open()), port=site.server.port).start()
        with pytest.raises(errors.Unavailable, match=r"no\.such\.host"):
            await HttpServer(build_app(site.node.frontend, Gate.open()), "no.such.host.invalid", 0).start()


async def test_a_name_with_two_addresses_has_one_port(open_site: Any) -> None:
    """`localhost` may be IPv4 and IPv6: the port that is told is that of both."""
    async with open_site() as site:
        server = HttpServer(build_app(site.node.frontend, Gate.open()), "localhost", 0)
        port = await server.start()
        assert server._listener is not None
        assert {bound.getsockname()[1] for bound in server._listener.sockets} == {port}
        await server.stop()


async def test_a_node_that_stops_first_leaves_nobody_waiting(tmp_path: Any) -> None:
    """When the engine ends before its port, a long poll is a 503 at once, and so is everything after it."""
    async with perdure.embedded(tmp_path / "data") as node:
        node.register(wait_for)
        server = HttpServer(build_app(node.frontend, Gate.open()), port=0)
        await server.start()
        async with httpx2.AsyncClient(base_url=server.url, timeout=30) as http:
            await http.post(WORKFLOWS, json={"type": "wait_for", "id": "w", "input": ["go"]})
            waiting = asyncio.ensure_future(http.get(f"{WORKFLOWS}/w/result", params={"wait": 60}))
            while not server.app.polls.waiting:  # noqa: ASYNC110  it turns the loop
                await asyncio.sleep(0)
            await node.stop()
            assert (await waiting).status_code == 503
            assert (await http.get(f"{WORKFLOWS}/w")).json()["error"]["code"] == "UNAVAILABLE"
        await server.stop()
