"""Mock payments, shipping and drivers: a separate process with its own ledger, reached over HTTP like anyone else's.

Run as `python -m perdure.demo.services --dir D`; prints its port and serves on loopback only. It honours `Idempotency-Key` (same key and
body: same answer, nothing done twice; same key, other body: 422) and fails, forgets and dawdles as its fault plan says. The ledger is
written on the event loop on purpose: one request at a time reaches it, and none is answered before its line is on disk.
"""

import argparse
import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from perdure.demo.faults import MODES, FaultPlan
from perdure.demo.ledger import SERVICE_OF, Ledger
from perdure.demo.lifeline import when_input_ends


class LosableProtocol(H11Protocol):
    """Lets a handler cut its own connection, so that a reply can really be lost."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, "connection": transport}


class Counter:
    """Where requests are served. One for all three services; they share nothing but the book's file."""

    def __init__(self, ledger: Ledger, plan: FaultPlan) -> None:
        self._ledger = ledger
        self._plan = plan

    async def serve(self, request: Request) -> Response:
        """`POST /{service}/{operation}` with `order_id` (and `cents`) in the body."""
        operation = request.path_params["operation"]
        if SERVICE_OF.get(operation) != request.path_params["service"]:
            return _problem(404, f"{request.path_params['service']} does not do {operation}")
        key, body = request.headers.get("idempotency-key", ""), await request.json()
        if not key or not isinstance(body.get("order_id"), str):
            return _problem(400, "an Idempotency-Key header and an order_id are needed")
        ask = self._ledger.arrived(operation, body["order_id"], key, body)
        fate = self._plan.fate(operation, ask.order_id, ask.delivery)
        await asyncio.sleep(fate.delay_before)
        if fate.fails:
            self._ledger.noted(ask, "failed")
            return _problem(503, "try again later")
        if known := self._ledger.known(key):
            effect_id, digest = known
            same = digest == ask.digest
            self._ledger.noted(ask, "absorbed" if same else "conflict")
            return JSONResponse({"id": effect_id}) if same else _problem(422, "this key was used with another body")
        if operation == "ship" and self._plan.refuses_to_ship(ask.order_id):
            self._ledger.noted(ask, "refused")
            return _problem(409, "there is no such address")
        effect_id = self._ledger.did(ask, answered=not fate.forgets)
        await asyncio.sleep(fate.delay_after)
        if fate.forgets:
            request.state.connection.abort()
        return JSONResponse({"id": effect_id})


def application(ledger: Ledger, plan: FaultPlan) -> Starlette:
    """The three services as one ASGI application."""
    return Starlette(routes=[Route("/{service}/{operation}", Counter(ledger, plan).serve, methods=["POST"])])


def _problem(status: int, reason: str) -> Response:
    return JSONResponse({"reason": reason}, status_code=status)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m perdure.demo.services", description="mock payments, shipping and drivers")
    parser.add_argument("--dir", type=Path, required=True, help="where ledger.jsonl lies")
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--seed", type=int, default=1, help="decides what fails when")
    parser.add_argument("--modes", default=",".join(MODES), help="comma separated; empty: nothing ever fails")
    parser.add_argument("--until-eof", action="store_true", help="stop when standard input ends")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until told to stop (SIGTERM, SIGINT or, with `--until-eof`, the end of standard input)."""
    arguments = _arguments(argv)
    arguments.dir.mkdir(parents=True, exist_ok=True)
    ledger = Ledger(arguments.dir / "ledger.jsonl")
    plan = FaultPlan.of(arguments.seed, filter(None, arguments.modes.split(",")))
    config = uvicorn.Config(
        application(ledger, plan), http=LosableProtocol, lifespan="off", access_log=False, log_level="warning"
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", arguments.port)) as listening:
        print(listening.getsockname()[1], flush=True)
        if arguments.until_eof:
            when_input_ends(lambda: setattr(server, "should_exit", True))
        try:
            server.run(sockets=[listening])
        finally:
            ledger.close()


if __name__ == "__main__":
    main()
