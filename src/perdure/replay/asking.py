"""Asking a run a query: its handler is called read-only on the run's object, and what it gives or raises becomes a value.

The run is as it was afterwards: what the handler tries to start, wake or draw is refused. Only what it does to its own object by itself
cannot be seen; a query that changes `self` is its author's mistake.
"""

from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import Any

from perdure.core.errors import NondeterminismError
from perdure.core.payload import Payload
from perdure.core.queries import Query, Raised, Refused, Told
from perdure.replay.interrupts import is_interrupt
from perdure.replay.run_context import RunContext
from perdure.replay.runner import Runner
from perdure.sdk.failures import to_failure

PLACE = "a query"


def ask(runner: Runner, query_id: str, query: Query) -> Told | Raised | Refused:
    """The answer of a warm run. Afterwards `runner.context.loop.spoiled` tells whether the runner must be thrown away."""
    context = runner.context
    run_id = context.started.run_id
    handler = context.definition.queries.get(query.name)
    if handler is None:
        return Refused(query_id=query_id, run_id=run_id, code="NOT_FOUND", message=_unknown(context, query.name))
    if context.instance is None:
        about = f"workflow {context.workflow_id!r} has no object to ask: its __init__ did not return"
        return Refused(query_id=query_id, run_id=run_id, code="NOT_FOUND", message=about)
    try:
        result = _answer(context, handler, query)
    except BaseException as error:
        if is_interrupt(error):
            raise
        return Raised(query_id=query_id, run_id=run_id, failure=to_failure(error))
    return Told(query_id=query_id, run_id=run_id, result=result)


def _answer(context: RunContext, handler: Any, query: Query) -> Payload:
    """Whatever a guard refuses meanwhile is the query's fault and not the run's."""
    violations = context.loop.violations
    before = len(violations)
    try:
        result = context.loop.call_inside(_apart, partial(context.read_only, PLACE, _call, context, handler, query))
        if len(violations) > before:
            raise NondeterminismError(violations[before])
    finally:
        del violations[before:]
    return result


def _apart(call: Callable[[], Payload]) -> Payload:
    """Without the context variables of whoever asks for it."""
    return Context().run(call)


def _call(context: RunContext, handler: Any, query: Query) -> Payload:
    label = f"query {query.name}"
    signature = handler.signature
    args, kwargs = signature.unbind(query.input, query.keywords, label)
    payload: Payload = signature.encode_result(handler.fn(context.instance, *args, **kwargs), label)
    return payload


def _unknown(context: RunContext, name: str) -> str:
    known = ", ".join(sorted(context.definition.queries)) or "none"
    return f"workflow {context.workflow_id!r} ({context.definition.name}) has no query {name!r}; it has: {known}"
