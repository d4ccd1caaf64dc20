"""Replaying a whole history, as `perdure replay`, tests and queries do: once through the code, nothing new asked for, same end."""

from collections.abc import Sequence
from typing import Any

from perdure.core import events as ev
from perdure.core.state import is_closing
from perdure.replay.mismatch import Mismatch, in_words
from perdure.replay.runner import Definition, Runner, check_closed
from perdure.sdk.encoding import is_encoded


def replay_history(
    definition: Definition,
    events: Sequence[Any],
    *,
    namespace: str = "default",
    workflow_id: str = "",
    strict: bool = False,
    covered: int | None = None,
    one_at_a_time: bool = False,
) -> Runner:
    """Run `events` (from number 1, open or closed) through the code and return the runner, warm.

    Raises `Mismatch` or `OldBuild` where the code does not reproduce them; `strict` compares payload bytes too (for the very same
    build). `covered` is the last event an accepted decision has seen, notes included; left out, it is read off the commands recorded.
    With `one_at_a_time` the events come one by one, as to a warm runner: the outcome must be the same.
    """
    if not events or not isinstance(events[0], ev.Started):
        raise Mismatch("a history begins with a started event")
    if is_encoded(events[0].encoded):
        raise Mismatch("the history is encoded, and only whoever has the codec can read it: see perdure.codecs.decoded")
    closing = events[-1] if is_closing(events[-1]) else None
    body = list(events[:-1]) if closing is not None else list(events)
    if closing is not None and isinstance(closing, ev.ClosingEvent) and closing.at:
        body = [event for event in body if not ev.is_input(event) or event.id <= closing.based_on]
    if covered is None:
        covered = max((event.based_on for event in events if isinstance(event, ev.CommandEvent)), default=0)
    if closing is not None:
        covered = len(events)
    runner = Runner(definition, namespace, workflow_id, events[0], strict=strict)
    try:
        _feed(runner, body, covered, one_at_a_time)
        if closing is not None:
            _check_end(runner, closing)
    except BaseException:
        runner.close()
        raise
    return runner


def _feed(runner: Runner, body: list[Any], covered: int, one_at_a_time: bool) -> None:
    if not one_at_a_time:
        runner.advance(body, covered)
        return
    # Commands come before the input they were asked at, as far as a warm runner could have known them: all recorded so far.
    commands = [event for event in body if not ev.is_input(event)]
    runner.advance(commands, covered)
    runner.length = 0
    for event in body:
        if ev.is_input(event):
            runner.advance([event], covered)
    runner.length = body[-1].id


def _check_end(runner: Runner, closing: Any) -> None:
    check_closed(runner, closing)
    new = runner.take()
    if new and isinstance(closing, ev.ClosingEvent) and closing.at:
        raise Mismatch("the code asks for more than the closed history holds", found=in_words(new[0]))
