"""Keeps worker processes alive: starts them, replaces those that end, drains them all when it is told to stop or to load the code anew.

One that ends by itself is replaced after a pause that grows while that keeps happening; when it happens `EARLY_DEATHS_MAX` times in a row
within `EARLY_S` of a start, or when no process could be a worker at all (an import that fails, a key that is refused), that is the end.
"""

import asyncio
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from perdure.cli.exits import FAILED, INTERRUPTED, OK, say, shown
from perdure.cli.sources import Sources
from perdure.cli.workers import messages as ms
from perdure.cli.workers.process import COMMAND, WorkerProcess

EARLY_S: Final = 10.0
"""A process that ends sooner after its start was no use."""
EARLY_DEATHS_MAX: Final = 5
PAUSE_S: Final = 0.25
PAUSE_S_MAX: Final = 15.0
RELOAD_GRACE_S: Final = 2.0
"""With `reload` activities get this long at most: what is cut short is tried again a moment later."""

Announce = Callable[[ms.Loaded, str, Sequence[int]], None]


class Supervisor:
    """`count` processes of one plan. `announce` is called once, when all of them serve: what they hold, where, and their pids."""

    def __init__(self, plan: ms.Plan, count: int, announce: Announce, command: Sequence[str] = COMMAND) -> None:
        self._plan = plan
        self._count = count
        self._announce = announce
        self._command = command
        self._processes: dict[int, WorkerProcess] = {}
        self._serving: set[int] = set()
        self._away: set[int] = set()
        self._loaded: ms.Loaded | None = None
        self._announced = False
        self._told = ""
        """The last complaint, so that the same one by several processes is told once."""
        self._end = asyncio.Event()
        self._code = OK
        self._fault: ms.Failed | None = None
        self._sources = Sources()
        self._changed = asyncio.Event()
        """Set, and made anew, with each change of a source file."""

    async def run(self) -> tuple[int, ms.Failed | None]:
        """Until `stop`, or until it makes no sense to go on. The exit code, and the fault that ended it, if one did."""
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._watch()) if self._plan.reload else None
            keeping = [group.create_task(self._keep(number)) for number in range(1, self._count + 1)]
            await asyncio.wait(keeping)
            if watching is not None:
                watching.cancel()
        return self._code, self._fault

    def stop(self) -> None:
        """Drain every process. Called again it ends the grace period, and once more it kills."""
        if not self._end.is_set():
            if self._processes:
                say(f"perdure: stopping; activities have {self._plan.grace:g} s to end (the same signal again: at once)")
            self._finish(OK)
        elif self._code != INTERRUPTED:
            say("perdure: cutting short what still runs (the same signal again: without a word)")
            self._code = INTERRUPTED
            for process in self._processes.values():
                process.hurry()
        else:
            for process in self._processes.values():
                process.kill()

    def _finish(self, code: int) -> None:
        self._code = code
        self._end.set()
        for process in self._processes.values():
            process.drain(self._plan.grace)

    # ------------------------------------------------------------------------------------------------------------ one process

    async def _keep(self, number: int) -> None:
        """Have a process number `number` as long as this goes on."""
        loop = asyncio.get_running_loop()
        early = 0
        while not self._end.is_set():
            changed, begun = self._changed, loop.time()
            process, code = await self._lived(number, changed)
            if self._end.is_set():
                return
            if changed.is_set():
                early = 0
                continue
            if process is not None and process.failed is not None and await self._is_over(process.failed, changed):
                return
            early = 0 if loop.time() - begun >= EARLY_S else early + 1
            if early >= EARLY_DEATHS_MAX and not self._plan.reload:
                say(f"perdure: worker process {number} {_how(code)} {early} times within {EARLY_S:g} s of its start: giving up")
                self._finish(FAILED)
                return
            pause = min(PAUSE_S * 2**early, PAUSE_S_MAX)
            if process is None or process.failed is None:
                pid = "" if process is None else f" (pid {process.pid})"
                say(f"perdure: worker process {number}{pid} {_how(code)}; another takes its place in {pause:g} s")
            await self._pause(pause, changed)

    async def _lived(self, number: int, changed: asyncio.Event) -> tuple[WorkerProcess | None, int]:
        """Start one, and wait for its end. What was ordered while it was being started holds for it too."""
        try:
            process = await WorkerProcess.start(self._plan, self._command)
        except OSError as error:
            say(f"perdure: no process could be started: {error}")
            return None, FAILED
        self._processes[number] = process
        if self._end.is_set() or changed.is_set():
            process.drain(0)
        try:
            return process, await process.end(lambda news: self._heard(number, news))
        except asyncio.CancelledError:
            process.kill()
            raise
        finally:
            del self._processes[number]
            self._serving.discard(number)
            self._away.discard(number)

    async def _is_over(self, failed: ms.Failed, changed: asyncio.Event) -> bool:
        """What is done about a process that cannot be a worker: the end if none ever was one, else another try later."""
        if not self._announced and not self._plan.reload:
            self._fault = failed
            self._finish(failed.code)
            return True
        self._tell(f"perdure: {failed.message}")
        if self._plan.reload and failed.files:
            self._tell("perdure: waiting for a change")
            await self._pause(None, changed)
        return False

    async def _pause(self, seconds: float | None, changed: asyncio.Event) -> None:
        """Until the time is over, a file has changed or the end has come."""
        loop = asyncio.get_running_loop()
        waits = [loop.create_task(event.wait()) for event in (self._end, changed)]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    # ------------------------------------------------------------------------------------------------------------------- news

    def _heard(self, number: int, news: ms.News) -> None:
        match news:
            case ms.Loaded():
                self._loaded = news
                self._sources.add(map(Path, news.files))
            case ms.Serving():
                self._serves(number, news.address)
            case ms.Away():
                if not self._end.is_set() and (news.refused or not self._away):
                    self._tell(f"perdure: {shown(news.why)}; waiting for it")
                self._away.add(number)
            case ms.Failed():
                self._sources.add(map(Path, news.files))

    def _serves(self, number: int, address: str) -> None:
        self._told = ""
        is_new, was_away = number not in self._serving, number in self._away
        self._serving.add(number)
        self._away.discard(number)
        if self._announced and is_new:
            say(f"perdure: worker process {number} (pid {self._processes[number].pid}) serves")
        elif self._announced and was_away and not self._away:
            say(f"perdure: the node at {shown(address)} is back")
        elif not self._announced and self._loaded is not None and len(self._serving) == self._count:
            self._announced = True
            self._announce(self._loaded, address, [self._processes[n].pid for n in sorted(self._processes)])

    def _tell(self, text: str) -> None:
        if text not in self._told:
            self._told += text
            say(text)

    # ------------------------------------------------------------------------------------------------------------------ reload

    async def _watch(self) -> None:
        """With each change of a source file, have every process replaced by one that loads it."""
        while True:
            path = await self._sources.changed()
            say(f"perdure: {path} has changed; starting again")
            self._told = ""
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
            for process in self._processes.values():
                process.drain(min(RELOAD_GRACE_S, self._plan.grace))


def _how(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
