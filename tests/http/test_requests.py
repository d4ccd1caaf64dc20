"""What holds for any request: its id, its log line, its method, its query and body, its errors, its headers."""

import logging
from typing import Any

import pytest

import perdure
from perdure.core.principal import Principal
from perdure.runtime.api_key import hash_of, new_api_key
from perdure.runtime.clock import RealClock
from perdure.server.access import Gate, KnownKey
from perdure.server.app import build_app
from perdure.server.http_server import HttpServer

WORKFLOWS = "/api/v1/workflows"


async def test_a_request_id_is_echoed_or_made(open_site: Any, caplog: pytest.LogCaptureFixture) -> None:
    """One of the caller's that is plain and short is used everywhere; any other is replaced, never repeated."""
    async with open_site() as site:
        with caplog.at_level(logging.INFO, "perdure.access"):
            answer = await site.http.get("/nope", headers={"X-Request-Id": "order-42/try.1"})
            assert site.refused(answer, 404, "NOT_FOUND")["request_id"] == "order-42/try.1"
            assert caplog.messages[-1].endswith(" order-42/try.1")
        for bad in ("", "a b", "x" * 129, '"', "<b>"):
            made = (await site.http.get("/healthz", headers={"X-Request-Id": bad})).headers["x-request-id"]
            assert made not in {"", bad}
        made = {(await site.get("/healthz")).headers["x-request-id"] for _ in range(3)}
        assert len(made) == 3


async def test_a_line_of_the_access_log_says_who_did_what(open_site: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Caller, key, method, path, status, time, request id; nothing of the query, the body or the headers."""
    key = new_api_key()
    gate = Gate([KnownKey(Principal("ci", "operator"), hash_of(key))], RealClock())
    async with open_site(gate=gate) as site:
        with caplog.at_level(logging.INFO, "perdure.access"):
            await site.http.post(
                f"{WORKFLOWS}?namespace=hidden", json={"type": "secret"}, headers={"Authorization": f"Bearer {key}"}
            )
            await site.get(f"{WORKFLOWS}/a%2Fb")
        first, second = caplog.messages[-2:]
        assert first.startswith("127.0.0.1 ci POST /api/v1/workflows 201 ")
        assert second.startswith("127.0.0.1 - GET /api/v1/workflows/a%2Fb 401 ")
        assert not any(word in first for word in ("hidden", "secret", key, "Bearer"))


async def test_who_may_not_is_told(open_site: Any) -> None:
    """401 without a key, with the scheme to use; 403 for a role that may not; probes and the API's description need none."""
    key = new_api_key()
    gate = Gate([KnownKey(Principal("eye", "read-only"), hash_of(key))], RealClock())
    async with open_site(gate=gate) as site:
        answer = await site.get(WORKFLOWS)
        site.refused(answer, 401, "UNAUTHENTICATED")
        assert answer.headers["www-authenticate"] == "Bearer"
        site.http.headers["Authorization"] = f"Bearer {key}"
        assert (await site.get(WORKFLOWS)).status_code == 200
        site.refused(await site.post(WORKFLOWS, {"type": "x"}), 403, "PERMISSION_DENIED")
        site.http.headers["Authorization"] = "Bearer wrong"
        for path in ("/healthz", "/readyz", "/health", "/docs", "/api/v1/openapi.json"):
            assert (await site.get(path)).status_code == 200


async def test_a_method_a_path_does_not_have_is_405(open_site: Any) -> None:
    """With the methods it has, in `Allow`; HEAD is answered like GET, without a body."""
    async with open_site() as site:
        answer = await site.http.request("DELETE", WORKFLOWS)
        site.refused(answer, 405, "METHOD_NOT_ALLOWED")
        assert answer.headers["allow"] == "GET, POST, HEAD"
        answer = await site.get(f"{WORKFLOWS}/x/cancel")
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        head = await site.http.head("/healthz")
        assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", "15")


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("limt=5", "'limt' is not known: did you mean 'limit'?"),
        ("limit=5&limit=6", "'limit' is given more than once"),
        ("limit=five", "'limit'"),
        ("limit=0", "'limit': Expected `int` >= 1"),
        ("limit=1001", "'limit': Expected `int` <= 1000"),
        ("limit", "name=value"),
        ("query=%ff", "UTF-8"),
        ("&".join(f"a{n}=1" for n in range(40)), "at most 32"),
        ("namespace=", "'namespace'"),
        ("cursor=nobody%20gave%20that", "cursor"),
    ],
)
async def test_a_query_that_does_not_fit_is_refused_by_name(open_site: Any, query: str, says: str) -> None:
    """Unknown, repeated, misspelt, out of bounds, no query at all: 400, naming the parameter and the nearest real one."""
    async with open_site() as site:
        error = site.refused(await site.http.get(f"{WORKFLOWS}?{query}"), 400, "INVALID_ARGUMENT")
        assert says in error["message"]
        site.refused(await site.http.get("/healthz?a=1"), 400, "INVALID_ARGUMENT")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('{"type":"x","idd":"y"}', "'idd' is not known: did you mean 'id'?"),
        ('{"type":"x","signal":{"name":"s","inputs":1}}', "'signal.inputs' is not known: did you mean 'input'?"),
        ('{"type":"x","zzz":1}', "there are type, id, input"),
        ('{"type":"x","a`b":1}', "is not known"),
        ("{}", "missing required field `type`"),
        ('{"type":5}', "'type': Expected `str`, got `int`"),
        ('{"type":""}', "'type'"),
        ('{"type":"x","on_conflict":"maybe"}', "'on_conflict'"),
        ('{"type":"x","timeout":-1}', "'timeout'"),
        ('{"type":"x","timeout":0}', "timeout must be more than zero"),
        ('{"type":"x","priority":1001}', "'priority'"),
        ('{"type":"x","attributes":{"a":null}}', "attributes"),
        ('{"type":"x","attributes":{"a":"noon"},"attribute_datetimes":["a"]}', "attributes['a']"),
        ('{"type":"x","attribute_datetimes":["a"]}', "attributes['a']"),
        ('{"type":"x","id":"a\\nb"}', "control character"),
        ('{"type":"x","input":[1,]}', "no JSON"),
        ('{"type":"x"} trailing', "no JSON"),
        ("[]", "Expected `object`, got `array`"),
        ("", "needs a JSON body"),
        ("\ufeff{}", "no JSON"),
    ],
)
async def test_a_body_that_does_not_fit_is_refused_by_name(open_site: Any, body: str, says: str) -> None:
    """400, naming the field and what is wrong with it."""
    async with open_site() as site:
        answer = await site.http.post(WORKFLOWS, content=body.encode(), headers={"Content-Type": "application/json"})
        assert says in site.refused(answer, 400, "INVALID_ARGUMENT")["message"]


async def test_a_body_that_is_no_text_is_refused(open_site: Any) -> None:
    """Bytes that are no UTF-8 never get into a history, not even inside a payload."""
    async with open_site() as site:
        answer = await site.http.post(
            WORKFLOWS, content=b'{"type":"x","input":["\xff"]}', headers={"Content-Type": "application/json"}
        )
        assert "byte 22" in site.refused(answer, 400, "INVALID_ARGUMENT")["message"]


async def test_a_body_has_to_say_that_it_is_json(open_site: Any) -> None:
    """So that no page of another site can send one without being asked first; an empty body needs no type."""
    async with open_site() as site:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "application/jsonx"):
            answer = await site.http.post(WORKFLOWS, content=b'{"type":"x"}', headers={"Content-Type": kind})
            site.refused(answer, 415, "UNSUPPORTED_MEDIA_TYPE")
        for kind in ("application/json", "application/json; charset=utf-8", "Application/JSON", "application/vnd.x+json"):
            answer = await site.http.post(WORKFLOWS, content=b'{"type":"x"}', headers={"Content-Type": kind})
            assert answer.status_code == 201
        site.refused(await site.post(f"{WORKFLOWS}/none/cancel"), 404, "NOT_FOUND")


async def test_an_idempotency_key_has_to_be_an_id(open_site: Any) -> None:
    """Unicode is fine, bytes that are no text are not, nor 256 of them."""
    async with open_site() as site:
        body = b'{"type":"x","id":"i"}'
        kind = b"application/json"
        for key, status in (("schlüssel".encode(), 201), (b"\xff\xfe", 400), (b"k" * 256, 400)):
            answer = await site.http.post(WORKFLOWS, content=body, headers=[(b"Content-Type", kind), (b"Idempotency-Key", key)])
            assert answer.status_code == status, answer.text
        again = await site.http.post(
            WORKFLOWS, content=body, headers=[(b"Content-Type", kind), (b"Idempotency-Key", "schlüssel".encode())]
        )
        assert again.status_code == 201


async def test_what_fails_inside_is_a_500_that_tells_nothing(open_site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log has the exception, under the request id; the caller gets neither its text nor its class."""

    async def broken(*_: object) -> Any:
        raise ZeroDivisionError("secret")

    async with open_site() as site:
        monkeypatch.setattr(site.node.frontend, "describe", broken)
        answer = await site.get(f"{WORKFLOWS}/x")
        site.refused(answer, 500, "PERDURE_ERROR")
        assert "secret" not in answer.text
        assert "ZeroDivision" not in answer.text


async def test_answers_say_what_they_are(open_site: Any) -> None:
    """JSON, not to be stored nor guessed at, with the date; the docs page loads nothing from anywhere."""
    async with open_site() as site:
        headers = (await site.get("/healthz")).headers
        assert headers["content-type"] == "application/json"
        assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")
        assert headers["date"].endswith(" GMT")
        assert "server" not in headers
        page = await site.get("/docs")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["content-security-policy"].startswith("default-src 'none'")
        assert "http://" not in page.text
        assert "https://" not in page.text
        assert "<script" not in page.text


async def test_a_node_that_is_not_ready_says_so(tmp_path: Any) -> None:
    """readyz and health are 503 with the reason until `ready` has none; healthz is 200 all along."""
    import httpx2

    reason = "reading the journal"
    async with perdure.embedded(tmp_path / "data") as node:
        server = HttpServer(build_app(node.frontend, Gate.open(), ready=lambda: reason), port=0)
        await server.start()
        async with httpx2.AsyncClient(base_url=server.url) as http:
            answer = await http.get("/readyz")
            assert (answer.status_code, answer.json()) == (503, {"status": "not ready", "reason": "reading the journal"})
            assert (await http.get("/health")).status_code == 503
            assert (await http.get("/healthz")).status_code == 200
            reason = ""
            assert (await http.get("/readyz")).json() == {"status": "ready"}
        await server.stop()
