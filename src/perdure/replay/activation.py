"""Which workflow loops are running code right now, and whose thread this is.

Guards and the audit hook are called all the time by the rest of the process, so the first question they ask must cost nothing:
`ACTIVE` is empty unless some thread is inside workflow code. Nothing here may import the loop: everything else does.
"""

from asyncio.events import _get_running_loop
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from perdure.replay.loop import WorkflowLoop

ACTIVE: Final[list["WorkflowLoop"]] = []
"""Loops inside an activation, at most one a thread. Only `WorkflowLoop` appends and removes."""


def guarded_loop() -> "WorkflowLoop | None":
    """The loop whose workflow code runs on this thread with its guards up, else None. Test `ACTIVE` first, it is cheaper."""
    loop: Any = _get_running_loop()
    if loop is None or loop not in ACTIVE or loop.unguarded_depth:
        return None
    active: WorkflowLoop = loop
    return active


class unguarded:  # noqa: N801 – used as a verb in a `with` statement
    """`with unguarded():` lets perdure's own work inside an activation use the real clock, chance and disk.

    Outside workflow code it does nothing. May be nested.
    """

    __slots__ = ("_loop",)

    def __enter__(self) -> None:
        loop: Any = _get_running_loop() if ACTIVE else None
        self._loop: WorkflowLoop | None = loop if loop in ACTIVE else None
        if self._loop is not None:
            self._loop.unguarded_depth += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._loop is not None:
            self._loop.unguarded_depth -= 1
