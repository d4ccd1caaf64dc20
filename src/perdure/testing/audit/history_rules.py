"""What must be true of every history by itself, whatever its workflow does."""

from collections import Counter
from collections.abc import Iterator, Mapping

from perdure.testing.audit.books import ANSWERS, CLOSING, Run
from perdure.testing.audit.verdict import Violation


def check_histories(histories: Mapping[str, list[Run]]) -> Iterator[Violation]:
    """Numbering, time, closing, answers and signals of every run; one chain of runs per workflow id."""
    for workflow_id, runs in histories.items():
        chains = sum(run.begins_chain for run in runs)
        if chains != 1:
            yield Violation(workflow_id, f"was started {chains} times")
        for run in runs:
            for text in (*_numbering(run), *_times(run), *_closing(run), *_answers(run)):
                yield Violation(workflow_id, text)
        for text in _signals(runs):
            yield Violation(workflow_id, text)


def _numbering(run: Run) -> Iterator[str]:
    for expected, event in enumerate(run.events, 1):
        if event["id"] != expected:
            yield f"event {expected} of its history is numbered {event['id']}"
            return
    if not run.events or run.events[0]["type"] != "started":
        yield "its history does not begin with `started`"


def _times(run: Run) -> Iterator[str]:
    for before, after in zip(run.events, run.events[1:], strict=False):
        if after["time"] < before["time"]:
            yield f"time falls from event {before['id']} to event {after['id']}"


def _closing(run: Run) -> Iterator[str]:
    closing = [place for place, event in enumerate(run.events, 1) if event["type"] in CLOSING]
    if len(closing) > 1:
        yield f"its history closes {len(closing)} times"
    elif closing and closing[0] != len(run.events):
        yield f"{len(run.events) - closing[0]} events follow the closing one"


def _answers(run: Run) -> Iterator[str]:
    scheduled = {event["id"] for event in run.activities()}
    answered = Counter(event["command"] for event in run.events if event["type"] in ANSWERS)
    for command, times in answered.items():
        if command not in scheduled:
            yield f"event {command} is answered but is no activity"
        elif times > 1:
            yield f"the activity of event {command} is answered {times} times"


def _signals(runs: list[Run]) -> Iterator[str]:
    """A sender's id is delivered once per workflow id, however often it was sent; a successor's copy of it does not count."""
    received = Counter(
        event["signal_id"]
        for run in runs
        for event in run.events
        if event["type"] == "signal_received" and event.get("signal_id") and not event.get("carried_from")
    )
    for signal_id, times in received.items():
        if times > 1:
            yield f"signal {signal_id} was delivered {times} times"
