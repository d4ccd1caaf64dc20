"""One kind of load: a program of requests, with its check at the end.

A workload is written against `Stage` alone. It says what must be true of its runs once they have ended, whatever was done to the engine
meanwhile; it never looks at how the engine does it.
"""

from collections.abc import Sequence
from typing import ClassVar

from perdure.testing.workloads.services import Services
from perdure.testing.workloads.stage import Stage


class Workload:
    """One kind of load: a name, and for each build what a worker must know (the last one serves later builds too)."""

    name: ClassVar[str]
    builds: ClassVar[tuple[tuple[object, ...], ...]]

    def things(self, build: int) -> tuple[object, ...]:
        """What a worker of that build registers."""
        return self.builds[min(build, len(self.builds)) - 1]

    async def play(self, stage: Stage, number: int) -> None:
        """Run instance `number` from its start to its end and check it. Raises `BrokenPromiseError`."""
        raise NotImplementedError


def all_things(workloads: Sequence[Workload], services: Services, build: int) -> tuple[object, ...]:
    """Everything a worker of `build` registers to run these workloads."""
    return (services, *(thing for workload in workloads for thing in workload.things(build)))
