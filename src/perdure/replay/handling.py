"""Running signal handlers: the method of a run's instance that takes a signal, as a callback or, when it is async, as a task of its own.

A value that does not fit the handler sets the signal aside, and the run goes on. Anything else that leaves a handler ends the run.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any

from perdure.core.errors import InvalidArgument
from perdure.core.requests import SetAside
from perdure.replay.interrupts import is_interrupt

if TYPE_CHECKING:
    from perdure.core.events import SignalReceived
    from perdure.replay.run_context import RunContext

Failed = Callable[[BaseException], None]


def handle(context: "RunContext", handler: Any, signal: "SignalReceived", failed: Failed) -> None:
    """Have the signal handled in the coming run to idle; `failed` is told what leaves the handler."""
    if not handler.is_async:
        context.loop.call_soon(_run, context, handler, signal, failed, context=Context())
        return
    task = context.loop.create_task(_run_async(context, handler, signal), name=f"signal {signal.name}", context=Context())
    context.handlers_running += 1
    task.add_done_callback(partial(_ended, context, failed))


def _run(context: "RunContext", handler: Any, signal: "SignalReceived", failed: Failed) -> None:
    try:
        bound = _bound(context, handler, signal)
        if bound is not None:
            handler.fn(context.instance, *bound[0], **bound[1])
    except asyncio.CancelledError:
        pass  # nobody asked this method to stop, and nobody waits for it
    except BaseException as error:
        if is_interrupt(error):
            raise
        failed(error)


async def _run_async(context: "RunContext", handler: Any, signal: "SignalReceived") -> None:
    bound = _bound(context, handler, signal)
    if bound is not None:
        await handler.fn(context.instance, *bound[0], **bound[1])


def _ended(context: "RunContext", failed: Failed, task: "asyncio.Task[None]") -> None:
    context.handlers_running -= 1
    if not task.cancelled() and (error := task.exception()) is not None:
        failed(error)


def _bound(context: "RunContext", handler: Any, signal: "SignalReceived") -> tuple[list[Any], dict[str, Any]] | None:
    """The handler's arguments; None, and the signal set aside, when it carries others."""
    try:
        bound: tuple[list[Any], dict[str, Any]] = handler.signature.unbind(
            signal.input, signal.keywords, f"signal {signal.name}"
        )
    except InvalidArgument as error:
        context.put_aside(SetAside(command=signal.id, message=str(error)))
        return None
    return bound
