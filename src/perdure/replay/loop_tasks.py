"""Tasks and futures that hash by a serial of their run, so that sets of them iterate alike in every process.

The serial is given after construction: while asyncio enters a new task in its process-wide set of all tasks, the hash is still the
address, so that thousands of runs whose tasks bear the same few serials do not collide there.
"""

import asyncio
from typing import Any, TypeVar, cast

T = TypeVar("T")


class WorkflowFuture(asyncio.Future[T]):
    """A future of one run; made by `WorkflowLoop.create_future`."""

    __slots__ = ("serial",)
    serial: int

    def __hash__(self) -> int:
        try:
            return self.serial
        except AttributeError:
            return id(self) >> 4


class WorkflowTask(asyncio.Task[T]):
    """A task of one run; made by `WorkflowLoop.create_task`."""

    __slots__ = ("serial",)
    serial: int

    def __hash__(self) -> int:
        try:
            return self.serial
        except AttributeError:
            return id(self) >> 4


def install() -> None:
    """Let what `asyncio.gather` returns hash by a serial of its run too. Idempotent; other loops see no difference."""
    any_asyncio: Any = asyncio
    plain, gathering = any_asyncio.Future, any_asyncio.tasks._GatheringFuture
    if gathering.__hash__ is plain.__hash__:
        gathering.__hash__ = _gathering_hash


def _gathering_hash(gathering: Any) -> int:
    serial: int | None = getattr(gathering, "serial", None)
    if serial is not None:
        return serial
    next_serial = getattr(gathering.get_loop(), "next_serial", None)
    serial = gathering.serial = next_serial() if next_serial is not None else id(gathering) >> 4
    return cast("int", serial)
