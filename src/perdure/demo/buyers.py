"""Who orders what, and who says yes: the demo's workload, decided by a seed.

Pure. The first order is always large and approved late, so that there is an order in flight whenever the engine is to be killed.
"""

from dataclasses import dataclass

from perdure.demo.faults import share
from perdure.demo.orders import LARGE_CENTS, Order


@dataclass(frozen=True)
class Purchase:
    """An order, and what becomes of the question whether it may go."""

    order: Order
    approves: bool = True
    """What is answered when the order is large."""
    answers_twice: bool = False
    """The answer is sent two times, as senders do that lost a reply."""
    answers_late: bool = False
    """The answer is withheld until the engine has been killed for the last time."""

    @property
    def is_parked(self) -> bool:
        """It cannot end before the last engine runs."""
        return self.order.is_large and self.answers_late


def purchases(seed: int, count: int) -> list[Purchase]:
    """The first `count` purchases under `seed`; more never change the ones before."""
    return [_purchase(seed, number) for number in range(1, count + 1)]


def _purchase(seed: int, number: int) -> Purchase:
    def chance(what: str) -> float:
        return share(seed, what, number)

    large = number == 1 or chance("large") < 0.15
    cents = int(500 + chance("cents") * (LARGE_CENTS - 500)) + (LARGE_CENTS if large else 0)
    return Purchase(
        Order(f"order-{number:05}", cents),
        approves=chance("no") >= 0.1,
        answers_twice=chance("twice") < 0.15,
        answers_late=number == 1 or chance("late") < 0.2,
    )
