"""The steps of the pipeline, the same in every build: each asks the outside world for one effect under its idempotency key.

A brief is planned by a model, researched with tools side by side, written up by the model, approved by a person, paid for and published.
What a step got is passed on to the next, so that the world's ledger shows whether each built on what was really there before it.
"""

import asyncio
import json
import os
from dataclasses import asdict, dataclass
from http.client import HTTPConnection
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from perdure import Retry, activity, workflow

WORLD: Final = "PERDURE_CHAOS_WORLD"
"""The environment variable that says where the outside world is."""
TIMEOUT_S: Final = 5.0
"""So long is an answer of the world waited for."""


@dataclass(frozen=True)
class Brief:
    """What is asked of the agent. `patience_s`: so long is an approval waited for."""

    id: str
    topic: str
    cents: int
    patience_s: float


@dataclass(frozen=True)
class Use:
    """One use of a tool, as the model wants it."""

    tool: Literal["search", "fetch", "compute"]
    query: str


@dataclass(frozen=True)
class Plan:
    id: str
    uses: tuple[Use, ...]


@dataclass(frozen=True)
class Piece:
    """How it ended: what was published and paid, or why nothing was."""

    brief_id: str
    outcome: Literal["published", "declined", "expired"]
    article: str = ""
    receipt: str = ""


class RefusedError(Exception):
    """The world will never do this; trying again is no use."""


patient = Retry(initial=0.05, max_interval=1.0, non_retryable=(RefusedError,))


@activity(retry=patient, start_to_close=30)
def plan(brief: Brief) -> Plan:
    answer = call("model/plan", brief.id, topic=brief.topic)
    return Plan(answer["id"], tuple(Use(**use) for use in answer["uses"]))


@activity(retry=patient, start_to_close=30)
def search(brief_id: str, query: str, plan_id: str) -> str:
    return done("tools/search", brief_id, item=query, based_on=[plan_id])


@activity(retry=patient, start_to_close=30)
def fetch(brief_id: str, query: str, plan_id: str) -> str:
    return done("tools/fetch", brief_id, item=query, based_on=[plan_id])


@activity(retry=patient, start_to_close=30)
def compute(brief_id: str, query: str, plan_id: str) -> str:
    return done("tools/compute", brief_id, item=query, based_on=[plan_id])


@activity(retry=patient, start_to_close=30)
def draft(brief_id: str, findings: list[str]) -> str:
    return done("model/draft", brief_id, based_on=findings)


@activity(retry=patient, start_to_close=30)
def review(brief_id: str, text_id: str) -> str:
    """The step that only the newer build has."""
    return done("model/review", brief_id, based_on=[text_id])


@activity(retry=patient, start_to_close=30)
def ask(brief_id: str, text_id: str) -> str:
    """Lay the text before a person; the answer comes as a signal."""
    return done("desk/ask", brief_id, based_on=[text_id])


@activity(retry=patient, start_to_close=30)
def charge(brief_id: str, cents: int, asked_id: str) -> str:
    return done("payments/charge", brief_id, cents=cents, based_on=[asked_id])


@activity(retry=patient, start_to_close=30)
def publish(brief_id: str, text_id: str, receipt: str) -> str:
    return done("site/publish", brief_id, based_on=[text_id, receipt])


@activity(retry=patient, start_to_close=30)
def notify(brief_id: str, why: str, asked_id: str) -> str:
    return done("mail/notify", brief_id, item=why, based_on=[asked_id])


TOOLS: Final = {"search": search, "fetch": fetch, "compute": compute}


async def researched(brief: Brief) -> str:
    """Plan, tools side by side, a text: the id of the text."""
    planned = await plan(brief)
    findings = await asyncio.gather(*(TOOLS[use.tool](brief.id, use.query, planned.id) for use in planned.uses))
    return await draft(brief.id, list(findings))


async def brought_out(brief: Brief, text_id: str) -> Piece:
    """Approval, payment, publication; or word that there is none."""
    asked_id = await ask(brief.id, text_id)
    try:
        async with asyncio.timeout(brief.patience_s):
            approved = await workflow.receive("approve", bool)
    except TimeoutError:
        return await _dropped(brief, "expired", asked_id)
    if not approved:
        return await _dropped(brief, "declined", asked_id)
    receipt = await charge(brief.id, brief.cents, asked_id)
    return Piece(brief.id, "published", await publish(brief.id, text_id, receipt), receipt)


async def _dropped(brief: Brief, why: Literal["declined", "expired"], asked_id: str) -> Piece:
    await notify(brief.id, why, asked_id)
    return Piece(brief.id, why)


def done(path: str, brief_id: str, **body: Any) -> str:
    """Have one effect done; gives its id."""
    return str(call(path, brief_id, **body)["id"])


def call(path: str, brief_id: str, **body: Any) -> dict[str, Any]:
    """Ask the world for one effect under this activity's key; gives its answer."""
    address = urlsplit(os.environ[WORLD])
    connection = HTTPConnection(address.hostname or "127.0.0.1", address.port, timeout=TIMEOUT_S)
    try:
        headers = {"Content-Type": "application/json", "Idempotency-Key": activity.info().idempotency_key}
        connection.request("POST", f"/{path}", json.dumps({"brief_id": brief_id, **body}), headers)
        response = connection.getresponse()
        answer: dict[str, Any] = json.load(response)
    finally:
        connection.close()
    if response.status == 200:
        return answer
    if response.status < 500:
        raise RefusedError(answer["reason"])
    raise ConnectionError(f"{path} answered {response.status}: {answer['reason']}")


def as_input(brief: Brief) -> dict[str, Any]:
    """A brief as the books have it."""
    return asdict(brief)
