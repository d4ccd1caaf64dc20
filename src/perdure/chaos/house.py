"""The two processes that a trial keeps one of: the outside world, and the node that gets killed and started again on its data.

The node keeps its port over its lives, so that whoever was connected to it finds it again.
"""

import asyncio
import json
from typing import Any, Final

from perdure.chaos.course import Course
from perdure.chaos.place import Place
from perdure.demo.child import Child

START_S: Final = 30.0
"""So long may a process take to come up."""


class World:
    """The outside world; nobody kills it."""

    def __init__(self, place: Place, course: Course, seed: int, *, kind: bool = False) -> None:
        self._place = place
        self._course = course
        self._options = ("--seed", str(seed), *(("--kind",) if kind else ()))
        self._child: Child | None = None
        self.address = ""

    async def start(self) -> None:
        arguments = ("--dir", str(self._place.world), "--until-eof", *self._options)
        self._child = await Child.start("perdure.chaos.world", *arguments, log=self._place.log("world"))
        self._course.tell("started", role="world", pid=self._child.pid)
        async with asyncio.timeout(START_S):
            port = await self._child.line()
        if not port:
            raise await self._child.died()
        self.address = f"http://127.0.0.1:{port}"

    async def stop(self) -> None:
        if self._child is not None:
            await self._child.stop()
            self._course.tell("stopped", role="world", pid=self._child.pid, code=self._child.exit_code)
            self._child = None


class Server:
    """`perdure server` on the place's data directory. `address` is known after the first start, and stays."""

    def __init__(self, place: Place, course: Course) -> None:
        self._place = place
        self._course = course
        self._child: Child | None = None
        self._port = 0
        self.address = ""

    async def start(self) -> None:
        """Returns when it serves."""
        arguments = ("server", "--data", str(self._place.data), "--port", str(self._port), "-o", "json")
        self._child = child = await Child.start("perdure.chaos.leash", *arguments, log=self._place.log("server"))
        await self._course.started("server", child.pid)
        async with asyncio.timeout(START_S):
            said = await child.line()
        if not said:
            raise await child.died()
        facts: dict[str, Any] = json.loads(said)
        self.address = str(facts["url"]).rstrip("/")
        self._port = int(self.address.rpartition(":")[2])

    async def kill(self) -> None:
        """SIGKILL."""
        child = self._child
        assert child is not None
        what = "killed" if child.exit_code is None else "died"
        await child.kill()
        await self._course.ended(what, "server", child.pid, code=child.exit_code)
        self._child = None

    async def stop(self) -> None:
        """Let it stop in order. Idempotent."""
        child, self._child = self._child, None
        if child is not None:
            what = "stopped" if child.exit_code is None else "died"
            await child.stop()
            await self._course.ended(what, "server", child.pid, code=child.exit_code)
