"""The laws a machine's step can be held against on the spot: `fold`, `same`, `final`, `woken`, and what every history looks like.

Each function raises `BrokenLawError` with the law's name first. They read; they never change what they are shown.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from perdure.core.events import (
    AnswerEvent,
    AnyEvent,
    ChildClosed,
    ChildStarted,
    ClosingEvent,
    CommandEvent,
    Started,
    UpdateAccepted,
    UpdateCompleted,
    UpdateFailed,
)
from perdure.core.machine.activities import RELEASE_PAUSE
from perdure.core.machine.messages import deliveries_of
from perdure.core.machine.outcome import Waker
from perdure.core.machine.wakes import tasks_of, wakes_of
from perdure.core.requests import ActivityDue
from perdure.core.state import ActivityState, RunState, WorkflowState, is_closing
from perdure.core.tasks import Task
from perdure.core.transition import RunChange

Key: TypeAlias = tuple[Any, ...]

_encode = msgspec.json.Encoder().encode


class BrokenLawError(AssertionError):
    """A law of the machine does not hold; the message begins with its name."""


def must(law: str, holds: bool, what: str) -> None:
    if not holds:
        raise BrokenLawError(f"{law}: {what}")


def image(value: object) -> bytes:
    """A value as bytes, for telling whether two are the same."""
    return _encode(value)


# ------------------------------------------------------------------------------------------------------------------- fold


def durable(state: WorkflowState) -> bytes:
    """What of a state is written: volatile fields put back to what they are after a restart."""
    run = state.run
    if run is None:
        return image(state)
    kept = msgspec.structs.replace(
        run,
        activities={number: _durable_activity(activity) for number, activity in run.activities.items()},
        claim=None,
        close_refusals=0,
        delayed_until=0,
        seen=0,
        awaits_unnoted=None,
        sticky="",
        unnoted=[],
    )
    return image(msgspec.structs.replace(state, run=kept))


def _durable_activity(activity: ActivityState) -> ActivityState:
    return msgspec.structs.replace(
        activity,
        claim=activity.claim if activity.claim_noted else None,
        beat_at=0,
        alive_at=0,
        spared_until=0,
        beat_details=msgspec.Raw(b""),
        lives_for=0,
    )


# ---------------------------------------------------------------------------------------------------- histories, `final`


def check_change(history: Sequence[AnyEvent], notes: int, change: RunChange) -> None:
    """What is about to be appended fits: numbers, times, references, one end and nothing after it."""
    known = list(history)
    for event in change.events:
        check_event(known, event)
        known.append(event)
    for number, note in enumerate(change.notes, notes + 1):
        must("numbered", note.id == number, f"note {note.id} where {number} is next in {change.run_id}")


def check_event(history: Sequence[AnyEvent], event: AnyEvent) -> None:
    last = history[-1] if history else None
    must("numbered", event.id == len(history) + 1, f"event {event.id} after {len(history)}")
    must("final", last is None or not is_closing(last), f"{event.type} after the run has ended")
    must("timed", last is None or event.time >= last.time, f"event {event.id} is earlier than the one before")
    must("started", isinstance(event, Started) == (event.id == 1), f"{event.type} is event {event.id}")
    if isinstance(event, CommandEvent):
        _check_command(history, event)
    elif isinstance(event, AnswerEvent):
        _check_answer(history, event)


def _check_command(history: Sequence[AnyEvent], event: CommandEvent) -> None:
    must("based", event.at <= event.based_on < event.id, f"event {event.id}: at {event.at}, based on {event.based_on}")
    before = max((e.based_on for e in history if isinstance(e, CommandEvent)), default=0)
    must("based", event.based_on >= before, f"event {event.id} is based on {event.based_on}, one before it on {before}")
    if isinstance(event, (UpdateCompleted, UpdateFailed)):
        asked = history[event.command - 1] if 0 < event.command <= len(history) else None
        must("answered", isinstance(asked, UpdateAccepted), f"event {event.id} ends {event.command}, which is no update")
        must("answered", getattr(asked, "update_id", "") == event.update_id, f"event {event.id} ends another update")
        ends = [e.id for e in history if isinstance(e, (UpdateCompleted, UpdateFailed)) and e.command == event.command]
        must("answered", not ends, f"event {event.id} ends update {event.command} once more, after {ends}")
    made_by_code = not isinstance(event, ClosingEvent) or event.at > 0
    must("based", not made_by_code or event.at >= 1, f"event {event.id} was asked for at no input")


def _check_answer(history: Sequence[AnyEvent], event: AnswerEvent) -> None:
    asked = history[event.command - 1] if 0 < event.command <= len(history) else None
    must("answered", isinstance(asked, CommandEvent), f"event {event.id} answers {event.command}, which asked for nothing")
    answers = [e.id for e in history if isinstance(e, AnswerEvent) and e.command == event.command]
    if isinstance(event, ChildClosed):  # the one answer that comes behind another
        answers = [number for number in answers if not isinstance(history[number - 1], ChildStarted)]
    must("answered", not answers, f"event {event.id} answers {event.command} once more, after {answers}")


# ------------------------------------------------------------------------------------------------------------------ woken


def key_of(target: Any) -> Key:
    """What a wake or task is about, without what may differ between two that serve the same end."""
    if isinstance(target, Task):
        return ("task", target.run_id, target.command, target.attempt)
    if isinstance(target, ActivityDue):
        attempt = 0 if target.kind == "schedule_to_close" else target.attempt
        return ("activity_due", target.run_id, target.command, attempt, target.kind, target.token)
    return (type(target).__name__, target.run_id, getattr(target, "command", 0), getattr(target, "token", ""))


def check_woken(state: WorkflowState, now: int, published: Iterable[Key], wakes: Iterable[Waker]) -> None:
    """Whatever waits has something announced that will bring it forward.

    A workflow task is not announced: the owner reads `wants_decision` off the state after every step.
    """
    sent = set(published)
    announced: dict[Key, int] = {}
    for instant, target in wakes:
        key = key_of(target)
        announced[key] = min(instant, announced.get(key, instant))
    for task in tasks_of(state, now):
        key = key_of(task)
        must("woken", not task.command or key in sent or key in announced, f"nobody was told of {key}")
    for instant, target in wakes_of(state):
        key = key_of(target)
        # A task that was due already and was given back is offered again after a pause.
        latest = max(instant, now + RELEASE_PAUSE) if isinstance(target, Task) else instant
        on_time = announced.get(key, latest + 1) <= latest
        must("woken", on_time or key in sent, f"nothing brings {key} at {instant}; announced: {announced.get(key)}")
    for delivery in deliveries_of(state):
        must("woken", ("delivery", delivery.name) in sent, f"nobody was told to deliver {delivery.key}")
    check_waiting(state.run)


def check_waiting(run: RunState | None) -> None:
    """Somebody is at every activity, or may be; and what is only remembered will be written."""
    for number, activity in (run.activities if run is not None else {}).items():
        must("woken", activity.claim is not None or not activity.cancel_requested, f"activity {number} waits for no one")
        must(
            "woken",
            activity.claim is None or activity.claim_noted or run is None or number in run.unnoted,
            f"the claim of activity {number} will never be written",
        )
