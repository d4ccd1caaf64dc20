"""A broker that keeps only what its port promises: tasks come late, twice, in another order, or not at all.

One seed decides. While `is_kind` it behaves like the broker it is made of.
"""

import random

from msgspec import Struct

from perdure.broker.inprocess import InProcessBroker
from perdure.core.tasks import Task
from perdure.ports import Clock


class Unkindness(Struct, frozen=True, kw_only=True):
    """Chances (0 to 1) that a task is dropped, delivered twice, or late; late ones come within `late_us`."""

    drop: float = 0.0
    twice: float = 0.0
    late: float = 0.0
    late_us: int = 50_000


class UnkindBroker(InProcessBroker):
    """`ports.Broker` for simulations."""

    def __init__(self, chance: random.Random, clock: Clock, unkindness: Unkindness) -> None:
        super().__init__()
        self._chance = chance
        self._clock = clock
        self._unkindness = unkindness
        self.is_kind = False

    def publish(self, task: Task) -> bool:
        unkind, chance = self._unkindness, self._chance
        if self.is_kind:
            return super().publish(task)
        if unkind.drop and chance.random() < unkind.drop:
            return False
        if unkind.twice and chance.random() < unkind.twice:
            self._later(task)
        if unkind.late and chance.random() < unkind.late:
            self._later(task)
            return False
        return super().publish(task)

    def _later(self, task: Task) -> None:
        publish = super().publish

        def arrive() -> None:
            publish(task)

        self._clock.call_at(self._clock.now() + self._chance.randint(1, self._unkindness.late_us), arrive)
