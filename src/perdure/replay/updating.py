"""Running updates: the validator that may refuse one, and the handler of one that is accepted, as a task of the run.

An accepted update is a command of the run's code, and its end another. Live and on replay the same handler runs at the same place; only
the validator is never asked again. Whatever leaves a handler is the update's failure, and the run goes on.
"""

from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from perdure.core import commands as cm
from perdure.core.errors import InvalidArgument, NondeterminismError
from perdure.core.failure import Failure
from perdure.core.payload import Payload
from perdure.replay.interrupts import is_interrupt
from perdure.replay.run_context import ContinueAsNewRequested
from perdure.sdk.failures import to_failure

if TYPE_CHECKING:
    from perdure.replay.matcher import Asked
    from perdure.replay.run_context import RunContext


class OneUpdate(Protocol):
    """An update as it is offered, or as its acceptance was recorded."""

    @property
    def name(self) -> str: ...

    @property
    def update_id(self) -> str: ...

    @property
    def input(self) -> tuple[Payload, ...]: ...

    @property
    def keywords(self) -> dict[str, Payload]: ...


def refusal(context: "RunContext", update: OneUpdate) -> Failure | None:
    """Why the run's code does not accept an update: nobody takes it, its arguments do not fit, or what its validator raised."""
    try:
        _ask_validator(context, partial(_judge, context, _handler(context, update), update), update.name)
    except BaseException as error:
        if is_interrupt(error):
            raise
        return to_failure(error)
    return None


def _ask_validator(context: "RunContext", judge: Callable[[], None], name: str) -> None:
    """What a guard refuses a validator is not the run's fault: replay never runs one."""
    violations = context.loop.violations
    before = len(violations)
    try:
        context.loop.call_inside(_apart, partial(context.read_only, f"the validator of update {name}", judge))
        if len(violations) > before:
            raise NondeterminismError(violations[before])
    finally:
        del violations[before:]


def _apart(call: Callable[[], None]) -> None:
    """Without the context variables of whoever happens to be running."""
    Context().run(call)


def _judge(context: "RunContext", handler: Any, update: OneUpdate) -> None:
    args, kwargs = _bound(handler, update)
    if handler.check is not None:
        handler.check(context.instance, *args, **kwargs)


def begin(context: "RunContext", update: OneUpdate, accepted: "Asked") -> None:
    """Have the handler of an accepted update run in the coming run to idle."""
    context.handlers_running += 1
    context.loop.create_task(_run(context, update, accepted), name=f"update {update.name}", context=Context())


async def _run(context: "RunContext", update: OneUpdate, accepted: "Asked") -> None:
    try:
        handler = _handler(context, update)
        args, kwargs = _bound(handler, update)
        result = handler.fn(context.instance, *args, **kwargs)
        if handler.is_async:
            result = await result
        payload = handler.signature.encode_result(result, f"result of update {update.name}")
    except GeneratorExit:
        raise  # the run is put aside
    except BaseException as error:
        if is_interrupt(error):
            raise
        failed = cm.FailUpdate(at=context.at, update_id=update.update_id, target=0, failure=_failure(context, error))
        context.matcher.ask(failed, target=accepted)
    else:
        completed = cm.CompleteUpdate(at=context.at, update_id=update.update_id, target=0, result=payload)
        context.matcher.ask(completed, target=accepted)
    context.handlers_running -= 1


def _failure(context: "RunContext", error: BaseException) -> Failure:
    if isinstance(error, NondeterminismError):
        context.loop.violations.append(str(error))
    if isinstance(error, ContinueAsNewRequested):
        return to_failure(
            InvalidArgument("an update cannot end its run: continue_as_new() is for run, once it sees what to do")
        )
    return to_failure(error)


def _handler(context: "RunContext", update: OneUpdate) -> Any:
    definition = context.definition
    handler = definition.updates.get(update.name)
    if handler is None:
        known = ", ".join(repr(name) for name in sorted(definition.updates)) or "none"
        raise InvalidArgument(f"workflow {definition.name} has no update {update.name!r}; it has {known}")
    return handler


def _bound(handler: Any, update: OneUpdate) -> tuple[list[Any], dict[str, Any]]:
    bound: tuple[list[Any], dict[str, Any]] = handler.signature.unbind(update.input, update.keywords, f"update {update.name}")
    return bound
