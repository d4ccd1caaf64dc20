"""The API keeps to its own OpenAPI document, whatever is sent: no 5xx, no status, body or content type that is not in it.

Requests are made up by Schemathesis from the document, well-formed and not, and sent to a real node over a real socket.
"""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

import perdure
from perdure import workflow
from perdure.server.access import Gate
from perdure.server.app import build_app
from perdure.server.http_server import HttpServer
from perdure.server.openapi import document

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
    unsupported_method,
]
EXAMPLES = 20
"""Requests made up for each operation and each way of making them."""
RUNS = 8
"""Runs there are for each operation, named after it: some operations end theirs."""
HANDLERS = {"signals": ("add", {"input": 2}), "queries": ("value", {}), "updates": ("reach", {"input": [0]})}
"""Of these runs' code, with a body that fits."""
UNLUCKY = {f"POST /api/v1/activities/{verb}" for verb in ("complete", "fail", "heartbeat")}
"""Nobody makes up a task token."""


@workflow
class Counter:
    def __init__(self) -> None:
        self.n = 0

    @workflow.run
    async def run(self, until: int = 10**9) -> int:
        await workflow.wait_until(lambda: self.n >= until)
        return self.n

    @workflow.signal
    def add(self, by: int = 1) -> None:
        self.n += by

    @workflow.query
    def value(self) -> int:
        return self.n

    @workflow.update
    async def reach(self, n: int) -> int:
        await workflow.wait_until(lambda: self.n >= n)
        return self.n


NOTHING: Any = object()
TABLE = build_app(NOTHING, Gate.open(), overview=NOTHING, news=NOTHING).routes
SCHEMA: Any = schemathesis.openapi.from_dict(document([route for route in TABLE if route.stream is None], "0"))
"""Of every route but streams, which do not end."""
OPERATIONS = {result.ok().label: result.ok() for result in SCHEMA.get_all_operations()}


def may_be_wrong(operation: Any) -> bool:
    """True for a request that has anything to get wrong."""
    raw = operation.definition.raw
    return bool(raw["parameters"]) or "requestBody" in raw


class Served(threading.Thread):
    """A node and its port, on a loop of its own: Schemathesis blocks the thread it runs on."""

    def __init__(self, data: Path) -> None:
        super().__init__(name="served node")
        self._data = data
        self._over: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self._up = threading.Event()
        self.url = ""

    def run(self) -> None:
        try:
            asyncio.run(self._serve())
        finally:
            self._up.set()

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with perdure.embedded(self._data) as node:
            node.register(Counter)
            for label in OPERATIONS:
                for n in range(RUNS):
                    await node.client.start(Counter.run(), id=f"{label}/{n}")
            await node.client.execute(Counter.run(0), id="closed")
            server = HttpServer(
                build_app(node.frontend, Gate.open(), overview=node.frontend.overview, news=node.frontend.news), port=0
            )
            await server.start()
            self.url = server.url
            self._up.set()
            await self._over.wait()
            await server.stop()

    def __enter__(self) -> Self:
        self.start()
        self._up.wait()
        assert self.url
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self.join()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Served(tmp_path_factory.mktemp("node")) as served:
        yield served.url


def speak_to(case: Any, workflow_id: str) -> None:
    """Make it a request about that run, current, in the namespace it is in, and mostly about a handler its code has."""
    case.path_parameters["workflow_id"] = quote(workflow_id, safe="")
    case.query = {name: value for name, value in (case.query or {}).items() if name not in {"namespace", "run_id"}}
    kind = case.path.split("/")[-2]
    if kind in HANDLERS:
        case.path_parameters["name"], case.body = HANDLERS[kind]


def waiting_little(case: Any) -> Any:
    """The same request, but nobody waits long."""
    if "wait" in (case.query or {}) and isinstance(case.query["wait"], (int, float)):
        case.query["wait"] = min(case.query["wait"], 0.01)
    elif case.path.endswith("/updates/{name}"):
        case.query = {**(case.query or {}), "wait": 0.01}
    if isinstance(case.body, dict) and "timeout" in case.body and "/queries/" in case.path:
        case.body["timeout"] = 0.5
    return case


bounded = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("label", OPERATIONS)
def test_well_formed_requests_are_answered_as_the_document_says(url: str, label: str) -> None:
    """Of runs that exist and of any others."""
    operation = OPERATIONS[label]

    @bounded
    @given(case=operation.as_strategy(), known=st.sampled_from([*(f"{label}/{n}" for n in range(RUNS)), "closed", None]))
    def answered(case: Any, known: str | None) -> None:
        if known is not None and "workflow_id" in (case.path_parameters or {}):
            speak_to(case, known)
        answer = waiting_little(case).call(base_url=url)
        statuses.add(answer.status_code)
        case.validate_response(answer, checks=CHECKS)

    statuses: set[int] = set()
    answered()
    assert label in UNLUCKY or min(statuses) < 300, f"nothing was ever taken: {statuses}"


@pytest.mark.parametrize("label", sorted(label for label, operation in OPERATIONS.items() if may_be_wrong(operation)))
def test_other_requests_are_refused_as_the_document_says(url: str, label: str) -> None:
    """Wrong types, missing and unknown fields, values out of bounds: a 4xx of the document, never a 2xx."""
    operation = OPERATIONS[label]

    @bounded
    @given(case=operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE))
    def refused(case: Any) -> None:
        case = waiting_little(case)
        answer = case.call(base_url=url)
        refusal = [negative_data_rejection] if answer.status_code != 414 else []  # it does not count that as a refusal
        case.validate_response(answer, checks=[*CHECKS, *refusal])

    refused()
