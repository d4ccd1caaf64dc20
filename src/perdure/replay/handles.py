"""What the loop hands out for scheduled callbacks. Both kinds only look like asyncio's; they hold what a run needs and no more."""

from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

if TYPE_CHECKING:
    from perdure.replay.loop import WorkflowLoop


class ReadyHandle(Struct, eq=False):
    """A callback in the ready queue. A Struct because one is made for every step of every task."""

    callback: Callable[..., object] | None
    args: tuple[Any, ...]
    context: Context

    def cancel(self) -> None:
        """Do not run it. Idempotent."""
        self.callback = None
        self.args = ()

    def cancelled(self) -> bool:
        return self.callback is None


_WAITING: Final = 0
_FIRED: Final = 1
_CANCELLED: Final = 2


class LoopTimer:
    """A callback that runs once its own `timer fired` is fed; what `call_later` and `call_at` return.

    `token` belongs to the runner (its command number, say). A timer too far away for any calendar never reaches the runner.
    """

    __slots__ = ("_args", "_callback", "_context", "_loop", "_ready", "_state", "_when", "never", "token")

    def __init__(
        self, loop: "WorkflowLoop", when: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context
    ) -> None:
        self._loop = loop
        self._when = when
        self._callback: Callable[..., object] | None = callback
        self._args = args
        self._context = context
        self._ready: ReadyHandle | None = None
        self._state = _WAITING
        self.never = False
        self.token: Any = None

    def when(self) -> float:
        """Loop time at which it is due, seconds since the run's start."""
        return self._when

    @property
    def wakes(self) -> tuple[Any, ...]:
        """What its callback is going to be given: the future of a sleep, say."""
        return self._args

    def cancelled(self) -> bool:
        return self._state == _CANCELLED

    def cancel(self) -> None:
        """Do not run it. The runner hears of it once, and only while the timer has not fired."""
        waiting = self._state == _WAITING
        self._state = _CANCELLED
        self._callback, self._args = None, ()
        if self._ready is not None:
            self._ready.cancel()
        if waiting and not self.never:
            self._loop.timer_cancelled(self)

    def fire(self) -> None:
        """Its `timer fired` was fed: put the callback in the ready queue. A timer fires once; a cancelled one not at all."""
        if self._state == _WAITING and self._callback is not None:
            self._state = _FIRED
            self._ready = self._loop.call_soon(self._callback, *self._args, context=self._context)
            self._callback, self._args = None, ()
