"""The world's own book: what it was asked for, what it did, and the answer it owes to a key it has seen.

Every effect and every delivery is one line, on disk before anything is answered; a world that starts again on its ledger goes on
honouring the keys in it. Its form is its own, not that of the engine's journal.
"""

import json
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from time import time_ns
from typing import Any, Final, Literal

from perdure.demo.book import Book

Became = Literal["done", "lost", "failed", "absorbed", "conflict"]
"""What became of a delivery: done and answered · done, and the answer was lost · not done this time (503) · the key was known, same answer
again · the key was known with another body."""

OPERATIONS: Final = {
    "plan": "model",
    "draft": "model",
    "review": "model",
    "search": "tools",
    "fetch": "tools",
    "compute": "tools",
    "ask": "desk",
    "charge": "payments",
    "publish": "site",
    "notify": "mail",
}
"""What can be done, and which service does it."""


@dataclass(frozen=True)
class Delivery:
    """One arrival of a request. `count` says how often the same thing was asked for, this time included."""

    operation: str
    key: str
    body: dict[str, Any]
    count: int

    @property
    def brief_id(self) -> str:
        return str(self.body["brief_id"])

    @property
    def item(self) -> str:
        return str(self.body.get("item", ""))

    @property
    def digest(self) -> str:
        """The same for two bodies that say the same."""
        return blake2b(json.dumps(self.body, sort_keys=True).encode(), digest_size=16).hexdigest()


class Ledger:
    """The book at `path`, and the memory made of it. `asked` lists the effects that wait for a person, in order."""

    def __init__(self, path: Path) -> None:
        self._book = Book(path)
        self._effects: dict[str, dict[str, Any]] = {}
        self._counts: dict[tuple[str, str, str], int] = {}
        self.asked: list[dict[str, Any]] = []
        for line in self._book.lines:
            self._learn(line)

    def arrived(self, operation: str, key: str, body: dict[str, Any]) -> Delivery:
        """Take note that a request came in."""
        what = (operation, str(body["brief_id"]), str(body.get("item", "")))
        self._counts[what] = self._counts.get(what, 0) + 1
        return Delivery(operation, key, body, self._counts[what])

    def known(self, key: str) -> tuple[dict[str, Any], str] | None:
        """The answer and the digest of the body of the effect done under `key`, if there is one."""
        effect = self._effects.get(key)
        return (effect["gave"], str(effect["digest"])) if effect else None

    def did(self, delivery: Delivery, extra: dict[str, Any], *, answered: bool) -> dict[str, Any]:
        """Write down an effect and its delivery; gives the answer, an `id` and `extra`. `answered` false: it is going to be lost."""
        gave = {"id": f"{delivery.operation}-{len(self._effects) + 1:06}", **extra}
        effect = self._line("effect", delivery) | {"said": delivery.body, "digest": delivery.digest, "gave": gave}
        self._learn(effect)
        self._book.append(effect, self._delivered(delivery, "done" if answered else "lost"))
        return gave

    def noted(self, delivery: Delivery, became: Became) -> None:
        """Write down a delivery that had no effect."""
        self._book.append(self._delivered(delivery, became))

    def close(self) -> None:
        self._book.close()

    def _delivered(self, delivery: Delivery, became: Became) -> dict[str, Any]:
        return self._line("delivery", delivery) | {"item": delivery.item, "count": delivery.count, "became": became}

    def _line(self, entry: str, delivery: Delivery) -> dict[str, Any]:
        return {
            "entry": entry,
            "time": time_ns() // 1_000,
            "operation": delivery.operation,
            "brief_id": delivery.brief_id,
            "key": delivery.key,
        }

    def _learn(self, line: dict[str, Any]) -> None:
        if line["entry"] == "effect":
            self._effects[line["key"]] = line
            if line["operation"] == "ask":
                self.asked.append({"brief_id": line["brief_id"], "id": line["gave"]["id"]})
        else:
            what = (line["operation"], line["brief_id"], line["item"])
            self._counts[what] = max(line["count"], self._counts.get(what, 0))
