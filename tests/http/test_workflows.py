"""Runs over HTTP: started, found, looked at, waited for; what is answered is what a client of the node sees."""

import asyncio
from datetime import datetime
from typing import Any
from urllib.parse import quote

import pytest

from perdure import activity, errors, workflow
from perdure.core.errors import ApplicationError

WORKFLOWS = "/api/v1/workflows"


@activity
async def greet(name: str) -> str:
    return f"hello {name}"


@workflow
async def hello(name: str, mark: str = "!") -> str:
    return await greet(name) + mark


@workflow
async def wait_for(name: str) -> Any:
    return await workflow.receive(name)


@workflow
async def fail(message: str) -> None:
    raise ApplicationError("it is over", type="Over", details={"n": 1}) from ValueError(message)


@workflow
async def count_down(n: int) -> str:
    if n:
        workflow.continue_as_new(n - 1)
    return "lift off"


@workflow
async def tell() -> dict[str, Any]:
    info = workflow.info()
    return {
        "memo": dict(info.memo),
        "attributes": {key: str(value) for key, value in info.attributes.items()},
        "queue": info.queue,
    }


async def test_a_run_is_started_and_its_result_waited_for(open_site: Any) -> None:
    """POST answers 201 with the run's id; the result is 200 with status and result, arguments by place and by name."""
    async with open_site(hello, greet) as site:
        started = await site.post(WORKFLOWS, {"type": "hello", "id": "h", "input": ["ann"], "keywords": {"mark": "?"}})
        assert started.status_code == 201
        run_id = started.json()["run_id"]
        assert started.json() == {"workflow_id": "h", "run_id": run_id}
        found = await site.get(f"{WORKFLOWS}/h/result", wait=30)
        assert (found.status_code, found.json()) == (
            200,
            {"workflow_id": "h", "run_id": run_id, "status": "completed", "result": "hello ann?"},
        )
        assert (await site.get(f"{WORKFLOWS}/h/result")).json() == found.json()


async def test_a_running_one_is_202_and_its_waiter_is_told_at_once(open_site: Any) -> None:
    """202 with the status at once and when `wait` passes; who waits gets the result when it is there, not later."""
    async with open_site(wait_for) as site:
        await site.post(WORKFLOWS, {"type": "wait_for", "id": "w", "input": ["go"]})
        for wait in (0, 0.05):
            found = await site.get(f"{WORKFLOWS}/w/result", wait=wait)
            assert (found.status_code, found.json()["status"], "result" in found.json()) == (202, "running", False)
        waiting = asyncio.ensure_future(site.get(f"{WORKFLOWS}/w/result", wait=30))
        await site.until_waiting()
        await site.post(f"{WORKFLOWS}/w/signals/go", {"input": {"any": [1, None]}})
        found = await waiting
        assert (found.status_code, found.json()["result"]) == (200, {"any": [1, None]})


async def test_a_failed_run_is_200_with_its_failure(open_site: Any) -> None:
    """A run that failed has a result all the same: status, class, message, details and cause."""
    async with open_site(fail) as site:
        await site.post(WORKFLOWS, {"type": "fail", "id": "f", "input": ["no"]})
        found = await site.get(f"{WORKFLOWS}/f/result", wait=30)
        assert (found.status_code, found.json()["status"]) == (200, "failed")
        failure = found.json()["failure"]
        assert (failure["type"], failure["message"], failure["details"]) == ("Over", "it is over", {"n": 1})
        assert (failure["cause"]["type"], failure["cause"]["message"]) == ("ValueError", "no")
        shown = (await site.get(f"{WORKFLOWS}/f")).json()
        assert (shown["status"], shown["failure"]["type"], "result" in shown) == ("failed", "Over", False)


async def test_a_result_of_nothing_is_null(open_site: Any) -> None:
    """A run that returns None has the result null, which is something else than no result."""
    async with open_site(wait_for) as site:
        await site.post(WORKFLOWS, {"type": "wait_for", "id": "n", "input": ["go"], "signal": {"name": "go", "input": None}})
        found = (await site.get(f"{WORKFLOWS}/n/result", wait=30)).json()
        assert found["result"] is None


async def test_continuations_are_followed(open_site: Any) -> None:
    """The result of the first run of a chain is that of its last."""
    async with open_site(count_down) as site:
        first = (await site.post(WORKFLOWS, {"type": "count_down", "id": "c", "input": [3]})).json()["run_id"]
        found = (await site.get(f"{WORKFLOWS}/c/result", wait=30, run_id=first)).json()
        assert (found["result"], found["run_id"] != first) == ("lift off", True)
        assert (await site.get(f"{WORKFLOWS}/c/result", run_id=first)).json() == found
        shown = (await site.get(f"{WORKFLOWS}/c", run_id=first)).json()
        assert (shown["status"], bool(shown["next_run_id"])) == ("continued", True)


async def test_every_start_option_arrives(open_site: Any) -> None:
    """Queue, memo, attributes (datetimes too), timeout, delay and priority are those of the run."""
    async with open_site(tell, queues=["default", "side"]) as site:
        body = {
            "type": "tell",
            "id": "t",
            "queue": "side",
            "memo": {"why": ["because", 1]},
            "attributes": {"n": 1, "ok": True, "tags": ["a", "b"], "due": "2026-01-02T03:04:05+01:00"},
            "attribute_datetimes": ["due"],
            "timeout": 3600,
            "start_delay": 0.01,
            "priority": 7,
            "origin": "synthetic",
        }
        assert (await site.post(WORKFLOWS, body)).status_code == 201
        found = (await site.get(f"{WORKFLOWS}/t/result", wait=30)).json()["result"]
        assert found == {
            "memo": {"why": ["because", 1]},
            "attributes": {"n": "1", "ok": "True", "tags": "['a', 'b']", "due": "2026-01-02 02:04:05+00:00"},
            "queue": "side",
        }
        shown = (await site.get(f"{WORKFLOWS}/t")).json()
        assert shown["memo"] == {"why": ["because", 1]}
        assert shown["attribute_datetimes"] == ["due"]
        started = (await site.get(f"{WORKFLOWS}/t/history", limit=1)).json()["items"][0]
        assert (started["timeout"], started["start_delay"], started["priority"], started["origin"]) == (
            3_600_000_000,
            10_000,
            7,
            "synthetic",
        )


async def test_an_idempotency_key_starts_once(open_site: Any) -> None:
    """Repeated with its key a start gets its run, open or closed, with or without an id; another key is refused or another run."""
    async with open_site(hello, greet) as site:
        body = {"type": "hello", "id": "i", "input": ["x"]}
        first = await site.post(WORKFLOWS, body, Idempotency_Key="k-1")
        await site.get(f"{WORKFLOWS}/i/result", wait=30)
        again = await site.post(WORKFLOWS, {**body, "reuse": "never"}, Idempotency_Key="k-1")
        assert (again.status_code, again.json()) == (201, first.json())
        refused = await site.post(WORKFLOWS, {**body, "reuse": "never"}, Idempotency_Key="k-2")
        assert site.refused(refused, 409, "WORKFLOW_ALREADY_STARTED")["details"] == {"run_id": first.json()["run_id"]}
        unnamed = {"type": "hello", "input": ["x"]}
        made = [(await site.post(WORKFLOWS, unnamed, Idempotency_Key=key)).json() for key in ("a", "a", "b")]
        assert made[0] == made[1] != made[2]
        assert (await site.get("/api/v1/workflow-count")).json() == {"count": 3}


async def test_conflicts_are_met_as_asked(open_site: Any) -> None:
    """fail is a 409 naming the run, attach a 200 with it, terminate a new run; a signal attaches by itself."""
    async with open_site(wait_for) as site:
        body = {"type": "wait_for", "id": "x", "input": ["go"]}
        run_id = (await site.post(WORKFLOWS, body)).json()["run_id"]
        error = site.refused(await site.post(WORKFLOWS, body), 409, "WORKFLOW_ALREADY_STARTED")
        assert error["details"] == {"run_id": run_id}
        attached = await site.post(WORKFLOWS, {**body, "on_conflict": "attach"})
        assert (attached.status_code, attached.json()) == (200, {"workflow_id": "x", "run_id": run_id, "attached": True})
        signalled = await site.post(WORKFLOWS, {**body, "signal": {"name": "other", "input": 1, "signal_id": "s"}})
        assert (signalled.status_code, signalled.json()["run_id"]) == (200, run_id)
        replaced = await site.post(WORKFLOWS, {**body, "on_conflict": "terminate"})
        assert (replaced.status_code, replaced.json()["run_id"] != run_id) == (201, True)
        assert (await site.get(f"{WORKFLOWS}/x", run_id=run_id)).json()["status"] == "terminated"


async def test_runs_are_listed_and_counted_by_query(open_site: Any) -> None:
    """Pages hang together by their cursor, newest first, null at the end; a bad query is a 400 with its column."""
    async with open_site(wait_for) as site:
        for n in range(5):
            await site.post(WORKFLOWS, {"type": "wait_for", "id": f"r{n}", "input": ["go"], "attributes": {"n": n}})
        seen: list[str] = []
        query: dict[str, Any] = {"query": "attr.n >= 1", "limit": 2}
        for size in (2, 2, None):
            page = (await site.get(WORKFLOWS, **query)).json()
            seen += [item["workflow_id"] for item in page["items"]]
            assert size is None or len(page["items"]) == size
            if page["cursor"] is None:
                break
            query["cursor"] = page["cursor"]
        assert seen == ["r4", "r3", "r2", "r1"]
        item = page["items"][0] if page["items"] else {}
        assert item == {} or datetime.fromisoformat(item["started_at"])
        assert (await site.get("/api/v1/workflow-count", query="attr.n < 2")).json() == {"count": 2}
        assert site.refused(await site.get(WORKFLOWS, query="status = "), 400, "INVALID_ARGUMENT")["details"] == {"column": 10}
        assert (
            site.refused(await site.get("/api/v1/workflow-count", query="nope = 1"), 400, "INVALID_ARGUMENT")["details"][
                "column"
            ]
            == 1
        )
        site.refused(await site.get(WORKFLOWS, cursor="x"), 400, "INVALID_ARGUMENT")
        assert (await site.get(WORKFLOWS, namespace="elsewhere")).json() == {"items": [], "cursor": None}


async def test_a_history_comes_in_parts_and_can_be_waited_for(open_site: Any) -> None:
    """Parts follow each other without gap or repetition; a waiter gets the next events when they are there; no claim's token is shown."""
    async with open_site(wait_for, hello, greet) as site:
        await site.post(WORKFLOWS, {"type": "hello", "id": "h", "input": ["x"]})
        await site.get(f"{WORKFLOWS}/h/result", wait=30)
        whole = (await site.get(f"{WORKFLOWS}/h/history", notes="true")).json()
        assert whole["cursor"] is None
        parts, after = [], ""
        while after is not None:
            part = (await site.get(f"{WORKFLOWS}/h/history", notes="true", limit=1, after=after)).json()
            parts, after = parts + part["items"], part["cursor"]
        assert parts == whole["items"]
        rest = (await site.get(f"{WORKFLOWS}/h/history", notes="true", after="3")).json()["items"]
        assert rest == [item for item in whole["items"] if (item.get("after", 0) >= 3 if "note" in item else item["id"] > 3)]
        assert [item["id"] for item in whole["items"] if "note" not in item] == [1, 2, 3, 4]
        assert [item["type"] for item in whole["items"] if "note" not in item][0::3] == ["started", "completed"]
        assert not any({"token", "incarnation"} & item.keys() for item in whole["items"])

        await site.post(WORKFLOWS, {"type": "wait_for", "id": "w", "input": ["go"]})
        first = (await site.get(f"{WORKFLOWS}/w/history")).json()
        assert [item["type"] for item in first["items"]] == ["started"]
        waiting = asyncio.ensure_future(site.get(f"{WORKFLOWS}/w/history", after=first["cursor"], wait=30))
        await site.until_waiting()
        await site.post(f"{WORKFLOWS}/w/signals/go", {"input": 1})
        assert (await waiting).json()["items"][0]["type"] == "signal_received"
        nothing = (await site.get(f"{WORKFLOWS}/w/history", after="999", wait=0.05)).json()
        assert nothing["items"] == []


async def test_what_a_run_waits_for_is_told(open_site: Any) -> None:
    """Describing an open run names the timer, activity or worker it waits for, with times as text in UTC."""
    async with open_site(hello) as site:  # greet is not registered: nobody can run it
        await site.post(WORKFLOWS, {"type": "hello", "id": "h", "input": ["x"], "start_delay": 1000})
        shown = (await site.get(f"{WORKFLOWS}/h")).json()
        assert [(item["kind"], datetime.fromisoformat(item["until"]).utcoffset() is not None) for item in shown["pending"]] == [
            ("start", True)
        ]


ODD_IDS = [
    "a/b",
    "..",
    ".",
    "%",
    "%2F",
    "é",
    "a?b",
    "a#b",
    " ",
    "+",
    "count",
    "result",
    "a;b=c",
    "日本語",
    "x" * 255,
    "é" * 127,
    "//",
    "\\",
    '"<script>',
]


@pytest.mark.parametrize("odd", ODD_IDS)
async def test_any_id_can_be_reached(open_site: Any, odd: str) -> None:
    """Every valid id is reached by every route when it is percent-encoded: slashes, dots, percent signs, 255 bytes."""
    async with open_site(wait_for) as site:
        await site.post(WORKFLOWS, {"type": "wait_for", "id": odd, "input": [odd]})
        path = f"{WORKFLOWS}/{encoded(odd)}"
        assert (await site.get(path)).json()["workflow_id"] == odd
        sent = await site.post(f"{path}/signals/{encoded(odd)}", {"input": odd})
        assert sent.status_code == 200, sent.text
        assert (await site.get(f"{path}/result", wait=30)).json()["result"] == odd
        assert (await site.get(f"{path}/history")).status_code == 200
        assert site.refused(await site.post(f"{path}/cancel"), 409, "WORKFLOW_CLOSED")


def encoded(text: str) -> str:
    """Percent-encoded whole, dots too: else a client takes them for steps up."""
    return quote(text, safe="").replace(".", "%2E")


@pytest.mark.parametrize("bad", ["%00", "%0A", "%FF", "%zz", "%", "%2", "%C3%28", "x" * 256, "%ED%A0%80"])
async def test_an_id_that_cannot_be_is_refused(open_site: Any, bad: str) -> None:
    """Control characters, broken encodings and 256 bytes are a 400 that says so."""
    async with open_site() as site:
        answer = await site.raw(f"GET {WORKFLOWS}/{bad} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 404 ")), answer
        posted = await site.raw(
            f"POST {WORKFLOWS}/{bad}/cancel HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
        )
        assert posted.startswith(b"HTTP/1.1 400 "), posted
        await site.works()


async def test_what_is_not_there_is_404(open_site: Any) -> None:
    """Workflow ids, runs and paths that do not exist."""
    async with open_site(wait_for) as site:
        await site.post(WORKFLOWS, {"type": "wait_for", "id": "w", "input": ["go"]})
        for path in (
            "/nope",
            "/",
            "",
            "/api",
            "/api/v1/",
            f"{WORKFLOWS}/",
            f"{WORKFLOWS}/w/",
            f"{WORKFLOWS}/w/nope",
            f"{WORKFLOWS}//result",
        ):
            site.refused(await site.get(path), 404, "NOT_FOUND")
        for path in ("", "/result", "/history"):
            site.refused(await site.get(f"{WORKFLOWS}/other{path}"), 404, "NOT_FOUND")
            site.refused(await site.get(f"{WORKFLOWS}/w{path}", run_id="other"), 404, "NOT_FOUND")
            site.refused(await site.get(f"{WORKFLOWS}/w{path}", namespace="other"), 404, "NOT_FOUND")


async def test_payloads_go_through_as_they_are(open_site: Any) -> None:
    """Numbers keep their digits, objects their order and their repeated keys: nobody reads a payload on its way."""
    async with open_site() as site:
        text = '{"b":1.10,"a":12345678901234567890123,"b":2}'
        body = f'{{"type":"nobody","id":"p","input":[ {text} ],"memo":{{"m":{text}}}}}'
        sent = await site.http.post(WORKFLOWS, content=body, headers={"Content-Type": "application/json"})
        assert sent.status_code == 201
        assert text in (await site.get(f"{WORKFLOWS}/p")).text
        assert text in (await site.get(f"{WORKFLOWS}/p/history")).text


async def test_a_client_of_the_node_and_a_caller_of_http_see_the_same_run(open_site: Any) -> None:
    """What was started by one is finished by the other."""
    async with open_site(wait_for) as site:
        handle = await site.node.client.start(wait_for("go"), id="both")
        assert (await site.post(f"{WORKFLOWS}/both/signals/go", {"input": "over http"})).status_code == 200
        assert await handle.result() == "over http"
        await site.post(WORKFLOWS, {"type": "wait_for", "id": "two", "input": ["go"]})
        other = site.node.client.handle("two")
        await other.signal("go", 5)
        assert (await site.get(f"{WORKFLOWS}/two/result", wait=30)).json()["result"] == 5
        with pytest.raises(errors.WorkflowClosed):
            await other.signal("go", 6)
