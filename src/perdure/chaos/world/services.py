"""The world's counter: HTTP on loopback, one request after the other into the ledger.

`POST /{service}/{operation}` with `brief_id` in the body and an `Idempotency-Key` has one effect done; same key and body: same answer,
nothing done twice; same key, other body: 422. `GET /desk/asked?after=N` waits a while for questions behind the N-th that await a person.
The ledger is written on the event loop on purpose: none is answered before its line is on disk.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from perdure.chaos.world.fate import Fate
from perdure.chaos.world.ledger import OPERATIONS, Delivery, Ledger
from perdure.demo.faults import share

LISTEN_S: Final = 5.0
"""So long is a call for questions held open when there is none."""
USES: Final = ("search", "fetch", "compute")

Fates = Callable[[Delivery], Fate]


class Counter:
    """Where requests are served. `fates` says what meets a delivery, `seed` what the model says."""

    def __init__(self, ledger: Ledger, fates: Fates, seed: int) -> None:
        self._ledger = ledger
        self._fates = fates
        self._seed = seed
        self._asked = asyncio.Condition()

    async def serve(self, request: Request) -> Response:
        """One effect."""
        operation = request.path_params["operation"]
        if OPERATIONS.get(operation) != request.path_params["service"]:
            return _problem(404, f"{request.path_params['service']} does not do {operation}")
        key, body = request.headers.get("idempotency-key", ""), await request.json()
        if not key or not isinstance(body.get("brief_id"), str):
            return _problem(400, "an Idempotency-Key header and a brief_id are needed")
        delivery = self._ledger.arrived(operation, key, body)
        fate = self._fates(delivery)
        await asyncio.sleep(fate.delay_before)
        if fate.fails:
            self._ledger.noted(delivery, "failed")
            return _problem(503, "try again later")
        if known := self._ledger.known(key):
            gave, digest = known
            same = digest == delivery.digest
            self._ledger.noted(delivery, "absorbed" if same else "conflict")
            return JSONResponse(gave) if same else _problem(422, "this key was used with another body")
        gave = self._ledger.did(delivery, self._thought(delivery), answered=not fate.forgets)
        if operation == "ask":
            async with self._asked:
                self._asked.notify_all()
        await asyncio.sleep(fate.delay_after)
        if fate.forgets:
            request.state.connection.abort()
        return JSONResponse(gave)

    async def asked(self, request: Request) -> Response:
        """Questions that await a person, behind the `after`-th."""
        after = int(request.query_params.get("after", "0"))
        try:
            async with asyncio.timeout(LISTEN_S), self._asked:
                await self._asked.wait_for(lambda: len(self._ledger.asked) > after)
        except TimeoutError:
            pass  # nothing came; whoever listens calls again
        return JSONResponse({"asked": self._ledger.asked[after:]})

    def _thought(self, delivery: Delivery) -> dict[str, Any]:
        """What a model's answer holds beside its id: a plan names three to five uses of tools."""
        if delivery.operation != "plan":
            return {}

        def pick(what: str, number: int = 0) -> float:
            return share(self._seed, what, delivery.brief_id, number)

        uses = [
            {"tool": USES[int(3 * pick("tool", number))], "query": f"question {number} about {delivery.body.get('topic', '')}"}
            for number in range(1, 4 + int(3 * pick("uses")))
        ]
        return {"uses": uses}


def application(ledger: Ledger, fates: Fates, seed: int) -> Starlette:
    """All services as one ASGI application."""
    counter = Counter(ledger, fates, seed)
    return Starlette(
        routes=[
            Route("/desk/asked", counter.asked, methods=["GET"]),
            Route("/{service}/{operation}", counter.serve, methods=["POST"]),
        ]
    )


def _problem(status: int, reason: str) -> Response:
    return JSONResponse({"reason": reason}, status_code=status)
