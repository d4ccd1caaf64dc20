"""The course of a trial: one JSON line for everything that was done to a process, with time and pid, and who is alive.

The lines are flushed at once, so that a trial that dies leaves its course behind.
"""

import asyncio
import json
from collections.abc import Callable, Collection
from pathlib import Path
from time import time_ns
from typing import Any, TypeAlias

from perdure.demo.book import Book

Hear: TypeAlias = Callable[[dict[str, Any]], object]


class Course:
    """`tell` writes a line, and `hear` is told it. `alive` holds the pids of the nodes and workers there are."""

    def __init__(self, path: Path, hear: Hear | None = None) -> None:
        self._book = Book(path)
        self._hear = hear
        self._began = time_ns()
        self.alive: set[int] = set()
        self._changed = asyncio.Condition()

    def tell(self, what: str, **facts: Any) -> None:
        now = time_ns()
        line = {"time": now // 1_000, "s": round((now - self._began) / 1e9, 3), "what": what, **facts}
        self._book.append(line)
        if self._hear is not None:
            self._hear(line)

    async def started(self, role: str, pid: int, **facts: Any) -> None:
        """A process is there."""
        self.tell("started", role=role, pid=pid, **facts)
        self.alive.add(pid)

    async def ended(self, what: str, role: str, pid: int, **facts: Any) -> None:
        """A process is gone: `killed`, `stopped`, or `died` by itself."""
        self.tell(what, role=role, pid=pid, **facts)
        self.alive.discard(pid)
        async with self._changed:
            self._changed.notify_all()

    async def until_gone(self, pids: Collection[int]) -> None:
        """Wait until none of these is left."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.alive.isdisjoint(pids))

    def close(self) -> None:
        self._book.close()


def lines_of(path: Path) -> list[dict[str, Any]]:
    """What a course that is over has told."""
    return [json.loads(line) for line in path.read_text().splitlines()]
