"""The services' own book: what they were asked for, what they did, and the answer they owe to a key they have seen.

Every effect and every request is one line, on disk before anything is answered; a service that restarts reads its book and goes on
honouring the keys in it. The engine never sees this file.
"""

import json
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from time import time
from typing import Any, Final, Literal

from perdure.demo.book import Book

Outcome = Literal["done", "absorbed", "refused", "failed", "forgotten", "conflict"]
"""What became of a request: the work was done and answered · the key was known, same answer again · never to be done · not done this
time (503) · done, but the answer was lost · the key was known with another body."""

SERVICE_OF: Final = {"charge": "payments", "refund": "payments", "ship": "shipping", "assign_driver": "drivers"}
"""The operations there are, and who does them."""


@dataclass(frozen=True)
class Ask:
    """One delivery of a request. `delivery` counts from 1 how often this operation was asked for this order."""

    operation: str
    order_id: str
    key: str
    body: dict[str, Any]
    delivery: int

    @property
    def digest(self) -> str:
        """The same for two bodies that say the same."""
        return blake2b(json.dumps(self.body, sort_keys=True).encode(), digest_size=16).hexdigest()


class Ledger:
    """The book at `path`, and the memory made of it."""

    def __init__(self, path: Path) -> None:
        self._book = Book(path)
        self._effects: dict[str, dict[str, Any]] = {}
        self._deliveries: dict[tuple[str, str], int] = {}
        for line in self._book.lines:
            self._learn(line)

    def arrived(self, operation: str, order_id: str, key: str, body: dict[str, Any]) -> Ask:
        """Take note that a request came in."""
        times = self._deliveries.get((operation, order_id), 0) + 1
        self._deliveries[operation, order_id] = times
        return Ask(operation, order_id, key, body, times)

    def known(self, key: str) -> tuple[str, str] | None:
        """Id and body digest of the effect done under `key`, if there is one."""
        effect = self._effects.get(key)
        return (str(effect["id"]), str(effect["body"])) if effect else None

    def did(self, ask: Ask, *, answered: bool) -> str:
        """Write down an effect and its request; gives the effect's id. `answered` false: the answer is going to be lost."""
        effect = self._line("effect", ask) | {
            "id": f"{ask.operation}-{len(self._effects) + 1:06}",
            "cents": ask.body.get("cents", 0),
            "body": ask.digest,
        }
        self._learn(effect)
        self._book.append(effect, self._request(ask, "done" if answered else "forgotten"))
        return str(effect["id"])

    def noted(self, ask: Ask, outcome: Outcome) -> None:
        """Write down a request that had no effect."""
        self._book.append(self._request(ask, outcome))

    def close(self) -> None:
        self._book.close()

    def _request(self, ask: Ask, outcome: Outcome) -> dict[str, Any]:
        return self._line("request", ask) | {"delivery": ask.delivery, "outcome": outcome}

    def _line(self, kind: str, ask: Ask) -> dict[str, Any]:
        return {
            "line": kind,
            "time": int(time() * 1_000_000),
            "service": SERVICE_OF[ask.operation],
            "operation": ask.operation,
            "order_id": ask.order_id,
            "key": ask.key,
        }

    def _learn(self, line: dict[str, Any]) -> None:
        if line["line"] == "effect":
            self._effects[line["key"]] = line
        else:
            self._deliveries[line["operation"], line["order_id"]] = max(
                line["delivery"], self._deliveries.get((line["operation"], line["order_id"]), 0)
            )
