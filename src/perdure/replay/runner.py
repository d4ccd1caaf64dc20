"""Running workflow code over its history: inputs one at a time, to idle after each, so that commands are a function of inputs alone.

A runner holds one run warm. It is given events (`advance`), may be fed a fact its worker holds (`feed_fact`), and hands out the commands
that are new (`take`) and how the code ended (`ending`). It does no I/O and never looks at a clock.
"""

from collections.abc import Mapping, Sequence
from contextvars import Context
from typing import TYPE_CHECKING, Any, Protocol

from perdure.core import commands as cm
from perdure.core import events as ev
from perdure.core.errors import NondeterminismError
from perdure.core.failure import Failure
from perdure.core.payload import Payload
from perdure.replay import guards
from perdure.replay.handling import handle
from perdure.replay.matcher import Matcher
from perdure.replay.mismatch import Mismatch, Stale, in_words
from perdure.replay.run_context import ContinueAsNewRequested, RunContext
from perdure.replay.updating import begin, refusal
from perdure.sdk.failures import to_failure
from perdure.sdk.payloads import Signature

if TYPE_CHECKING:
    import asyncio


class Definition(Protocol):
    """A registered workflow, as the runner needs it."""

    @property
    def name(self) -> str: ...

    @property
    def fn(self) -> Any:
        """The async function itself; of a class its run method, which takes the instance first."""
        ...

    @property
    def cls(self) -> type | None:
        """The class, where there is one."""
        ...

    @property
    def signals(self) -> Mapping[str, Any]:
        """Signal handlers by name."""
        ...

    @property
    def updates(self) -> Mapping[str, Any]:
        """Update handlers by name."""
        ...

    @property
    def signature(self) -> Signature:
        """How its arguments and result travel."""
        ...


class Runner:
    """One run, warm. `length` is the number of the last event held; every input up to it has been fed unless the code is `over`. Raises `Mismatch`, `OldBuild` or `Stale` when it cannot go on; it must then be thrown away (`close`)."""

    __slots__ = (
        "_cancel_reason",
        "_fault",
        "_main",
        "context",
        "decided",
        "ending",
        "fed",
        "length",
        "matcher",
        "over",
        "unfed",
    )

    def __init__(
        self, definition: Definition, namespace: str, workflow_id: str, started: ev.Started, *, strict: bool = False
    ) -> None:
        guards.install()
        self.matcher = Matcher(strict=strict)
        self.context = RunContext(namespace, workflow_id, started, self.matcher, definition)
        self.length = 0
        self.fed = 0
        self.decided = 0
        """`based_on` of the last decision seen in the history."""
        self.ending: cm.ClosingCommand | None = None
        self.over = False
        """The code has continued as new, or a handler has failed: nothing after that input is fed."""
        self.unfed: tuple[ev.SignalReceived, ...] = ()
        """Signals that were not fed for that."""
        self._main: asyncio.Task[Any] | None = None
        self._fault: BaseException | None = None
        """What left a handler."""
        self._cancel_reason = ""

    @property
    def awaits_answers(self) -> bool:
        """A command of it is open: an activity, a timer, a child."""
        return bool(self.matcher.waiters)

    def advance(self, events: Sequence[Any], covered: int) -> None:
        """Take over what follows `length`: first all commands recorded, so that looking ahead is possible, then the inputs in order."""
        context = self.context
        if covered > context.covered:
            context.covered = covered
        inputs: list[Any] = []
        for event in events:
            if event.id <= self.length:
                continue
            based_on = getattr(event, "based_on", None)
            if based_on is None:
                inputs.append(event)
            else:
                if based_on > self.decided:
                    self.decided = based_on
                self.matcher.record(event)
        if events and events[-1].id > self.length:
            self.length = events[-1].id
        if self.matcher.expected and self.fed:
            self._take_up(self.matcher.due(context.at))
        for event in inputs:
            if event.id > self.fed and not self.over:
                self.feed(event)
            elif self.over and type(event) is ev.SignalReceived:
                self.unfed += (event,)

    def feed_fact(self, event: ev.ActivityCompleted) -> None:
        """Feed a result the worker holds and will report, numbered and timed as it is going to be recorded."""
        if self.context.loop.is_closed():
            raise Stale("the run was put aside")
        self.feed(event)

    def feed(self, event: Any) -> None:
        """Feed one input and run to idle."""
        context = self.context
        self.fed = context.at = event.id
        if event.time > context.time:
            context.time = event.time
        context.news = event.id > context.covered
        _FEED[type(event)](self, event)
        due = self._rest()
        if due is not None:
            self._take_up(due)

    def _rest(self) -> ev.UpdateAccepted | None:
        """Run to idle and compare what was asked for; the update that comes next, if one was accepted at this input, is returned."""
        context = self.context
        context.loop.run_until_idle()
        if context.predicates is not None:
            context.predicates.run()
        if context.loop.violations:
            raise Mismatch(context.loop.violations[0])
        due = self.matcher.settle(context.at)
        if self.ending is None and self._main is not None and (self._fault is not None or self._main.done()):
            self.ending = self._ended(self._main)
        return due

    # ----------------------------------------------------------------------------------------------------------- updates

    def offer(self, update: ev.UpdateBody, now: int) -> Failure | None:
        """Offer the code an update, every input held being fed: why it is refused, or None. Accepted, its handler has run to idle.

        One whose acceptance is held here and not recorded yet is accepted already.
        `now` is the owner's time; the handler sees it as `now()`, unless that is later already.
        """
        context, matcher = self.context, self.matcher
        if context.loop.is_closed() or self.ending is not None:
            raise Stale("the run was put aside, or has ended")
        if matcher.holds_update(update.update_id):
            return None
        if not update.accepted and (failure := refusal(context, update)) is not None:
            return failure
        if now > context.time:
            context.time = now
        context.news = True
        command = cm.AcceptUpdate(
            at=context.at,
            name=update.name,
            update_id=update.update_id,
            fed_at=context.time,
            input=update.input,
            keywords=update.keywords,
        )
        begin(context, update, matcher.ask(command))
        self._rest()
        return None

    def _take_up(self, due: ev.UpdateAccepted | None) -> None:
        """Run the handlers of updates that recorded decisions accepted at this input. Their validators are not asked again."""
        context = self.context
        while due is not None:
            if due.fed_at > context.time:
                context.time = due.fed_at
            context.news = False
            begin(context, due, self.matcher.taken(due))
            due = self._rest()

    def take(self) -> tuple[cm.AnyCommand, ...]:
        """Commands asked for and not yet reported."""
        return self.matcher.take()

    @property
    def spoiled(self) -> bool:
        """Code that may only look has begun to wake something: what is held here may not be what the history says."""
        return self.context.loop.spoiled

    def close(self) -> None:
        """Throw the run away without running a line of its code."""
        self.context.loop.close()

    # ----------------------------------------------------------------------------------------------------------- feeding

    def _start(self, event: ev.Started) -> None:
        definition = self.context.definition
        self._main = self.context.loop.create_task(
            _main(definition, event, self.context),
            name=event.workflow_type,
            context=Context(),
        )

    def _answer(self, event: Any) -> None:
        asked = self.matcher.waiters.pop(event.command, None)
        if asked is not None and not asked.waiter.done():
            asked.waiter.set_result(event)

    def _timer_fired(self, event: ev.TimerFired) -> None:
        asked = self.matcher.waiters.pop(event.command, None)
        if asked is not None:
            asked.waiter.fire()

    def _signal(self, event: ev.SignalReceived) -> None:
        context = self.context
        handler = context.definition.signals.get(event.name)
        if handler is None or context.instance is None:
            context.signalled(event)
        else:
            handle(context, handler, event, self._failed)

    def _failed(self, error: BaseException) -> None:
        """A handler was left by an exception: it ends the run here, as if main had raised it. The first one counts."""
        if self._fault is None:
            self._fault = error

    def _cancel(self, event: ev.CancelRequested) -> None:
        if self._main is not None and not self._main.done():
            self._cancel_reason = event.reason
            self._main.cancel(event.reason or None)

    def _child_started(self, event: ev.ChildStarted) -> None:
        asked = self.matcher.waiters.get(event.command)
        if asked is not None:
            asked.waiter.has_started(event)

    def _child_over(self, event: ev.ChildStartFailed | ev.ChildClosed) -> None:
        asked = self.matcher.waiters.pop(event.command, None)
        if asked is not None:
            asked.waiter.is_over(event)

    def _reset(self, event: ev.Reset) -> None:
        self.context.reset(event.run_id, event.seed)

    # ------------------------------------------------------------------------------------------------------------ ending

    def _ended(self, main: "asyncio.Task[Any]") -> cm.ClosingCommand:
        at = self.context.at
        if self._fault is not None:
            self.over = True
            return self._ended_by(self._fault, at)
        if main.cancelled():
            return cm.CancelWorkflow(at=at, reason=self._cancel_reason)
        error = main.exception()
        if error is None:
            return cm.CompleteWorkflow(at=at, result=main.result())
        return self._ended_by(error, at)

    def _ended_by(self, error: BaseException, at: int) -> cm.ClosingCommand:
        if isinstance(error, ContinueAsNewRequested):
            self.over = True
            untaken = tuple(signal.id for signal in self.context.untaken())
            return cm.ContinueAsNew(
                at=at,
                workflow_type=error.command.workflow_type,
                input=error.command.input,
                keywords=error.command.keywords,
                untaken=untaken,
            )
        if isinstance(error, NondeterminismError):
            raise Mismatch(str(error))
        return cm.FailWorkflow(at=at, failure=to_failure(error))


async def _main(definition: Definition, started: ev.Started, context: RunContext) -> Payload:
    """The run's main task: the instance made, arguments decoded, the author's function awaited, its result encoded."""
    signature = definition.signature
    instance = () if definition.cls is None else (context.make(definition.cls),)
    args, kwargs = signature.unbind(started.input, started.keywords)
    result = await definition.fn(*instance, *args, **kwargs)
    return signature.encode_result(result, f"result of {definition.name}")


def check_closed(runner: Runner, closing: Any) -> None:
    """Compare how the code ended with how its closed history says it did. Raises `Mismatch`."""
    kind: Any = closing.__class__
    if kind not in _ENDS.values() or closing.at == 0:
        return  # the engine's doing, not the code's
    ending = runner.ending
    if ending is None:
        raise Mismatch("the history is closed, the code goes on", expected=in_words(closing))
    if _ENDS[type(ending)] is not kind or ending.at != closing.at:
        raise Mismatch("the run ends in another way", expected=in_words(closing), found=in_words(ending))
    if runner.matcher.strict and isinstance(ending, cm.CompleteWorkflow) and ending.result != closing.result:
        raise Mismatch("results differ", expected=in_words(closing), found=in_words(ending))


_ENDS: dict[type, type] = {
    cm.CompleteWorkflow: ev.Completed,
    cm.FailWorkflow: ev.Failed,
    cm.CancelWorkflow: ev.Cancelled,
    cm.ContinueAsNew: ev.ContinuedAsNew,
}

_FEED: dict[type, Any] = {
    ev.Started: Runner._start,
    ev.ActivityCompleted: Runner._answer,
    ev.ActivityFailed: Runner._answer,
    ev.ActivityTimedOut: Runner._answer,
    ev.ActivityCancelled: Runner._answer,
    ev.TimerFired: Runner._timer_fired,
    ev.SignalReceived: Runner._signal,
    ev.ChildStarted: Runner._child_started,
    ev.ChildStartFailed: Runner._child_over,
    ev.ChildClosed: Runner._child_over,
    ev.ExternalSignalDelivered: Runner._answer,
    ev.ExternalSignalFailed: Runner._answer,
    ev.ExternalCancelDelivered: Runner._answer,
    ev.ExternalCancelFailed: Runner._answer,
    ev.CancelRequested: Runner._cancel,
    ev.Reset: Runner._reset,
}
