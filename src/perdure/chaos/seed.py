"""One seed of the evidence run: a node, workers and a world of its own, its briefs, and everything that is done to them meanwhile.

Workers are killed every 300 to 700 ms from the first brief to the last result, one is held still past its claims. The node is killed once while the first briefs are under way
and once after a rolling deploy, when every question that is withheld has been asked. No process it started outlives it.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Final, cast

import perdure
from perdure.chaos.commissions import commissions
from perdure.chaos.course import Course, Hear
from perdure.chaos.desk import Desk
from perdure.chaos.fleet import Fleet
from perdure.chaos.house import Server, World
from perdure.chaos.place import Place
from perdure.chaos.scale import Scale
from perdure.demo.book import Book
from perdure.demo.child import ChildDiedError
from perdure.errors import Unavailable

CONNECT_S: Final = 30.0


class Seed:
    """One at `scale`; `seed` decides its workload, its faults and its kills. `hear` is told each line of its course."""

    def __init__(self, place: Place, seed: int, scale: Scale, hear: Hear) -> None:
        self._place = place
        self._seed = seed
        self._scale = scale
        self._crowded = scale.is_crowded(seed)
        self._commissions = commissions(seed, scale.runs_of(seed), crowded=self._crowded)
        self._early = [commission for commission in self._commissions if commission.when == "early"]
        self._chance = random.Random(f"kills of {seed}")
        self._course = Course(place.course, hear)
        self._course.tell("seed begun", seed=seed, runs=len(self._commissions), due=scale.due(seed))

    async def run(self) -> None:
        """Returns when all have ended or time is up, which the course then says; what went wrong is for the auditor to find."""
        try:
            async with asyncio.timeout(self._scale.seed_s), self._house() as (server, fleet, desk):
                await self._storm_over(server, fleet, desk)
        except* (TimeoutError, ChildDiedError, Unavailable) as errors:
            for error in leaves(errors):
                self._course.tell("gave up", why=str(error) or f"{self._scale.seed_s:g} s are over")
        finally:
            self._course.tell("seed ended")
            self._course.close()

    @asynccontextmanager
    async def _house(self) -> AsyncGenerator[tuple[Server, Fleet, Desk], None]:
        """Everything up; everything down again, in order, whatever happens."""
        place, course, scale = self._place, self._course, self._scale
        world, server, book = World(place, course, self._seed), Server(place, course), Book(place.requests)
        fleet: Fleet | None = None
        try:
            await world.start()
            await server.start()
            fleet = Fleet(place, course, server.address, world.address, build="v1", size=scale.workers)
            await fleet.start()
            async with await perdure.connect(server.address, timeout=CONNECT_S) as client:
                desk = Desk(client, book, course, world.address, self._commissions, crowded=self._crowded, pace_s=scale.pace_s)
                yield server, fleet, desk
        finally:
            if fleet is not None:
                await fleet.stop()
            await server.stop()
            await world.stop()
            book.close()

    async def _storm_over(self, server: Server, fleet: Fleet, desk: Desk) -> None:
        async with asyncio.TaskGroup() as group:
            storm = group.create_task(self._storm(fleet))
            freezing = group.create_task(self._freeze(fleet, desk))
            leading = group.create_task(self._lead(server, fleet, desk))
            await desk.serve()
            await leading
            await freezing
            storm.cancel()

    async def _storm(self, fleet: Fleet) -> None:
        """SIGKILL a worker, over and over."""
        while True:
            await asyncio.sleep(self._chance.uniform(*self._scale.kill_s))
            await fleet.kill(self._chance.choice(fleet.places))

    async def _freeze(self, fleet: Fleet, desk: Desk) -> None:
        """One worker of the older build is held still before the deploy, and goes on when the newer one has taken over."""
        await desk.until(lambda: len(desk.accepted) >= len(self._early) / 2)
        await fleet.freeze(self._chance.choice(fleet.places))

    async def _lead(self, server: Server, fleet: Fleet, desk: Desk) -> None:
        """The node's first death, the deploy, its second death."""
        early = self._early
        withheld = {commission.brief.id for commission in early if commission.withheld}
        await desk.until(lambda: len(desk.accepted) >= len(early) / 3)
        await self._kill(server)
        able = len(early) - len(withheld)
        await desk.until(lambda: len(desk.accepted) >= len(early))
        if self._crowded:
            await desk.until(lambda: len(desk.asked) >= len(early) / 2)
        else:
            await desk.until(lambda: len(desk.ended) >= able / 4)
        await self._deploy(fleet, desk)
        await desk.until(lambda: withheld <= desk.asked)
        await self._kill(server)

    async def _kill(self, server: Server) -> None:
        await server.kill()
        await server.start()

    async def _deploy(self, fleet: Fleet, desk: Desk) -> None:
        """One worker after the other gives way to the new build."""
        self._course.tell("deploy begun", in_flight=desk.in_flight, accepted=len(desk.accepted), ended=len(desk.ended))
        desk.doors.deploy_begun.set()
        for place in fleet.places:
            await fleet.replace(place, "v2")
        self._course.tell("deploy done", in_flight=desk.in_flight)
        desk.doors.deploy_done.set()


def leaves(errors: BaseExceptionGroup) -> Iterator[BaseException]:
    """What lies in a group and the groups in it."""
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from leaves(cast("BaseExceptionGroup", error))
        else:
            yield error
