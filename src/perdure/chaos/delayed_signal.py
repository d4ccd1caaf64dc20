"""The delayed signal: a run waits for an approval, everything is killed and upgraded, and then the approval comes.

The run is begun by a worker of the older build on one node, and goes on, at the event that is the approval, with a worker of the newer
build on another. Small enough to be watched; what it leaves is audited and replayed as every trial is.
"""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import perdure
from perdure import Client, Handle
from perdure.chaos.course import Course, Hear
from perdure.chaos.desk import PAUSE_S, persistently
from perdure.chaos.evidence import replayed
from perdure.chaos.findings import Findings
from perdure.chaos.fleet import Fleet
from perdure.chaos.house import Server, World
from perdure.chaos.pipelines.steps import Brief, Piece, as_input
from perdure.chaos.pipelines.v2 import research
from perdure.chaos.place import Place
from perdure.demo.book import Book

BRIEF: Final = Brief("brief-0-001", topic="what happens while nobody looks", cents=900, patience_s=14 * 86_400.0)
SIGNAL_ID: Final = "answer-brief-0-001"
SECONDS_MAX: Final = 120.0
LEAST: Final = {"worker_kills": 1, "server_kills": 1, "old_path": 1}


class DelayedSignal:
    """`run` does it once; `resumed_at` then is the number of the event at which the run went on, `events` how many there are in all."""

    def __init__(self, out: Path, hear: Hear) -> None:
        self._out = out
        self._place = Place(out / "delayed-signal")
        self._place.path.mkdir()
        self._course = Course(self._place.course, hear)
        self.resumed_at = 0
        self.events = 0

    async def run(self) -> Findings:
        (self._out / "trial.json").write_text(json.dumps({"trial": "delayed-signal", "due": {}}))
        due = {"builds": ["v1", "v2"], "least": LEAST}
        self._course.tell("seed begun", seed=0, runs=1, due=due)
        try:
            async with asyncio.timeout(SECONDS_MAX):
                await self._performed()
        finally:
            self._course.tell("seed ended")
            self._course.close()
        await replayed(self._place)
        return Findings.at(self._out)

    async def _performed(self) -> None:
        place, course = self._place, self._course
        world, server, book = World(place, course, 0, kind=True), Server(place, course), Book(place.requests)
        fleets: list[Fleet] = []
        try:
            await world.start()
            await server.start()
            fleets.append(Fleet(place, course, server.address, world.address, build="v1", size=1))
            await fleets[0].start()
            await self._parked(server.address, book)
            await fleets[0].kill_all()
            await server.kill()
            await server.start()
            course.tell("deploy begun", in_flight=1)
            fleets.append(Fleet(place, course, server.address, world.address, build="v2", size=1))
            await fleets[1].start()
            course.tell("deploy done", in_flight=1)
            await self._answered(server.address, book)
        finally:
            for fleet in fleets:
                await fleet.stop()
            await server.stop()
            await world.stop()
            book.close()

    async def _parked(self, address: str, book: Book) -> None:
        """Start the run, and return when it waits for nothing but its approval."""
        async with await perdure.connect(address, timeout=SECONDS_MAX) as client:
            handle = await client.start(research(BRIEF), id=BRIEF.id)
            book.append({"line": "start", "brief": as_input(BRIEF)})
            self._course.tell("accepted", brief_id=BRIEF.id)
            while not _waits(await handle.history()):  # noqa: ASYNC110  a node tells nobody that a run waits
                await asyncio.sleep(PAUSE_S)
            self._course.tell("asked", brief_id=BRIEF.id)

    async def _answered(self, address: str, book: Book) -> None:
        """Approve, and see what becomes of it."""
        async with await perdure.connect(address, timeout=SECONDS_MAX) as client:
            handle: Handle[Piece] = client.handle(BRIEF.id, workflow=research)
            self._course.tell("answer sent", brief_id=BRIEF.id, withheld=True, twice=False)
            await persistently(lambda: handle.signal("approve", value=True, signal_id=SIGNAL_ID))
            book.append({"line": "signal", "brief_id": BRIEF.id, "signal_id": SIGNAL_ID, "value": True})
            piece = await handle.result()
            book.append({"line": "result", "brief_id": BRIEF.id, "status": "completed", "value": vars(piece)})
            self._course.tell("ended", brief_id=BRIEF.id, status="completed")
            await self._look(client)

    async def _look(self, client: Client) -> None:
        history = await client.handle(BRIEF.id).history()
        self.events = len(history)
        self.resumed_at = next(event.id for event in history if event.type == "signal_received")

    def headline(self) -> str:
        return f"resumed at event {self.resumed_at} of {self.events}"


def _waits(history: Sequence[Any]) -> bool:
    """The bound on the wait is the last thing the code asks for before it waits."""
    return bool(history) and history[-1].type == "timer_started"
