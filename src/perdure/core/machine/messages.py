"""Messages between runs: what a state owes to others, what a closing run leaves behind, and what the answers mean to who asked.

Nothing crosses workflow ids in one transition. While a run is open, whatever it asked of another and has not been answered is read off its
state, so that nobody has to remember it; what it still owes when it closes is written to the outbox with its end. Targets recognise a
message that comes again by its request id.
"""

from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from perdure.core import events as ev
from perdure.core.deliveries import Delivery
from perdure.core.description import result_of
from perdure.core.failure import Failure
from perdure.core.machine.outcome import Decided, Draft, only
from perdure.core.notes import Delivered
from perdure.core.replies import RunResult, RunStarted, Taken
from perdure.core.requests import (
    AnyRequest,
    ChildRefused,
    ChildStands,
    ExternalAnswered,
    MessagesDelivered,
    RequestCancel,
    SignalBody,
    SignalWorkflow,
    StartWorkflow,
    TerminateWorkflow,
)
from perdure.core.state import ChildState, ExternalState, RunState, WorkflowState
from perdure.core.transition import Message

_Left: TypeAlias = StartWorkflow | SignalWorkflow | RequestCancel | TerminateWorkflow

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Left).decode


# ------------------------------------------------------------------------------------------------------------------ making


def start_of(state: WorkflowState, run: RunState, child: ChildState) -> Delivery:
    """The start of a child; brought again, it asks how the child stands."""
    event, started = child.event, run.started
    parent = ev.ParentLink(
        workflow_id=state.workflow_id,
        run_id=child.request_id.rpartition("/")[0],
        command=event.id,
        on_parent_close=event.on_parent_close,
    )
    request = StartWorkflow(
        namespace=state.namespace,
        workflow_id=event.workflow_id,
        workflow_type=event.workflow_type,
        run_id="",
        seed=0,
        request_id=child.request_id,
        queue=event.queue or started.queue,
        input=event.input,
        keywords=event.keywords,
        timeout=event.timeout,
        retry=event.retry,
        memo=event.memo,
        attributes=event.attributes,
        attribute_datetimes=event.attribute_datetimes,
        origin=started.origin,
        priority=event.priority,
        parent=parent,
        encoded=started.encoded,
    )
    return Delivery(
        key=child.request_id,
        request=request,
        source=state.workflow_id,
        command=event.id,
        hears="child",
        asker=run.run_id if run.reset_to else "",
    )


def cancel_of(state: WorkflowState, child: ChildState) -> Delivery:
    """The cancel of a child that was asked for."""
    assert child.cancel is not None
    return _stop(state, child, f"{child.request_id}:{child.cancel.id}", child.cancel.reason, child.cancel.id)


def _stop(state: WorkflowState, child: ChildState, key: str, reason: str, command: int = 0) -> Delivery:
    request = RequestCancel(
        namespace=state.namespace,
        workflow_id=child.event.workflow_id,
        reason=reason,
        request_id=key,
        started_by=child.request_id,
    )
    return Delivery(key=key, request=request, source=state.workflow_id, command=command, hears="message")


def external_of(state: WorkflowState, run: RunState, external: ExternalState) -> Delivery:
    """A signal or cancel to another run."""
    event, key = external.event, external.request_id
    request: AnyRequest
    if isinstance(event, ev.ExternalSignalRequested):
        body = SignalBody(name=event.name, input=event.input, keywords=event.keywords, signal_id=key)
        request = SignalWorkflow(
            namespace=state.namespace, workflow_id=event.workflow_id, signal=body, started_by=_chain(run, event.child)
        )
    else:
        request = RequestCancel(namespace=state.namespace, workflow_id=event.workflow_id, reason=event.reason, request_id=key)
    return Delivery(key=key, request=request, source=state.workflow_id, command=event.id, hears="external")


def _chain(run: RunState, child: int) -> str:
    """Request id of the start of a child that may have closed meanwhile; empty when no child is meant."""
    if not child:
        return ""
    known = (run.children or {}).get(child)
    return known.request_id if known is not None else run.message_id(child)


# ------------------------------------------------------------------------------------------------------------------- owing


def deliveries_of(state: WorkflowState, *, asking: bool = False) -> list[Delivery]:
    """Every message that must be on its way, each target's in the order they were asked for.

    `asking`, after a restart, when reports may have been lost: also how each child stands, and cancels that may not have reached it.
    """
    left = [_left(state, message) for message in (state.outgoing or {}).values()]
    run = state.run
    if run is None or run.closing is not None:
        return left
    if asking:
        left += [start_of(state, run, child) for child in (state.kin or {}).values()]
    owed: list[Delivery] = []
    for child in (run.children or {}).values():
        if asking or not child.run_id:
            owed.append(start_of(state, run, child))
        if asking and child.cancel is not None:
            owed.append(cancel_of(state, child))
    owed += [external_of(state, run, external) for external in (run.externals or {}).values()]
    owed.sort(key=lambda delivery: delivery.command)
    return left + owed


def _left(state: WorkflowState, message: Message) -> Delivery:
    """As it was when it was first sent: a reset may have made it a message of the current run again."""
    request, key = _decode(message.body["request"]), message.request_id
    hears: Any = "external"
    if isinstance(request, StartWorkflow):
        hears = "child"
    elif isinstance(request, TerminateWorkflow) or (isinstance(request, RequestCancel) and request.started_by):
        hears = "message"
    command = 0 if hears == "message" else int(key.rpartition("/")[2])
    return Delivery(key=key, request=request, source=state.workflow_id, command=command, hears=hears)


def is_wanted(state: WorkflowState, delivery: Delivery) -> bool:
    """False for the start of a child whose parent has closed or heard of it meanwhile."""
    if not delivery.is_start or (state.outgoing is not None and delivery.key in state.outgoing):
        return True
    if state.kin is not None and delivery.key in state.kin:
        return True
    run = state.run
    child = (run.children or {}).get(delivery.command) if run is not None else None
    return child is not None and child.request_id == delivery.key


# ------------------------------------------------------------------------------------------------------------------ closing


def leave_behind(
    draft: Draft, *, goes_on: bool = False, point: int = -1, kept: AbstractSet[str] = frozenset(), replaced: bool = False
) -> None:
    """The run closes with what `draft` holds: its children are told, its parent hears of it, and what it still owes goes to the outbox.

    `goes_on`: the chain does, so that neither children nor parent are concerned yet. With `point` it goes on in a run reset to that event:
    what was asked for up to there is that run's now, and children asked for behind it are taken back; 0: it is an older run of the chain
    that was reset, and all children but those it had asked for by then (`kept`, request ids of starts) are. `replaced`: the run that
    follows is of another chain, so this one's parent hears of its end.
    """
    state, run = draft.state, draft.run
    children, externals = _open_at_the_end(draft, point)
    for child in children:
        if not child.run_id and ((goes_on and point < 0) or child.event.on_parent_close == "abandon"):
            _leave(draft, start_of(state, run, child))
        if child.cancel is not None:
            _leave(draft, cancel_of(state, child))
        if point >= 0:
            _end_child(draft, child, "terminate")
    if point == 0:
        for child in (state.kin or {}).values():
            if child.request_id not in kept:
                _end_child(draft, child, "terminate")
    if not goes_on:
        for child in (*(state.kin or {}).values(), *children):
            _end_child(draft, child, child.event.on_parent_close)
        if run.started.parent is not None:
            _report(draft, run.started.parent, replaced=replaced)
    for external in externals:
        _leave(draft, external_of(state, run, external))


def _open_at_the_end(draft: Draft, point: int) -> tuple[list[ChildState], list[ExternalState]]:
    """Children and messages asked for behind `point` and without an answer, with what the draft itself asks and answers."""
    run = draft.run
    children = dict(run.children or {})
    externals = dict(run.externals or {})
    for event in draft.events:
        if isinstance(event, ev.ChildRequested):
            children[event.id] = ChildState(event=event, request_id=run.message_id(event.id))
        elif isinstance(event, ev.ChildCancelRequested):
            if event.command in children:
                children[event.command] = replace(children[event.command], cancel=event)
        elif isinstance(event, ev.ChildStarted):
            if event.command in children:
                children[event.command] = replace(children[event.command], run_id=event.run_id)
        elif isinstance(event, (ev.ExternalSignalRequested, ev.ExternalCancelRequested)):
            externals[event.id] = ExternalState(event=event, request_id=run.message_id(event.id))
        elif isinstance(event, ev.AnswerEvent):
            children.pop(event.command, None)
            externals.pop(event.command, None)
    return [child for number, child in children.items() if number > point], [
        external for number, external in externals.items() if number > point
    ]


def _end_child(draft: Draft, child: ChildState, policy: ev.OnParentClose) -> None:
    """What the close of its parent means for a child. One that was asked to stop is left to clean up."""
    if child.event.on_parent_close == "abandon" or child.cancel is not None:
        return
    state, reason = draft.state, f"its parent {draft.state.workflow_id} has closed"
    key = f"{child.request_id}:end:{draft.run.run_id}"  # a run that was closed, reset and closed again ends its children again
    if policy == "cancel":
        _leave(draft, _stop(state, child, key, reason))
        return
    request = TerminateWorkflow(
        namespace=state.namespace,
        workflow_id=child.event.workflow_id,
        reason=reason,
        request_id=key,
        started_by=child.request_id,
    )
    _leave(draft, Delivery(key=key, request=request, source=state.workflow_id, hears="message"))


def _leave(draft: Draft, delivery: Delivery) -> None:
    request = delivery.request
    body = {"request": _encode(request).decode()}
    kind = str(request.__struct_config__.tag)
    draft.leave(Message(request_id=delivery.key, workflow_id=request.workflow_id, kind=kind, body=body))
    draft.deliver(replace(delivery, asker="") if delivery.asker else delivery)


def ended(started: ev.Started, closing: object) -> RunResult:
    """How a child has ended, as its parent is told."""
    return replace(result_of(started.run_id, closing), attempts=started.attempt)


def _report(draft: Draft, parent: ev.ParentLink, *, replaced: bool) -> None:
    started = draft.run.started
    outcome = ended(started, draft.events[-1])
    if outcome.next_run_id and not replaced:
        return  # it is tried again: the parent waits for the chain
    report = ChildStands(
        namespace=draft.state.namespace,
        workflow_id=parent.workflow_id,
        command=parent.command,
        request_id=started.request_id,
        child_id=draft.state.workflow_id,
        run_id=started.first_run_id or started.run_id,
        outcome=outcome,
    )
    draft.deliver(Delivery(key=started.request_id, request=report))


# ------------------------------------------------------------------------------------------------------------------ answers


def heard(delivery: Delivery, reply: Any, failure: Failure | None) -> AnyRequest | None:
    """What the source is told of an answer (`failure`: it was refused for good); None when nobody waits for it."""
    namespace, source, key = delivery.request.namespace, delivery.source, delivery.key
    if delivery.hears == "child":
        if failure is not None:
            return ChildRefused(
                namespace=namespace, workflow_id=source, command=delivery.command, request_id=key, failure=failure
            )
        assert isinstance(reply, RunStarted)
        return ChildStands(
            namespace=namespace,
            workflow_id=source,
            command=delivery.command,
            request_id=key,
            child_id=delivery.request.workflow_id,
            run_id=reply.run_id,
            outcome=reply.outcome,
        )
    if delivery.hears == "external":
        return ExternalAnswered(
            namespace=namespace, workflow_id=source, command=delivery.command, request_id=key, failure=failure
        )
    if delivery.hears == "message":
        return MessagesDelivered(namespace=namespace, workflow_id=source, request_ids=(key,))
    return None


def delivered(state: WorkflowState, request: MessagesDelivered, now: int) -> Decided:
    return settled(state, now, messages=request.request_ids)


def settle(draft: Draft, key: str) -> None:
    """A message that is answered now may also be owed by a run before, from which the current one was reset."""
    if draft.state.outgoing is not None and key in draft.state.outgoing:
        draft.note(Delivered(id=draft.next_note, time=draft.time, after=draft.length, messages=(key,)))


def settled(state: WorkflowState, now: int, *, messages: tuple[str, ...], children: tuple[str, ...] = ()) -> Decided:
    """Note which of these are owed no more; the others never were, or were noted before."""
    run = state.run
    if run is not None and run.closing is not None:
        children = ()  # the chain has closed: it has told them
    done = tuple(key for key in messages if state.outgoing is not None and key in state.outgoing)
    gone = tuple(key for key in children if state.kin is not None and key in state.kin)
    if run is None or not (done or gone):
        return only(Taken(duplicate=True))
    draft = Draft(state, run, now)
    draft.note(Delivered(id=draft.next_note, time=draft.time, after=draft.length, messages=done, children=gone))
    return draft.outcome(Taken(run_id=run.run_id))
