"""What nobody should send: each is answered with the envelope or cut, and the node works on.

Raw bytes over raw sockets, because no client library would send them.
"""

import asyncio
import re
from typing import Any

import pytest

from perdure import workflow
from perdure.runtime.http_limits import HttpLimits

WORKFLOWS = "/api/v1/workflows"
JSON = "Content-Type: application/json\r\n"
SMALL = HttpLimits(
    url_bytes_max=500,
    header_bytes_max=2_000,
    headers_max=20,
    body_bytes_max=10_000,
    head_s=0.3,
    body_s=0.3,
    idle_s=0.3,
    unread_s=0.3,
    pipelined_max=5,
)


@workflow
async def wait_for(name: str) -> Any:
    return await workflow.receive(name)


def get(path: str, *headers: str) -> bytes:
    """A whole request."""
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


def post(body: bytes, *headers: str, path: str = WORKFLOWS) -> bytes:
    """A request with a body whose length nobody states but `headers`."""
    head = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *headers, "", ""]
    return "\r\n".join(head).encode() + body


GARBAGE = {
    "noise": b"\x00\x01\x02\xff\xfe\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "http2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "words": b"hello there\r\n\r\n",
    "no version": b"GET /healthz\r\n\r\n",
    "odd version": b"GET /healthz HTTP/7.7\r\nHost: x\r\n\r\n",
    "header without colon": b"GET /healthz HTTP/1.1\r\nHost localhost\r\n\r\n",
    "folded header": b"GET /healthz HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
    "space before colon": b"GET /healthz HTTP/1.1\r\nHost : x\r\n\r\n",
    "NUL in header": b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: a\x00b\r\n\r\n",
    "bytes in the path": b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    "no host": b"GET /api/v1/workflows HTTP/1.1\r\nConnection: close\r\n\r\n",
    "connect": b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n",
    "options star": b"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "length that is no number": post(b"{}", "Content-Length: two"),
    "negative length": post(b"{}", "Content-Length: -2"),
    "two lengths": post(b"{}", "Content-Length: 2", "Content-Length: 3"),
    "endless length": post(b"{}", f"Content-Length: {10**40}"),
    "length and chunks": post(b"0\r\n\r\n", "Content-Length: 5", "Transfer-Encoding: chunked"),
    "unknown coding": post(b"{}", "Transfer-Encoding: gzip"),
    "bad chunk size": post(b"zz\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: chunked"),
    "huge chunk size": post(b"fffffffffffffffffff\r\n", "Transfer-Encoding: chunked"),
    "chunk longer than said": post(b"2\r\n{}}}}}\r\n0\r\n\r\n", "Transfer-Encoding: chunked"),
}


@pytest.mark.parametrize("name", GARBAGE)
async def test_what_is_no_request_is_refused(open_site: Any, name: str) -> None:
    """Noise, other protocols, broken lines and lying lengths get a 4xx or a closed connection; never a 5xx, never silence."""
    async with open_site(limits=SMALL) as site:
        answer = await site.raw(GARBAGE[name])
        assert answer == b"" or answer.startswith(b"HTTP/1.1 4"), answer
        assert b'"code":' in answer or not answer
        await site.works()


TOO_MUCH = {
    "long path": (get("/" + "a" * 600), b" 414 ", b"URL_TOO_LONG"),
    "long query": (get("/healthz?" + "a" * 600), b" 414 ", b"URL_TOO_LONG"),
    "long header": (get("/healthz", "X-A: " + "a" * 3_000), b" 431 ", b"HEADERS_TOO_LARGE"),
    "many headers": (get("/healthz", *(f"X-{n}: a" for n in range(30))), b" 431 ", b"HEADERS_TOO_LARGE"),
    "header without end": (get("/healthz")[:-2] + b"X-A: " + b"a" * 1_000_000, b" 431 ", b"HEADERS_TOO_LARGE"),
    "path without end": (b"GET /" + b"a" * 1_000_000, b" 414 ", b"URL_TOO_LONG"),
    "trailers without end": (
        post(b"2\r\n{}\r\n0\r\n" + b"X-T: a\r\n" * 100, "Transfer-Encoding: chunked"),
        b" 431 ",
        b"HEADERS_TOO_LARGE",
    ),
    "long body": (post(b"{}", "Content-Length: 99999999", "Expect: 100-continue"), b" 413 ", b"PAYLOAD_TOO_LARGE"),
    "long chunked body": (
        post(b"4000\r\n" + b" " * 0x4000 + b"\r\n" + b"0\r\n\r\n", "Transfer-Encoding: chunked"),
        b" 413 ",
        b"PAYLOAD_TOO_LARGE",
    ),
}


@pytest.mark.parametrize("name", TOO_MUCH)
async def test_what_is_too_much_is_refused_by_name(open_site: Any, name: str) -> None:
    """URL, headers, trailers and body have bounds of their own, each with its status and code, and the connection is closed."""
    sent, status, code = TOO_MUCH[name]
    async with open_site(limits=SMALL) as site:
        answer = await site.raw(sent)
        assert status in answer.split(b"\r\n")[0], answer[:300]
        assert code in answer
        assert b"connection: close" in answer.lower()
        await site.works()


async def test_a_body_that_is_a_little_too_long_leaves_the_connection(open_site: Any) -> None:
    """Its sender sees a 413 and can go on; the same for one that nobody asked for."""
    async with open_site(limits=SMALL) as site:
        for _ in range(3):
            answer = await site.http.post(WORKFLOWS, content=b" " * 100_000, headers={"Content-Type": "application/json"})
            site.refused(answer, 413, "PAYLOAD_TOO_LARGE")
        site.refused(await site.http.post("/nope", content=b" " * 100_000), 404, "NOT_FOUND")
        await site.works()


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /heal",
        b"GET /healthz HTTP/1.1\r\nHost: loc",
        b"\r\n\r\n",
        get("/healthz")[:-2],
        post(b"{", "Content-Length: 10"),
    ],
    ids=["nothing", "half a line", "half a header", "empty lines", "no end of headers", "half a body"],
)
async def test_who_sends_slowly_is_cut(open_site: Any, sent: bytes) -> None:
    """A connection whose request does not come in time is answered 408, or closed when nothing was said on it."""
    async with open_site(limits=SMALL) as site:
        answer = await site.raw(sent)
        spoke = bool(sent.strip())
        assert answer.startswith(b"HTTP/1.1 408 ") if spoke else answer == b"", answer
        await site.works()


async def test_a_drip_of_bytes_does_not_keep_a_connection(open_site: Any) -> None:
    """The time for headers is that of all of them together: a byte now and then wins nothing."""
    async with open_site(limits=SMALL) as site:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.server.port)
        reading = asyncio.ensure_future(reader.read())
        writer.write(b"GET /healthz HTTP/1.1\r\n")
        drops = 0
        while not reading.done():
            writer.write(b"X-A: a\r\n")
            drops += 1
            await asyncio.wait([reading], timeout=0.05)
        assert (await reading).startswith(b"HTTP/1.1 408 ")
        assert drops < 30
        writer.close()


async def test_a_slow_request_behind_one_that_waits_cuts_nobody(open_site: Any) -> None:
    """While a long poll is being answered, the next request on its connection may take its time."""
    async with open_site(wait_for, limits=SMALL) as site:
        await site.post(WORKFLOWS, {"type": "wait_for", "id": "w", "input": ["go"]})
        answer = site.raw(get(f"{WORKFLOWS}/w/result?wait=1") + b"GET /heal")
        assert (await answer).startswith(b"HTTP/1.1 202 ")


async def test_an_idle_connection_is_closed(open_site: Any) -> None:
    """After the keep-alive time, answered requests or not, also when empty lines come."""
    async with open_site(limits=SMALL) as site:
        answer = await site.raw(get("/healthz") + b"\r\n\r\n")
        assert answer.count(b"HTTP/1.1 200 ") == 1


async def test_pipelined_requests_are_answered_in_order_up_to_a_bound(open_site: Any) -> None:
    """A few are; many close the connection."""
    async with open_site(limits=SMALL) as site:
        few = await site.raw(get("/healthz") + get("/nope") + get("/readyz", "Connection: close"))
        assert re.findall(rb"HTTP/1.1 (\d+) ", few) == [b"200", b"404", b"200"]
        many = await site.raw(get("/healthz") * 100)
        assert many.count(b"HTTP/1.1 200 ") < 100
        await site.works()


async def test_who_does_not_read_is_cut(open_site: Any) -> None:
    """A caller that takes nothing of a large answer is cut after a while; one that takes a little at a time gets all of it."""
    async with open_site(limits=HttpLimits(unread_s=0.3, idle_s=0.3)) as site:
        body = {"type": "unknown", "id": "big", "input": ["x" * 1_900_000] * 2}
        for n in range(3):
            assert (await site.post(WORKFLOWS, {**body, "id": f"big{n}"})).status_code == 201
        path = f"{WORKFLOWS}/big0/history"
        connections = site.server._state.connections
        before = len(connections)
        reader, writer = await asyncio.open_connection("127.0.0.1", site.server.port, limit=1_024)
        writer.write(get(path))
        while len(connections) == before:  # noqa: ASYNC110  it turns the loop
            await asyncio.sleep(0)
        while len(connections) > before:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        writer.close()
        slow = await site.raw(get(path, "Connection: close"))
        assert len(slow) > 3_800_000
        assert reader is not None


async def test_one_connection_too_many_is_told(open_site: Any) -> None:
    """503 with the envelope; when another closes there is room again."""
    async with open_site(limits=HttpLimits(connections_max=3, idle_s=30)) as site:
        await site.get("/healthz")
        held = [await asyncio.open_connection("127.0.0.1", site.server.port) for _ in range(2)]
        for reader, writer in held:
            writer.write(get("/healthz"))
            assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        answer = await site.raw(get("/healthz"))
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"connections_max" in answer
        held[0][1].close()
        await held[0][1].wait_closed()
        while len(site.server._state.connections) > 2:  # noqa: ASYNC110  it turns the loop
            await asyncio.sleep(0)
        assert (await site.raw(get("/healthz", "Connection: close"))).startswith(b"HTTP/1.1 200 ")
        held[1][1].close()


async def test_requests_and_long_polls_have_bounds(open_site: Any) -> None:
    """Past either a 429 with Retry-After; waiting callers leave room for others, probes are always answered, room comes back."""
    async with open_site(wait_for, limits=HttpLimits(requests_max=3, waits_max=2)) as site:
        await site.post(WORKFLOWS, {"type": "wait_for", "id": "w", "input": ["go"]})
        waiting = [asyncio.ensure_future(site.get(f"{WORKFLOWS}/w/result", wait=30)) for _ in range(2)]
        await site.until_waiting(2)
        third = await site.get(f"{WORKFLOWS}/w/result", wait=30)
        assert "waits_max" in site.refused(third, 429, "RESOURCE_EXHAUSTED")["message"]
        assert int(third.headers["retry-after"]) >= 1
        assert (await site.get(f"{WORKFLOWS}/w")).status_code == 200
        await site.post(f"{WORKFLOWS}/w/signals/go", {"input": 1})
        assert [(await each).status_code for each in waiting] == [200, 200]
        assert (await site.get(f"{WORKFLOWS}/w/result", wait=1)).status_code == 200
        assert (site.app.under_way, site.app.polls.waiting, site.app._held) == (0, 0, 0)


async def test_a_caller_that_leaves_frees_its_place(open_site: Any) -> None:
    """A long poll ends when its caller hangs up, not when its time is over."""
    async with open_site(wait_for) as site:
        await site.post(WORKFLOWS, {"type": "wait_for", "id": "w", "input": ["go"]})
        _, writer = await asyncio.open_connection("127.0.0.1", site.server.port)
        writer.write(get(f"{WORKFLOWS}/w/result?wait=60"))
        await site.until_waiting()
        writer.close()
        while site.app.polls.waiting:  # noqa: ASYNC110  it turns the loop
            await asyncio.sleep(0)
        await site.works()


async def test_waiting_longer_than_allowed_is_refused(open_site: Any) -> None:
    """More than `wait_s_max`, less than nothing, and what is no number."""
    async with open_site() as site:
        for wait in ("61", "-1", "nan", "inf", "soon", "1e400"):
            for path in ("result", "history"):
                site.refused(await site.get(f"{WORKFLOWS}/w/{path}", wait=wait), 400, "INVALID_ARGUMENT")


async def test_payloads_have_the_bound_of_the_node(open_site: Any) -> None:
    """A payload of the largest size goes through, one byte more is a 413 that names the setting; deep nesting is refused."""
    async with open_site() as site:
        most = 2 * 1024 * 1024
        body = b'{"type":"unknown","input":["%s"]}'
        kind = {"Content-Type": "application/json"}
        fits = await site.http.post(WORKFLOWS, content=body % (b"x" * (most - 2)), headers=kind)
        assert fits.status_code == 201, fits.text
        answer = await site.http.post(WORKFLOWS, content=body % (b"x" * (most - 1)), headers=kind)
        assert "payload_bytes_max" in site.refused(answer, 413, "PAYLOAD_TOO_LARGE")["message"]
        deep = b'{"type":"unknown","input":[%s%s]}' % (b"[" * 5_000, b"]" * 5_000)
        for levels in (deep, b"[" * 2_000_000, b'{"type":"unknown","input":[%s%s]}' % (b"[" * 300, b"]" * 300)):
            answer = await site.http.post(WORKFLOWS, content=levels, headers=kind)
            site.refused(answer, 400, "INVALID_ARGUMENT")
        await site.works()


async def test_a_websocket_where_there_is_none_is_refused(open_site: Any) -> None:
    """An upgrade of a path that has no WebSocket gets an envelope; one to an unknown protocol is an ordinary request."""
    upgrade = (
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )
    async with open_site(limits=SMALL) as site:
        for path, status in (("/healthz", b"405"), ("/nope", b"404"), ("/api/v1/workflows", b"405")):
            answer = await site.raw(get(path, *upgrade))
            assert answer.startswith(b"HTTP/1.1 " + status), answer
            assert b'"code":' in answer
        other = await site.raw(get("/healthz", "Connection: Upgrade", "Upgrade: h2c"))
        assert other.startswith(b"HTTP/1.1 200 ")
        broken = await site.raw(get("/healthz", "Connection: Upgrade", "Upgrade: websocket"))
        assert not broken.startswith(b"HTTP/1.1 5"), broken
        await site.works()


async def test_many_odd_connections_at_once_do_no_harm(open_site: Any) -> None:
    """Everything above at once, several times over, while an honest caller is served."""
    async with open_site(wait_for, limits=SMALL) as site:
        odd = [*GARBAGE.values(), *(sent for sent, _, _ in TOO_MUCH.values() if len(sent) < 100_000), b"", b"GET /heal"]
        attack = asyncio.gather(*(site.raw(sent) for sent in odd * 4), return_exceptions=True)
        for n in range(20):
            answer = await site.post(WORKFLOWS, {"type": "wait_for", "id": f"r{n}", "input": ["go"]})
            assert answer.status_code == 201
        faults = [
            fault for fault in await attack if isinstance(fault, BaseException) and not isinstance(fault, ConnectionError)
        ]
        assert faults == []
        await site.works()
        assert (site.app.under_way, site.app._held) == (0, 0)
