"""A toy workflow as a pure function of its inputs, and a toy runner that replays it: small enough to search millions of lives of it.

The workflow races activities, signals and a timer, fans out, handles signals, takes others from a line, cancels activities, cleans up
when cancelled, takes updates, continues as new, and has a second build with guarded changes. Its commands depend on the time of what it is fed, so that
a history whose times differ from what a worker saw does not replay.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from msgspec import Raw, Struct
from msgspec.structs import replace

from perdure.core import commands as cm
from perdure.core import events as ev
from perdure.core.failure import Failure
from perdure.testing.machine.sole_owner import text
from perdure.testing.machine.toy_updates import ToyUpdates

GENERATIONS_MAX: Final = 3
"""So many runs a chain has at most; the last one completes instead of continuing."""


class Plan(Struct, frozen=True, kw_only=True):
    """What one life's workflow does."""

    limit: int = 3
    """Inputs after which main ends."""
    activities: int = 2
    fan: int = 1
    continues: bool = False
    receives: bool = False
    """Main takes `raw` signals from their line once a `sig` has won the race."""


class MismatchError(Exception):
    """The code does not reproduce the history. Never right in a life: its builds are compatible."""


class OldBuildError(Exception):
    """The history holds a version marker this build does not know."""

    def __init__(self, change_id: str) -> None:
        super().__init__(change_id)
        self.change_id = change_id


class StaleError(Exception):
    """Others decided what this runner was still holding."""


class LifeRunner(Protocol):
    """What a life needs of a runner. `covered` of `advance` is the last event an accepted decision has seen."""

    length: int
    decided: int
    time: int
    ending: cm.ClosingCommand | None
    handled: list[str]
    """Ids of signals taken by code, in order."""
    cancels: int
    """Cancel requests code has seen."""
    paths: dict[str, bool]
    """By change id: the new path was taken."""

    @property
    def taken(self) -> list[str]:
        """Ids of the updates whose handlers have begun, in order."""
        ...

    def offer(self, update: ev.UpdateBody, now: int) -> Failure | None: ...

    def advance(self, events: Sequence[Any], covered: int) -> None: ...
    def feed_fact(self, event: ev.ActivityCompleted) -> None: ...
    def take(self) -> tuple[cm.AnyCommand, ...]: ...
    def untaken(self) -> tuple[ev.SignalReceived, ...]: ...
    def close(self) -> None: ...


MakeRunner = Callable[[int, Plan, ev.Started], LifeRunner]
"""(build, plan, started) → a cold runner. Build 2 guards its changes with version markers."""


class _Asked:
    __slots__ = ("command", "number", "target")

    def __init__(self, command: Any, target: "_Asked | None" = None) -> None:
        self.command = command
        self.target = target
        self.number = 0


_KINDS: Final[dict[type, type]] = {
    cm.ScheduleActivity: ev.ActivityScheduled,
    cm.CancelActivity: ev.ActivityCancelRequested,
    cm.StartTimer: ev.TimerStarted,
    cm.CancelTimer: ev.TimerCancelled,
    cm.MarkVersion: ev.VersionMarked,
    cm.RecordSideEffect: ev.SideEffectRecorded,
    cm.AcceptUpdate: ev.UpdateAccepted,
    cm.CompleteUpdate: ev.UpdateCompleted,
    cm.FailUpdate: ev.UpdateFailed,
}


class ToyRunner:
    """Holds one run of the toy warm."""

    def __init__(self, build: int, plan: Plan, started: ev.Started) -> None:
        self.build = build
        self.plan = plan
        self.length = self.decided = self.covered = self.time = self.fed = self.at = 0
        self.ending: cm.ClosingCommand | None = None
        self.handled: list[str] = []
        self.cancels = 0
        self.paths: dict[str, bool] = {}
        self.news = False
        """What is being run belongs to no accepted decision."""
        self.updates = ToyUpdates(self)
        self.generation = int(bytes(started.input[0])) if started.input else 1
        self._expected: deque[Any] = deque()
        self._new: deque[_Asked] = deque()
        self._sent = 0
        self._line: list[ev.SignalReceived] = []
        self._open: list[_Asked] = []
        self._timer: _Asked | None = None
        self._scheduled = self._inputs = 0
        self._winner = ""

    # ------------------------------------------------------------------------------------------------------- protocol

    def advance(self, events: Sequence[Any], covered: int) -> None:
        """Take over what follows `length`: first the commands recorded, then the inputs in order."""
        self.covered = max(self.covered, covered)
        fresh = [event for event in events if event.id > self.length]
        for event in fresh:
            if isinstance(event, ev.CommandEvent):
                self.decided = max(self.decided, event.based_on)
                self._record(event)
        if fresh:
            self.length = fresh[-1].id
        self._take_up()
        for event in fresh:
            if event.id > self.fed and not isinstance(event, ev.CommandEvent):
                self.feed(event)

    def feed_fact(self, event: ev.ActivityCompleted) -> None:
        self.feed(event)

    def feed(self, event: Any) -> None:
        """Feed one input, unless the code has continued as new."""
        if isinstance(self.ending, cm.ContinueAsNew):
            return
        self.fed = self.at = event.id
        self.time = max(self.time, event.time)
        self.news = self.at > self.covered
        self._run(event)
        self._take_up()
        if self._expected and self._expected[0].at <= self.at:
            self._differ(self._expected[0], "nothing")

    def _take_up(self) -> None:
        """Run the updates that were accepted at the input fed last."""
        while self._expected and isinstance(self._expected[0], ev.UpdateAccepted) and self._expected[0].at <= self.at:
            if self._expected[0].at < self.at:
                raise StaleError("an update was taken before an input that was fed here")
            self.updates.take_up(self._expected.popleft())
            self._end_if_enough()

    def offer(self, update: ev.UpdateBody, now: int) -> Failure | None:
        refused = self.updates.offer(update, now)
        self._end_if_enough()
        return refused

    @property
    def taken(self) -> list[str]:
        return self.updates.taken

    def recorded(self, event: ev.UpdateAccepted) -> _Asked:
        """A recorded acceptance, as what the update's end refers to."""
        asked = _Asked(event)
        asked.number = event.id
        return asked

    def take(self) -> tuple[cm.AnyCommand, ...]:
        places = {id(asked): place for place, asked in enumerate(self._new, 1)}
        fresh = list(self._new)[self._sent :]
        self._sent = len(self._new)
        return tuple(
            asked.command
            if asked.target is None
            else replace(asked.command, target=asked.target.number or -places[id(asked.target)])
            for asked in fresh
        )

    def untaken(self) -> tuple[ev.SignalReceived, ...]:
        return tuple(self._line)

    def close(self) -> None:
        pass

    # ------------------------------------------------------------------------------------------------------- commands

    def _record(self, event: Any) -> None:
        if not self._new:
            self._expected.append(event)
            return
        asked = self._new.popleft()
        self._sent = max(0, self._sent - 1)
        try:
            self._match(event, asked)
        except (MismatchError, OldBuildError) as other:
            raise StaleError(str(other)) from None

    def ask(self, command: Any, target: _Asked | None = None) -> _Asked:
        asked = _Asked(command, target)
        if self._expected:
            self._match(self._expected.popleft(), asked)
        else:
            self._new.append(asked)
        return asked

    def _match(self, event: Any, asked: _Asked) -> None:
        command = asked.command
        same = event.at == command.at and _KINDS[type(command)] is type(event)
        if same and isinstance(command, cm.RecordSideEffect):
            same = bytes(command.result) == bytes(event.result)
        if same and isinstance(command, (cm.ScheduleActivity, cm.MarkVersion)):
            named = (
                (command.name, event.name) if isinstance(command, cm.ScheduleActivity) else (command.change_id, event.change_id)
            )
            same = named[0] == named[1]
        if same and isinstance(command, (cm.AcceptUpdate, cm.CompleteUpdate, cm.FailUpdate)):
            same = command.update_id == event.update_id and getattr(command, "fed_at", 0) == getattr(event, "fed_at", 0)
        if same and asked.target is not None:
            same = event.command == asked.target.number
        if not same:
            self._differ(event, str(command))
        asked.number = event.id

    def _differ(self, event: Any, found: str) -> None:
        if isinstance(event, ev.VersionMarked):
            raise OldBuildError(event.change_id)
        raise MismatchError(f"recorded {event}, asked for {found} at {self.at}")

    def effect(self, what: str) -> None:
        self.ask(cm.RecordSideEffect(at=self.at, result=text(what)))

    def patched(self, change_id: str) -> bool:
        """The rule of versions: decided once, at the first call."""
        if self.build == 1:
            return False
        taken = self.paths.get(change_id)
        if taken is None:
            following = self._expected[0] if self._expected else None
            if isinstance(following, ev.VersionMarked) and (following.at, following.change_id) == (self.at, change_id):
                taken = True
            else:
                taken = self.is_news(following)
            self.paths[change_id] = taken
            if taken:
                self.ask(cm.MarkVersion(at=self.at, change_id=change_id, version=1))
        return taken

    def is_news(self, following: Any) -> bool:
        """Nothing recorded is left to match, and no accepted decision has seen what is being run: the input, or the update."""
        return following is None and self.news

    # ------------------------------------------------------------------------------------------------------- the code

    def _run(self, event: Any) -> None:
        if isinstance(event, ev.AnswerEvent):
            self.updates.go_on()
        if isinstance(event, ev.SignalReceived):
            if event.name == "sig":
                self._handle(event)
            else:
                self._line.append(event)
        if self.ending is None:
            self._main(event)
        elif isinstance(event, ev.AnswerEvent):
            self._answered(event)

    def _handle(self, signal: ev.SignalReceived) -> None:
        self.handled.append(signal.signal_id)
        if self.patched("handler"):
            self.effect(f"new:{signal.signal_id}")
        elif len(signal.signal_id) % 2:
            self.effect(f"old:{signal.signal_id}")

    def _answered(self, event: ev.AnswerEvent) -> None:
        self._open = [asked for asked in self._open if asked.number != event.command]
        if self._timer is not None and self._timer.number == event.command:
            self._timer = None

    def _main(self, event: Any) -> None:
        match event:
            case ev.CancelRequested():
                self._cancelled()
                return
            case ev.Started():
                if self.patched("start"):
                    self.effect("extra")
                for _ in range(self.plan.fan):
                    self._schedule()
            case ev.AnswerEvent():
                self._answered(event)
                self.count("result" if isinstance(event, ev.ActivityCompleted) else "other")
                self.effect(f"stamp:{self.time}")
                if isinstance(event, ev.ActivityCompleted) and self._scheduled < self.plan.activities:
                    self._schedule()
            case ev.SignalReceived(name="sig"):
                self.count("signal")
                self._toggle(event)
            case _:
                pass
        if self._line and self._winner == "signal" and self.plan.receives:
            self.handled.append(self._line.pop(0).signal_id)
        self._end_if_enough()

    def _end_if_enough(self) -> None:
        if self.ending is None and self._inputs >= self.plan.limit:
            self._end()

    def count(self, kind: str) -> None:
        self._inputs += 1
        if not self._winner:
            self._winner = kind
            self.effect(f"won:{kind}")

    def _schedule(self) -> None:
        self._open.append(self.ask(cm.ScheduleActivity(at=self.at, name=f"step{self._scheduled % 2}")))
        self._scheduled += 1

    def _toggle(self, signal: ev.SignalReceived) -> None:
        if self._timer is None:
            self._timer = self.ask(cm.StartTimer(at=self.at, delay=3))
        else:
            self.ask(cm.CancelTimer(at=self.at, target=0), self._timer)
            self._timer = None
        if int(signal.signal_id[1:]) % 3 == 0 and self._open:
            self.ask(cm.CancelActivity(at=self.at, target=0), self._open.pop(0))
            self.effect("gave up")

    def _cancelled(self) -> None:
        self.cancels += 1
        self.effect("cleanup")
        for asked in self._open:
            self.ask(cm.CancelActivity(at=self.at, target=0), asked)
        self.ending = cm.CancelWorkflow(at=self.at)

    def _end(self) -> None:
        if self.plan.continues and self.generation < GENERATIONS_MAX:
            untaken = tuple(signal.id for signal in self._line)
            following = Raw(b"%d" % (self.generation + 1))
            self.ending = cm.ContinueAsNew(at=self.at, input=(following,), untaken=untaken)
        else:
            self.ending = cm.CompleteWorkflow(at=self.at, result=text(f"{self._winner} at {self.time}"))
