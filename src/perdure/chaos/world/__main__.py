"""`python -m perdure.chaos.world --dir D`: the world as a process of its own. Prints its port and serves on loopback only."""

import argparse
import socket
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from perdure.chaos.world.fate import KIND, Fate, fate
from perdure.chaos.world.ledger import Delivery, Ledger
from perdure.chaos.world.services import application
from perdure.demo.lifeline import when_input_ends
from perdure.demo.services import LosableProtocol


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m perdure.chaos.world", description="the outside world of a trial")
    parser.add_argument("--dir", type=Path, required=True, help="where ledger.jsonl lies")
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--seed", type=int, default=1, help="decides what fails when")
    parser.add_argument("--kind", action="store_true", help="nothing ever fails")
    parser.add_argument("--until-eof", action="store_true", help="stop when standard input ends")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until told to stop (SIGTERM, SIGINT or, with `--until-eof`, the end of standard input)."""
    arguments = _arguments(argv)
    arguments.dir.mkdir(parents=True, exist_ok=True)
    ledger = Ledger(arguments.dir / "ledger.jsonl")
    seed: int = arguments.seed

    def fates(delivery: Delivery) -> Fate:
        if arguments.kind:
            return KIND
        return fate(seed, delivery.operation, delivery.brief_id, delivery.item, delivery.count)

    config = uvicorn.Config(
        application(ledger, fates, seed),
        http=LosableProtocol,
        lifespan="off",
        access_log=False,
        log_level="warning",
        timeout_graceful_shutdown=1,
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
