"""A call: one function with its arguments, as a value that can be awaited.

Making one does nothing. Inside workflow code, awaiting it (or making it a task) asks the run for durable work; anywhere else it runs
the function here; `client.start` takes it apart instead. It is a real coroutine to asyncio and is made on every step, so it must stay
a handful of slots: no inspection, no encoding, no coroutine object before the first `send`.
"""

import sys
import warnings
from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import Any, Final, Protocol, TypeVar, cast

from perdure.sdk.context import WorkflowContext, current_workflow

R_co = TypeVar("R_co", covariant=True)

_WARNED: Final[dict[Any, Any]] = {}
"""Places that were told of already; replay would tell of them again and again."""


class Definition(Protocol):
    """What a call is of: a decorated activity or workflow."""

    @property
    def name(self) -> str:
        """The type name under which it is registered."""
        ...

    def begin(self, context: WorkflowContext | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Coroutine[Any, Any, Any]:
        """The coroutine that does the work: durably for `context`, or here and now when there is none."""
        ...


class Call(Coroutine[None, None, R_co]):
    """A call that has not happened yet, giving an `R` when awaited.

    It can be awaited once, as any coroutine; handing it to `client.start` does not use it up. Raises, when awaited, whatever the
    function or its durable execution raises, `TypeError` for arguments the function does not take, and `RuntimeError` the second time.
    """

    __slots__ = ("_running", "_used", "args", "definition", "kwargs")

    definition: Definition
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __init__(self, definition: Definition, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.definition = definition
        self.args = args
        self.kwargs = kwargs
        self._used = False
        self._running: Coroutine[Any, Any, Any] | None = None

    def _begin(self) -> Coroutine[Any, Any, R_co]:
        if self._used:
            raise RuntimeError(f"cannot reuse an already awaited call of {self.definition.name}")
        self._used = True
        running = self._running = self.definition.begin(current_workflow(), self.args, self.kwargs)
        return running

    def __await__(self) -> Generator[Any, None, R_co]:
        return cast("Generator[Any, None, R_co]", self._begin().__await__())

    def send(self, value: None, /) -> None:
        running = self._running
        if running is None:
            running = self._begin()
        return cast("None", running.send(value))

    def throw(
        self,
        typ: type[BaseException] | BaseException,
        val: BaseException | object = None,
        tb: TracebackType | None = None,
        /,
    ) -> None:
        running = self._running
        if running is not None:
            error = _exception(typ, val)
            return cast("None", running.throw(error if tb is None else error.with_traceback(tb)))
        self._used = True
        raise _exception(typ, val).with_traceback(tb)

    def close(self) -> None:
        """Give the call up: what has begun is closed as a coroutine is, and it cannot be awaited any more."""
        self._used = True
        if self._running is not None:
            self._running.close()

    def __del__(self) -> None:
        """In workflow code a call nobody awaited is almost always a forgotten `await`: nothing was asked for, and nothing else says so."""
        if self._used or current_workflow() is None:
            return
        frame = sys._getframe(1)
        warnings.warn_explicit(
            f"{self.definition.name} was called and never awaited: nothing was asked for",
            RuntimeWarning,
            frame.f_code.co_filename,
            frame.f_lineno,
            registry=_WARNED,
        )

    @property
    def cr_await(self) -> object:
        """What the running call waits for; for debuggers and stack printers, as on a native coroutine."""
        return getattr(self._running, "cr_await", None)

    @property
    def cr_frame(self) -> object:
        """The frame of the running call, None before it begins and after it ends."""
        return getattr(self._running, "cr_frame", None)

    @property
    def __name__(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]  as on a coroutine, only computed
        return self.definition.name

    def __repr__(self) -> str:
        given = [repr(value) for value in self.args]
        given += [f"{name}={value!r}" for name, value in self.kwargs.items()]
        return f"<Call {self.definition.name}({', '.join(given)})>"


def _exception(typ: type[BaseException] | BaseException, val: object) -> BaseException:
    if isinstance(typ, BaseException):
        return typ
    if isinstance(val, BaseException):
        return val
    return typ() if val is None else typ(val)
