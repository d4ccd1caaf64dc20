"""A saga: steps to undo, run last-in-first-out when a block fails.

All are tried, none is interrupted by a cancel, and what goes wrong in them is told as notes on the error that brought it about.
Needs nothing of the run: inside workflow code the compensations are durable because the calls are.
"""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

from perdure.core.errors import ActivityError, InvalidArgument


class Saga:
    """`async with workflow.saga() as s: … s.add(refund(order))`.

    Leaving the block by an exception or a cancel runs the compensations; leaving it normally, or by `continue_as_new`, forgets them.
    A cancel that arrives while they run waits until they are through and is raised then, from the error that was on its way.
    """

    __slots__ = ("_compensations",)

    def __init__(self) -> None:
        self._compensations: list[Coroutine[Any, Any, object]] = []

    def add(self, compensation: Coroutine[Any, Any, object]) -> None:
        """Remember a call (or any coroutine) that undoes the step just made or about to be made. It does not begin before it is needed."""
        _check(compensation)
        self._compensations.append(compensation)

    async def compensate(self) -> None:
        """Run what was added, last first, and forget it. Raises an `ExceptionGroup` of everything that failed, after all were tried."""
        errors, cancel = await self._undo()
        group = ExceptionGroup("compensations failed", errors) if errors else None
        if cancel is not None:
            raise cancel from group
        if group is not None:
            raise group

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What is neither an error nor a cancel only unwinds the code (a continue-as-new, an eviction): there is nothing to undo.
        if not isinstance(error, (Exception, asyncio.CancelledError)):
            return self._forget()
        errors, cancel = await self._undo()
        for number, failed in enumerate(errors, 1):
            error.add_note(f"compensation failed ({number} of {len(errors)}): {type(failed).__name__}: {failed}")
        if cancel is not None:
            raise cancel from error
        return None

    def _forget(self) -> None:
        while self._compensations:
            self._compensations.pop().close()

    async def _undo(self) -> tuple[list[Exception], asyncio.CancelledError | None]:
        if not self._compensations:
            return [], None
        task = asyncio.get_running_loop().create_task(_run_all(self._compensations))
        cancel: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError as error:
                cancel = error
        return task.result(), cancel


def _check(compensation: object) -> None:
    if not isinstance(compensation, Coroutine):
        raise InvalidArgument(f"a saga takes calls, such as refund(order), not {compensation!r}")


async def _run_all(compensations: list[Coroutine[Any, Any, object]]) -> list[Exception]:
    errors: list[Exception] = []
    own = asyncio.current_task()
    while compensations:
        compensation = compensations.pop()
        try:
            await compensation
        except Exception as error:  # noqa: BLE001  all are tried; the caller tells what failed
            errors.append(error)
        except asyncio.CancelledError:
            if own is not None and own.cancelling():
                raise  # the loop is being shut down
            name = str(getattr(compensation, "__name__", compensation))
            errors.append(ActivityError(f"{name} was cancelled before it was done", name=name, kind="cancelled"))
    return errors
