"""The people around a pipeline: they hand in briefs, answer its questions, and wait for what becomes of it.

They speak to a node that is killed meanwhile, so whatever they ask is asked again, under the same id, until it is acknowledged; what was
acknowledged goes into the book of requests before anything else is done.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from http.client import HTTPConnection, HTTPException
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from perdure import Client, Handle
from perdure.chaos.commissions import Commission, When
from perdure.chaos.course import Course
from perdure.chaos.pipelines.steps import Piece, as_input
from perdure.chaos.pipelines.v2 import research
from perdure.demo.book import Book
from perdure.errors import PerdureError, ResourceExhausted, Unavailable, WorkflowClosed

T = TypeVar("T")

PAUSE_S: Final = 0.1
"""Between two tries."""
WHEN: Final[tuple[When, ...]] = ("early", "amid", "after")
LISTEN_S: Final = 20.0
"""So long may the world take to say that there are no questions."""


class Doors:
    """What some of the people wait for: set by whoever leads the trial."""

    def __init__(self) -> None:
        self.deploy_begun = asyncio.Event()
        self.deploy_done = asyncio.Event()


class Desk:
    """Sees commissions through. `accepted`, `asked` and `ended` hold ids of briefs; `until` waits for what they should hold."""

    def __init__(
        self,
        client: Client,
        book: Book,
        course: Course,
        world: str,
        commissions: Sequence[Commission],
        *,
        crowded: bool,
        pace_s: float,
    ) -> None:
        """`crowded`: no early brief is answered before the deploy has begun. `pace_s`: between two briefs that are handed in."""
        self._client = client
        self._book = book
        self._course = course
        self._world = world
        self._commissions = {commission.brief.id: commission for commission in commissions}
        self._crowded = crowded
        self._pace_s = pace_s
        self.doors = Doors()
        self.accepted: set[str] = set()
        self.asked: set[str] = set()
        self.ended: set[str] = set()
        self._changed = asyncio.Condition()
        self._writing = asyncio.Lock()

    @property
    def in_flight(self) -> int:
        return len(self.accepted) - len(self.ended)

    async def until(self, predicate: Callable[[], bool]) -> None:
        """Wait until `predicate()` holds; it is tried after each change."""
        async with self._changed:
            await self._changed.wait_for(predicate)

    async def serve(self) -> None:
        """Returns when every commission has ended."""
        async with asyncio.TaskGroup() as group:
            answering = group.create_task(self._answer_all(group))
            for when in WHEN:
                await self._until_time(when)
                for commission in self._commissions.values():
                    if commission.when == when:
                        group.create_task(self._see_through(commission))
                        await asyncio.sleep(self._pace_s)
            await self.until(lambda: len(self.ended) == len(self._commissions))
            answering.cancel()

    async def _until_time(self, when: When) -> None:
        """Wait until briefs of that kind are handed in."""
        if when == "amid":
            await self.doors.deploy_begun.wait()
        elif when == "after":
            await self.doors.deploy_done.wait()

    # ------------------------------------------------------------------------------------------------------------- a brief

    async def _see_through(self, commission: Commission) -> None:
        brief = commission.brief
        handle: Handle[Piece] = await persistently(
            lambda: self._client.start(research(brief), id=brief.id, request_id=f"start-{brief.id}")
        )
        await self._write(line="start", brief=as_input(brief))
        self._course.tell("accepted", brief_id=brief.id, when=commission.when)
        await self._add(self.accepted, brief.id)
        told = await persistently(lambda: _told(handle))
        await self._write(line="result", brief_id=brief.id, **told)
        self._course.tell("ended", brief_id=brief.id, status=told["status"])
        await self._add(self.ended, brief.id)

    # -------------------------------------------------------------------------------------------------------------- answers

    async def _answer_all(self, group: asyncio.TaskGroup) -> None:
        """Hear of every question, and have each answered."""
        heard = 0
        while True:
            questions = await persistently(partial(self._questions, heard))
            for question in questions:
                commission = self._commissions[question["brief_id"]]
                if commission.brief.id in self.asked:
                    continue  # asked twice under two keys, which the auditor will find; one answer is enough
                there = frozenset(self._course.alive)
                self._course.tell("asked", brief_id=commission.brief.id)
                await self._add(self.asked, commission.brief.id)
                if commission.answer != "silence":
                    group.create_task(self._answer(commission, there))
            heard += len(questions)

    async def _questions(self, after: int) -> list[dict[str, Any]]:
        return await asyncio.to_thread(_questions, self._world, after)

    async def _answer(self, commission: Commission, there: frozenset[int]) -> None:
        """Say yes or no; `there` are the processes that were alive when the question came."""
        brief_id, value = commission.brief.id, commission.answer == "approve"
        if commission.withheld:
            await self.doors.deploy_begun.wait()
            await self._course.until_gone(there)
        elif self._crowded and commission.when == "early":
            await self.doors.deploy_begun.wait()
        self._course.tell("answer sent", brief_id=brief_id, withheld=commission.withheld, twice=commission.twice)
        handle = self._client.handle(brief_id)
        for _ in range(2 if commission.twice else 1):
            await persistently(lambda: _signalled(handle, value, commission.signal_id))
            await self._write(line="signal", brief_id=brief_id, signal_id=commission.signal_id, value=value)

    # ---------------------------------------------------------------------------------------------------------------- books

    async def _write(self, **line: Any) -> None:
        async with self._writing:
            await asyncio.to_thread(self._book.append, line)

    async def _add(self, there: set[str], brief_id: str) -> None:
        there.add(brief_id)
        async with self._changed:
            self._changed.notify_all()


async def persistently(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until there is an answer: the node may be dead just now, or refuse for a while."""
    while True:
        try:
            return await ask()
        except (Unavailable, ResourceExhausted, OSError, HTTPException):
            await asyncio.sleep(PAUSE_S)


async def _told(handle: Handle[Piece]) -> dict[str, Any]:
    """How a run ended, as its client hears it. What that means is the auditor's to say."""
    try:
        piece = await handle.result()
    except Unavailable:
        raise
    except PerdureError as error:
        return {"status": error.code, "value": str(error)}
    return {
        "status": "completed",
        "value": {name: getattr(piece, name) for name in ("brief_id", "outcome", "article", "receipt")},
    }


async def _signalled(handle: Handle[Any], value: bool, signal_id: str) -> None:
    # The first of two, or a try whose answer was lost, may have ended the run meanwhile.
    with suppress(WorkflowClosed):
        await handle.signal("approve", value, signal_id=signal_id)


def _questions(world: str, after: int) -> list[dict[str, Any]]:
    """Questions behind the `after`-th; empty when for a while there are none."""
    address = urlsplit(world)
    connection = HTTPConnection(address.hostname or "127.0.0.1", address.port, timeout=LISTEN_S)
    try:
        connection.request("GET", f"/desk/asked?after={after}")
        answer: dict[str, Any] = json.load(connection.getresponse())
    finally:
        connection.close()
    return list(answer["asked"])
