"""The workers of a trial: `perdure worker` processes in numbered places, killed, started again and replaced build by build.

A worker is the command with the process it keeps; both are killed at once, as a machine that goes down would.
"""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

from perdure.chaos.course import Course
from perdure.chaos.place import Place
from perdure.demo.child import Child

STEPS: Final = "perdure.chaos.pipelines.steps"
BUILDS: Final = {"v1": "perdure.chaos.pipelines.v1", "v2": "perdure.chaos.pipelines.v2"}
"""Module of the workflow by build id."""
GRACE_S: Final = 2.0
"""So long may a worker's activities take to end in a rolling deploy."""
FROZEN_S: Final = 12.0
"""So long is a worker held still: past the life of its claims, which others have taken over by then."""
THAWED_S: Final = 2.0
"""So long may it then say what it still has to say."""


class WorkerPlace:
    """Where one worker runs, the next after it, and so on. `build` is what is deployed here."""

    def __init__(self, number: int, build: str) -> None:
        self.number = number
        self.build = build
        self.child: Child | None = None
        self.turn = asyncio.Lock()
        """Killing and replacing, one at a time."""


class Fleet:
    """`size` workers for the node at `address`, in the environment of a trial."""

    def __init__(self, place: Place, course: Course, address: str, world: str, *, build: str, size: int) -> None:
        self._place = place
        self._course = course
        self._arguments = ("--address", address, "--grace", str(GRACE_S))
        self._environment = {"PERDURE_CHAOS_WORLD": world}
        self.places = [WorkerPlace(number, build) for number in range(1, size + 1)]
        self._frozen: list[tuple[WorkerPlace, Child, Child]] = []
        """Workers held still, with what holds them."""

    async def start(self) -> None:
        for place in self.places:
            await self._begin(place)

    async def kill(self, place: WorkerPlace) -> None:
        """SIGKILL what runs there, and start it again."""
        async with place.turn:
            await self._kill(place)
            await self._begin(place)

    async def replace(self, place: WorkerPlace, build: str) -> None:
        """Ask what runs there to stop, as a deploy does, and start `build` in its place."""
        async with place.turn:
            await self._stop(place)
            place.build = build
            await self._begin(place)

    async def freeze(self, place: WorkerPlace) -> None:
        """Hold what runs there still, start another one in its place, and let it go on when its claims are long another's.

        It believes that it still is a worker of this fleet; some time later it is stopped like one that was replaced.
        """
        async with place.turn:
            child, place.child = place.child, None
            assert child is not None
            pids = [child.pid, *children_of(child.pid)]
            arguments = ("--seconds", str(FROZEN_S), *map(str, pids))
            freezer = await Child.start("perdure.chaos.freeze", *arguments, log=self._place.log("freeze"))
            held = (WorkerPlace(place.number, place.build), child, freezer)
            self._frozen.append(held)
            await freezer.line()
            self._course.tell("frozen", role="worker", pid=child.pid, build=place.build, place=place.number)
            await self._begin(place)
        await freezer.wait()
        self._course.tell("thawed", role="worker", pid=child.pid, build=held[0].build, place=place.number)
        await asyncio.sleep(THAWED_S)
        held[0].child = child
        await self._stop(held[0])
        self._frozen.remove(held)

    async def stop(self) -> None:
        """Let all of them stop in order, and kill what is held still. Idempotent."""
        await asyncio.gather(*(self._stop(place) for place in self.places))
        while self._frozen:
            place, child, freezer = self._frozen.pop()
            await freezer.kill()
            if child.exit_code is None:
                place.child = child
                await self._kill(place)

    async def kill_all(self) -> None:
        """SIGKILL every worker, and start none."""
        for place in self.places:
            async with place.turn:
                await self._kill(place)

    async def _begin(self, place: WorkerPlace) -> None:
        arguments = ("worker", STEPS, BUILDS[place.build], "--build-id", place.build, *self._arguments)
        log = self._place.log(f"worker-{place.number}")
        place.child = await Child.start("perdure.chaos.leash", *arguments, log=log, environment=self._environment)
        await self._course.started("worker", place.child.pid, build=place.build, place=place.number)

    async def _kill(self, place: WorkerPlace) -> None:
        child = place.child
        if child is None:
            return
        place.child = None
        what = "killed" if child.exit_code is None else "died"
        kept = children_of(child.pid) if what == "killed" else []
        await child.kill()
        for pid in kept:
            _kill(pid)
        code = child.exit_code
        await self._course.ended(what, "worker", child.pid, build=place.build, place=place.number, kept=kept, code=code)

    async def _stop(self, place: WorkerPlace) -> None:
        child = place.child
        if child is None:
            return
        place.child = None
        what = "stopped" if child.exit_code is None else "died"
        await child.stop()
        await self._course.ended(what, "worker", child.pid, build=place.build, place=place.number, code=child.exit_code)


def children_of(pid: int) -> list[int]:
    """Processes that a process has started and that are still there."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):  # gone by itself since it was listed
        os.kill(pid, signal.SIGKILL)
