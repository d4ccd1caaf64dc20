"""One performance of the demo: services up, engine up, killed, up again, until every order has ended and everything is down.

No process it started outlives it, whatever ends it.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from perdure.demo.buyers import purchases
from perdure.demo.child import Child
from perdure.demo.faults import share
from perdure.demo.place import Place
from perdure.demo.show import Teller
from perdure.testing.audit.books import read_journal

KILLS_MIN: Final = 3
KILLS_MAX: Final = 8
ORDERS_PER_KILL: Final = 25
PAUSE_MAX_S: Final = 0.3


@dataclass(frozen=True)
class Moment:
    """When to kill: `ended` orders have ended, at least one is in flight, and `pause_s` more seconds have gone by."""

    ended: int
    pause_s: float


def moments(seed: int, orders: int) -> list[Moment]:
    """When the engine is killed, spread over the demo and decided by its seed."""
    kills = max(KILLS_MIN, min(KILLS_MAX, orders // ORDERS_PER_KILL))
    able_to_end = sum(not purchase.is_parked for purchase in purchases(seed, orders))
    return [
        Moment(
            ended=min(able_to_end, int(orders * (number + share(seed, "kill", number)) / (kills + 1))),
            pause_s=PAUSE_MAX_S * share(seed, "pause", number),
        )
        for number in range(kills)
    ]


class Performance:
    """`run` does it once; `kills` then says how many orders were in flight at each kill."""

    def __init__(self, place: Place, *, orders: int, seed: int, telling: Teller) -> None:
        self._place = place
        self._orders = orders
        self._seed = seed
        self._telling = telling
        self.kills: list[int] = []

    async def run(self, planned: list[Moment]) -> None:
        """Raises `ChildDiedError` when a process ends that should not."""
        async with self._services() as address:
            for moment in planned:
                await self._until_killed(moment, address)
            await self._until_done(address)

    @asynccontextmanager
    async def _services(self) -> AsyncGenerator[str, None]:
        arguments = ("--dir", str(self._place.services), "--seed", str(self._seed), "--until-eof")
        services = await Child.start("perdure.demo.services", *arguments, log=self._place.log("services"))
        try:
            if not (port := await services.line()):
                raise await services.died()
            yield f"http://127.0.0.1:{port}"
        finally:
            await services.stop()

    @asynccontextmanager
    async def _engine(self, address: str, *, withhold: bool) -> AsyncGenerator[Child, None]:
        arguments = [
            *("--data", str(self._place.engine), "--book", str(self._place.orders), "--services", address),
            *("--orders", str(self._orders), "--seed", str(self._seed)),
            *(("--withhold",) if withhold else ()),
        ]
        engine = await Child.start("perdure.demo.engine", *arguments, log=self._place.log("engine"))
        try:
            yield engine
        finally:
            await engine.stop()

    async def _until_killed(self, moment: Moment, address: str) -> None:
        async with self._engine(address, withhold=True) as engine:
            ended, accepted = 0, 0
            while ended < moment.ended or accepted <= ended:
                accepted, ended = await self._heard(engine)
                if ended >= self._orders:  # all of it was done before, in an earlier demo at this place
                    return
            await asyncio.sleep(moment.pause_s)
            await engine.kill()
        in_flight = orders_in_flight(self._place.journal)
        if in_flight:
            self.kills.append(in_flight)
        self._telling.note(f"killed the engine with {in_flight} orders in flight")

    async def _until_done(self, address: str) -> None:
        async with self._engine(address, withhold=False) as engine:
            ended = 0
            while ended < self._orders:
                _, ended = await self._heard(engine)
            if await engine.wait():
                raise await engine.died()

    async def _heard(self, engine: Child) -> tuple[int, int]:
        """How many orders are accepted and ended, once that has changed."""
        line = await engine.line()
        if not line:
            raise await engine.died()
        said = json.loads(line)
        self._telling.progress(said["accepted"], said["ended"])
        return said["accepted"], said["ended"]


def orders_in_flight(journal: Path) -> int:
    """Runs without an end, by what is on disk."""
    return sum(run.is_open for runs in read_journal(journal).values() for run in runs)
