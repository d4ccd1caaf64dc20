"""Why a test's wait comes to nothing: what every open run waits for, in words, and activities that only ever fail.

Reads the engine's state and the worker's registry; changes neither.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from perdure.core.description import Description, Pending, describe
from perdure.core.state import ActivityState, RunState
from perdure.engine.live import LiveWorkflow
from perdure.sdk.duration import aware
from perdure.sdk.registry import Registry

LOOKS: Final = 10
"""So many times at least are activities counted before one has failed as often as it may."""


class StuckError(AssertionError):
    """Nothing will ever happen any more, or something does not come to rest; the message says what every open run waits for."""


class FailingActivities:
    """Finds an activity that failed more than `attempts_max` attempts since `begin`: retries would move the clock for ever."""

    def __init__(self, attempts_max: int) -> None:
        self._attempts_max = attempts_max
        self._every = max(1, attempts_max // LOOKS)
        self._until_look = 0
        self._before: dict[tuple[str, int], int] | None = None

    def begin(self) -> None:
        """A wait begins: what failed before its first move of the clock does not count."""
        self._before = None
        self._until_look = 0

    def check(self, workflows: Iterable[LiveWorkflow]) -> None:
        """To be called before every move of the clock. Raises `StuckError`, at the latest a tenth and one over the bound."""
        self._until_look -= 1
        if self._until_look > 0:
            return
        self._until_look = self._every
        failing = {
            (run.run_id, command): (run, activity)
            for live in workflows
            if (run := live.state.run) is not None
            for command, activity in run.activities.items()
            if activity.attempts_failed
        }
        if self._before is None:
            self._before = {key: activity.attempts_failed for key, (_, activity) in failing.items()}
        for key, (run, activity) in failing.items():
            if activity.attempts_failed - self._before.get(key, 0) > self._attempts_max:
                raise StuckError(self._always(run, activity))

    def _always(self, run: RunState, activity: ActivityState) -> str:
        failure = activity.last_failure
        last = f"{failure.type}: {failure.message}" if failure is not None else "unknown"
        return (
            f"activity {activity.event.name!r} of a {run.started.workflow_type!r} run has failed {activity.attempts_failed} "
            f"attempts, the last with {last}; bound it with Retry(max_attempts=…) or schedule_to_close=…, "
            f"or allow more with environment(attempts_max=…), now {self._attempts_max}"
        )


class Explainer:
    """Says what runs wait for, with what the test's own worker knows and serves."""

    def __init__(self, registry: Registry, queues: Sequence[str]) -> None:
        self._registry = registry
        self._queues = tuple(queues)

    def explained(self, error: StuckError, now: datetime, now_us: int, workflows: Iterable[LiveWorkflow]) -> StuckError:
        """The error with every open run below it."""
        runs = [
            f"  {self._in_words(live.state.run, describe(live.state, live.state.run, now_us), live.history)}"
            for live in workflows
            if live.state.run is not None
        ]
        return StuckError("\n".join([str(error), f"at {now.isoformat()}, open runs:", *(runs or ["  none"])]))

    def _in_words(self, run: RunState, told: Description, history: "list[Any] | None") -> str:
        waits = "; ".join(self._item(run, item) for item in told.pending) or "a signal (it has no timer and no activity)"
        received = [event for event in history or () if event.type == "signal_received"]
        signals = f", signals so far: {len(received)}" if received else ""
        return f"{told.workflow_id} ({told.type}, {told.status}) waits for {waits}{signals}"

    def _item(self, run: RunState, item: Pending) -> str:
        if item.state.startswith("waiting for a worker") and (missing := self._missing(run, item)):
            return missing
        name = f"or a build other than {item.name}" if item.kind == "resume" and item.name else item.name
        until = f"until {aware(item.until).isoformat()}" if item.until else ""
        failure = f"after {item.failure.type}: {item.failure.message}" if item.failure is not None else ""
        return " ".join(part for part in (item.kind, name, item.summary, item.state, until, failure) if part)

    def _missing(self, run: RunState, item: Pending) -> str:
        """What this test has to do so that its worker takes it; empty when it could."""
        if item.kind == "activity":
            queue = run.activities[item.command].event.queue or run.started.queue
            what, name, known = "activity", item.name, item.name in self._registry.activities
        else:
            queue = run.started.queue
            what, name, known = (
                "workflow type",
                run.started.workflow_type,
                run.started.workflow_type in self._registry.workflows,
            )
        if queue not in self._queues:
            queues = ", ".join(map(repr, (*self._queues, queue)))
            return f"a worker on queue {queue!r} for {what} {name!r}: environment(queues=[{queues}])"
        return "" if known else f"a worker that knows {what} {name!r}: env.register({name})"
