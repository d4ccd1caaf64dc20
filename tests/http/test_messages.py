"""Signals, queries, updates, steering, and activities finished from outside, over HTTP."""

import asyncio
from typing import Any

import msgspec
import pytest

from perdure import activity, workflow
from perdure.core.errors import ApplicationError

WORKFLOWS = "/api/v1/workflows"
ACTIVITIES = "/api/v1/activities"


@workflow
class Cart:
    def __init__(self) -> None:
        self.items: list[str] = []
        self.paid = ""

    @workflow.run
    async def run(self) -> list[str]:
        await workflow.wait_until(lambda: bool(self.paid))
        return [*self.items, self.paid]

    @workflow.signal
    def add(self, item: str, times: int = 1) -> None:
        self.items += [item] * times

    @workflow.signal
    def clear(self) -> None:
        self.items.clear()

    @workflow.query
    def size(self) -> int:
        return len(self.items)

    @workflow.query
    def has(self, item: str, *, least: int = 1) -> bool:
        return self.items.count(item) >= least

    @workflow.query
    def broken(self) -> None:
        raise ValueError("no answer")

    @workflow.update
    async def pay(self, code: str) -> str:
        if code == "stolen":
            raise ApplicationError("the bank says no", type="Declined", details={"code": code})
        if code == "slow":
            await asyncio.sleep(86_400)
        self.paid = code
        return f"paid with {code}"

    @pay.validator
    def _check(self, code: str) -> None:
        if not self.items:
            raise ValueError("nothing to pay for")


async def cart(site: Any, *items: str) -> str:
    await site.post(WORKFLOWS, {"type": "Cart", "id": "c"})
    for item in items:
        assert (await site.post(f"{WORKFLOWS}/c/signals/add", {"input": item})).status_code == 200
    return f"{WORKFLOWS}/c"


async def test_signals_arrive_once(open_site: Any) -> None:
    """With one value, with several, by name, with none; the same signal id or Idempotency-Key is delivered once and says so."""
    async with open_site(Cart) as site:
        path = await cart(site)
        assert "duplicate" not in (await site.post(f"{path}/signals/add", {"input": "a", "signal_id": "1"})).json()
        assert (await site.post(f"{path}/signals/add", {"input": "a", "signal_id": "1"})).json()["duplicate"] is True
        assert "duplicate" not in (await site.post(f"{path}/signals/add", {"args": ["b", 2]}, Idempotency_Key="2")).json()
        assert (await site.post(f"{path}/signals/add", {"args": ["b", 2]}, Idempotency_Key="2")).json()["duplicate"] is True
        await site.post(f"{path}/signals/add", {"keywords": {"item": "c"}})
        assert (await site.post(f"{path}/queries/size")).json() == {"result": 4}
        assert (await site.post(f"{path}/signals/clear")).status_code == 200
        assert (await site.post(f"{path}/queries/size")).json() == {"result": 0}
        site.refused(await site.post(f"{path}/signals/add", {"input": 1, "args": [2]}), 400, "INVALID_ARGUMENT")
        site.refused(await site.post(f"{WORKFLOWS}/none/signals/add", {"input": 1}), 404, "NOT_FOUND")


async def test_queries_answer_or_say_why_not(open_site: Any) -> None:
    """An answer is 200, what the handler raises 422 with the failure, an unknown query 404, arguments that do not fit 400."""
    async with open_site(Cart) as site:
        path = await cart(site, "a", "a")
        assert (await site.post(f"{path}/queries/has", {"input": ["a"], "keywords": {"least": 2}})).json() == {"result": True}
        error = site.refused(await site.post(f"{path}/queries/broken"), 422, "APPLICATION_ERROR")
        assert error["message"] == "ValueError: no answer"
        assert (error["details"]["status"], error["details"]["failure"]["type"]) == ("failed", "ValueError")
        assert "broken, has, size" in site.refused(await site.post(f"{path}/queries/none"), 404, "NOT_FOUND")["message"]
        site.refused(await site.post(f"{path}/queries/has", {"input": [{"not": "text"}]}), 400, "INVALID_ARGUMENT")
        site.refused(await site.post(f"{path}/queries/size", {"timeout": 61}), 400, "INVALID_ARGUMENT")


async def test_a_query_nobody_answers_is_503(open_site: Any) -> None:
    """Without a worker that knows the code a query gives up after its timeout, and says when to come back."""
    async with open_site() as site:
        await site.post(WORKFLOWS, {"type": "unknown", "id": "u"})
        answer = await site.post(f"{WORKFLOWS}/u/queries/size", {"timeout": 0.05})
        site.refused(answer, 503, "UNAVAILABLE")
        assert int(answer.headers["retry-after"]) >= 1


async def test_updates_are_carried_out_once(open_site: Any) -> None:
    """An update's result is 200, the same for the same id; a refusal and a failure are 422 and say which; a slow one is 202."""
    async with open_site(Cart) as site:
        path = await cart(site)
        error = site.refused(
            await site.post(f"{path}/updates/pay", {"input": ["x"], "update_id": "0"}), 422, "APPLICATION_ERROR"
        )
        assert (error["details"]["status"], error["details"]["update_id"]) == ("rejected", "0")
        await site.post(f"{path}/signals/add", {"input": "a"})
        error = site.refused(await site.post(f"{path}/updates/pay", {"input": ["stolen"]}), 422, "APPLICATION_ERROR")
        assert (error["details"]["status"], error["details"]["failure"]["type"]) == ("failed", "Declined")
        assert error["details"]["failure"]["details"] == {"code": "stolen"}
        slow = await site.http.post(f"{path}/updates/pay", params={"wait": 0.2}, json={"input": ["slow"], "update_id": "s"})
        assert (slow.status_code, slow.json()["status"], slow.json()["update_id"]) == (202, "accepted", "s")
        site.refused(await site.post(f"{path}/updates/pay", {"input": [5]}), 400, "INVALID_ARGUMENT")
        site.refused(await site.post(f"{path}/updates/nope", {}), 400, "INVALID_ARGUMENT")
        assert (await site.post(f"{path}/updates/pay", {"input": ["card"], "update_id": "u"})).json() == {
            "result": "paid with card"
        }
        assert (await site.get(f"{path}/result", wait=30)).json()["result"] == ["a", "card"]
        again = await site.post(f"{path}/updates/pay", {"input": ["card"], "update_id": "u"})
        assert again.json() == {"result": "paid with card"}
        site.refused(await site.post(f"{path}/updates/pay", {"input": ["card"]}), 409, "WORKFLOW_CLOSED")


async def test_an_update_nobody_takes_waits(open_site: Any) -> None:
    """Without a worker an update stands as `waiting`, and is not lost when its caller asks again."""
    async with open_site() as site:
        await site.post(WORKFLOWS, {"type": "Cart", "id": "c"})
        for _ in range(2):
            answer = await site.http.post(f"{WORKFLOWS}/c/updates/pay", params={"wait": 0.05}, json={"update_id": "w"})
            assert (answer.status_code, answer.json()) == (202, {"update_id": "w", "status": "waiting"})


async def test_runs_are_steered(open_site: Any) -> None:
    """Pause and resume, cancel once per key, reset to a new run, terminate: each shows in the run."""
    async with open_site(Cart) as site:
        path = await cart(site, "a")
        assert (await site.post(f"{path}/pause", {"reason": "lunch"})).status_code == 200
        assert (await site.get(path)).json()["status"] == "paused"
        assert (await site.post(f"{path}/resume")).status_code == 200
        assert (await site.get(path)).json()["status"] == "running"
        first = await site.post(f"{path}/cancel", {"reason": "no more"}, Idempotency_Key="k")
        run_id = first.json()["run_id"]
        ended = (await site.get(f"{path}/result", wait=30)).json()
        assert (ended["status"], ended["reason"], ended["run_id"]) == ("cancelled", "no more", run_id)
        assert (await site.post(f"{path}/cancel", Idempotency_Key="k")).json()["duplicate"] is True
        for verb in ("cancel", "terminate", "pause", "resume"):
            error = site.refused(await site.post(f"{path}/{verb}"), 409, "WORKFLOW_CLOSED")
            assert error["details"]["run_id"] == run_id
        reset = await site.post(f"{path}/reset", {"event_id": 1, "reason": "again"}, Idempotency_Key="r")
        assert (reset.status_code, reset.json()["run_id"] != run_id) == (201, True)
        assert (await site.post(f"{path}/reset", {"event_id": 1}, Idempotency_Key="r")).json() == reset.json()
        assert (await site.post(f"{path}/terminate", {"reason": "enough"})).json()["run_id"] == reset.json()["run_id"]
        assert (await site.get(f"{path}/result")).json()["status"] == "terminated"
        site.refused(await site.post(f"{path}/reset", {"event_id": 999}), 400, "INVALID_ARGUMENT")
        site.refused(await site.post(f"{path}/reset", {"event_id": 0}), 400, "INVALID_ARGUMENT")
        site.refused(await site.post(f"{path}/reset"), 400, "INVALID_ARGUMENT")


@workflow
async def ask() -> Any:
    return await waits()


_tokens: list[asyncio.Queue[str]] = []


@activity(heartbeat=3600)
async def waits() -> Any:
    await _tokens[0].put(activity.info().task_token)
    activity.complete_later()


@pytest.fixture
def tokens() -> Any:
    _tokens[:] = [asyncio.Queue()]
    return _tokens[0]


async def test_an_activity_is_completed_from_outside(open_site: Any, tokens: Any) -> None:
    """By its task token, once; heartbeats keep it alive and tell of a cancel; the token is in no URL and no history."""
    async with open_site(ask, waits) as site:
        await site.post(WORKFLOWS, {"type": "ask", "id": "a"})
        token = await tokens.get()
        beat = await site.post(f"{ACTIVITIES}/heartbeat", {"task_token": token, "details": [{"page": 3}]})
        assert beat.json() == {"cancel_requested": False}
        done = await site.post(f"{ACTIVITIES}/complete", {"task_token": token, "result": {"said": "yes"}})
        assert (done.status_code, done.json()["workflow_id"]) == (200, "a")
        assert (await site.get(f"{WORKFLOWS}/a/result", wait=30)).json()["result"] == {"said": "yes"}
        for verb, body in (("complete", {"result": 1}), ("fail", {}), ("heartbeat", {})):
            site.refused(await site.post(f"{ACTIVITIES}/{verb}", {"task_token": token, **body}), 404, "NOT_FOUND")
        error = site.refused(await site.post(f"{ACTIVITIES}/complete", {"task_token": token[:-1]}), 400, "INVALID_ARGUMENT")
        assert token[:20] not in error["message"]
        assert token not in (await site.get(f"{WORKFLOWS}/a/history", notes="true")).text


async def test_an_activity_fails_from_outside(open_site: Any, tokens: Any) -> None:
    """A failure has the class, message and details that were sent, may be tried again, or not."""
    async with open_site(ask, waits) as site:
        await site.post(WORKFLOWS, {"type": "ask", "id": "f"})
        trouble = {"type": "Busy", "message": "later", "next_retry_delay": 0}
        assert (
            await site.post(f"{ACTIVITIES}/fail", {"task_token": await tokens.get(), "failure": trouble})
        ).status_code == 200
        last = {"type": "Rejected", "message": "by hand", "details": [1], "non_retryable": True}
        assert (await site.post(f"{ACTIVITIES}/fail", {"task_token": await tokens.get(), "failure": last})).status_code == 200
        failure = (await site.get(f"{WORKFLOWS}/f/result", wait=30)).json()["failure"]
        assert (failure["type"], failure["message"], failure["details"]) == ("Rejected", "by hand", [1])
        assert failure["cause"]["attempts"] == 2


async def test_an_activity_that_is_cancelled_hears_of_it(open_site: Any, tokens: Any) -> None:
    """The next heartbeat says that a cancel was asked for; `cancelled` ends the attempt as that."""
    async with open_site(ask, waits) as site:
        await site.post(WORKFLOWS, {"type": "ask", "id": "x"})
        token = await tokens.get()
        beat: dict[str, Any] = {"task_token": token}
        assert (await site.post(f"{ACTIVITIES}/heartbeat", beat)).json() == {"cancel_requested": False}
        await site.post(f"{WORKFLOWS}/x/cancel")
        ended = (await site.get(f"{WORKFLOWS}/x/result", wait=30)).json()
        assert ended["status"] == "cancelled"
        assert msgspec.json.decode((await site.post(f"{ACTIVITIES}/fail", {**beat, "cancelled": True})).content)
