"""What an audit found: how much there was of everything, and each thing that is wrong, in plain words."""

import json
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class Violation:
    """One thing that must not be. `order_id` is empty when it concerns no single order."""

    order_id: str
    text: str

    def __str__(self) -> str:
        return f"{self.order_id}: {self.text}" if self.order_id else self.text


@dataclass
class Counts:
    """How much there was. `cents` are sums over the services' ledger."""

    orders: int = 0
    completed: int = 0
    charged: int = 0
    shipped: int = 0
    drivers_assigned: int = 0
    refunded: int = 0
    approvals: int = 0
    charged_cents: int = 0
    refunded_cents: int = 0
    events: int = 0
    requests: int = 0
    requests_failed: int = 0
    replies_lost: int = 0
    duplicates_absorbed: int = 0
    answers_unheard: int = 0
    """Of the duplicates, those whose answer had been given: whoever asked died before it could write the answer down."""
    shipments_refused: int = 0


LABELS = {
    "orders": "orders accepted",
    "completed": "finished",
    "charged": "charged",
    "shipped": "shipped",
    "drivers_assigned": "drivers assigned",
    "refunded": "refunded",
    "approvals": "approvals and refusals delivered",
    "charged_cents": "cents taken",
    "refunded_cents": "cents given back",
    "events": "events in their histories",
    "requests": "requests the services saw",
    "requests_failed": "… answered 503",
    "replies_lost": "… done, but the reply was lost",
    "duplicates_absorbed": "… seen before, absorbed by their key",
    "answers_unheard": "   … though it had been answered: the asker had died",
    "shipments_refused": "… refused for good",
}


@dataclass
class Verdict:
    """The outcome. `ok` is true when nothing is lost, doubled, out of order or unexplained."""

    counts: Counts
    violations: list[Violation] = field(default_factory=list[Violation])

    @property
    def ok(self) -> bool:
        return not self.violations

    def rows(self) -> list[tuple[str, int]]:
        """The counts in words, for a table."""
        return [(label, getattr(self.counts, name)) for name, label in LABELS.items()]

    def headline(self) -> str:
        if self.ok:
            return "Both books agree: every order finished, in order, every effect exactly once."
        count = len(self.violations)
        return f"The books do not agree: {count} violation{'' if count == 1 else 's'}."

    def text(self, violations_max: int = 20) -> str:
        """For people: the counts, then what is wrong (the first few), then the headline."""
        lines = [f"{number:>10,}  {label}" for label, number in self.rows()]
        lines += [f"  ✗ {violation}" for violation in self.violations[:violations_max]]
        if (more := len(self.violations) - violations_max) > 0:
            lines.append(f"  … and {more} more")
        return "\n".join([*lines, self.headline()])

    def as_data(self) -> dict[str, object]:
        """For programs; plain JSON values."""
        return {"ok": self.ok, "counts": asdict(self.counts), "violations": [asdict(v) for v in self.violations]}

    def json(self) -> str:
        return json.dumps(self.as_data(), indent=2)
