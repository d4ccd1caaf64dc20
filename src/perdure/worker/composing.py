"""Putting a report together: what the code asked for, and results fed to it at once, numbered and timed as they will be recorded."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from perdure.core.commands import ClosingCommand, ScheduleActivity
from perdure.core.events import ActivityCompleted
from perdure.core.requests import ActivitySucceeded, Commands, RefusedUpdate, SetAside, Step
from perdure.replay.mismatch import Mismatch, OldBuild, Stale
from perdure.replay.watchdog import WatchedThread
from perdure.worker.attempts import Fact
from perdure.worker.sessions import Session


class Composition(Struct):
    """A report's body. `scheduled` counts the activities it asks for, `commands` everything; `left` are facts that must wait for the next report."""

    based_on: int
    decided: int
    steps: list[Step]
    closing: ClosingCommand | None = None
    scheduled: int = 0
    commands: int = 0
    left: list[Fact] = []
    set_aside: tuple[SetAside, ...] = ()
    """Signals that did not fit their handlers."""
    refused: tuple[RefusedUpdate, ...] = ()
    """Updates the code did not accept."""
    awaits: tuple[str, ...] = ()
    """What the code waits for that no command says."""


def compose(
    session: Session, token: str, facts: Sequence[Fact], now: Callable[[], int], watched: WatchedThread, *, fuse: bool
) -> Composition | None:
    """The report a session makes now; None when feeding a result showed that the code cannot go on.

    Without `token` there is no right to decide before the first fact. Failed attempts are never fed, and cut what stands behind them:
    they come last, or in the next report when something else must not be cut.
    """
    runner = session.runner
    body = Composition(runner.length, runner.decided, [])
    commands = runner.take()
    if token:
        body.steps.append(Commands(commands=commands))
        if runner.context.set_aside is not None:
            body.set_aside, runner.context.set_aside = tuple(runner.context.set_aside), None
        if session.refused is not None:
            body.refused, session.refused = tuple(session.refused), None
    if runner.spoiled:
        body.left, facts = list(facts), ()
    body.scheduled = _count_scheduled(commands)
    body.commands = len(commands)
    succeeded = [fact for fact in facts if isinstance(fact, ActivitySucceeded)]
    number = body.based_on + len(commands)
    for fact in succeeded:
        if runner.over or session.unfused_next or not fuse:
            session.unfused_next = False
            body.steps.append(fact)
            continue
        fed = _feed(session, fact, number + 1, max(now(), runner.context.time), watched)
        if fed is None:
            return None
        body.steps += fed
        number += 1 + len(fed[1].commands)
        body.commands += len(fed[1].commands)
        body.scheduled += _count_scheduled(fed[1].commands)
    body.closing = runner.ending
    body.awaits = runner.context.awaits()
    if body.left:
        return body
    erred = [fact for fact in facts if not isinstance(fact, ActivitySucceeded)]
    if (succeeded and erred) or body.closing is not None:
        body.left = [*erred]
    else:
        body.steps += erred
    return body


def _feed(
    session: Session, fact: ActivitySucceeded, number: int, time: int, watched: WatchedThread
) -> tuple[ActivitySucceeded, Commands] | None:
    runner = session.runner
    watched.begin(session.workflow_id)
    try:
        runner.feed_fact(
            ActivityCompleted(id=number, time=time, command=fact.command, result=fact.result, attempt=fact.attempt)
        )
    except (Mismatch, OldBuild, Stale):
        return None
    finally:
        watched.end()
    told = ActivitySucceeded(command=fact.command, attempt=fact.attempt, token=fact.token, result=fact.result, fed_at=time)
    return told, Commands(commands=runner.take())


def _count_scheduled(commands: tuple[Any, ...]) -> int:
    count = 0
    for command in commands:
        if type(command) is ScheduleActivity:
            count += 1
    return count
