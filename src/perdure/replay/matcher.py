"""Commands as workflow code asks for them, held against those its history has recorded.

The k-th command asked for must match the k-th recorded one in `at`, kind, name and target; beyond the recorded ones they are new. A
start and its cancel within one input's run to idle cancel out before anything is compared. Payload bytes are compared only when strict.
"""

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

from msgspec.structs import replace

from perdure.core import commands as cm
from perdure.core import events as ev
from perdure.replay.mismatch import Mismatch, OldBuild, Stale, in_words

_NOTHING: Final[deque[Any]] = deque(maxlen=0)
"""Stands for "none" in every run: an empty deque of its own costs a parked run more than half a kilobyte. It takes nothing in."""


class Asked:
    """One command asked for. `event_id` is its number once recorded, `waiter` what its answers wake, `target` what it cancels."""

    __slots__ = ("command", "event_id", "posted", "target", "waiter", "withdrawn")

    def __init__(self, command: Any, waiter: Any = None, target: "Asked | None" = None) -> None:
        self.command = command
        self.waiter = waiter
        self.target = target
        self.event_id = 0
        self.withdrawn = False
        self.posted = False
        """It has passed the end of its input: it can no longer be withdrawn."""


class Matcher:
    """Matches one run's commands. `waiters` maps event numbers of open commands to what was asked."""

    __slots__ = ("_ahead", "asked", "expected", "new", "sent", "strict", "waiters")

    def __init__(self, *, strict: bool = False) -> None:
        self.asked: list[Asked] = []
        """Of the input being fed, in order, not yet compared."""
        self.expected: deque[Any] = _NOTHING
        """Recorded, not yet asked for."""
        self.new: deque[Asked] = _NOTHING
        """Asked for, not yet recorded; the first `sent` of them are under way in a report."""
        self.sent = 0
        self.waiters: dict[int, Asked] = {}
        self.strict = strict
        self._ahead: _Ahead | None = None
        """What the history holds of this input, once its code has looked ahead."""

    def ask(self, command: Any, waiter: Any = None, target: Asked | None = None) -> Asked:
        """Workflow code asks for `command`."""
        asked = Asked(command, waiter, target)
        self.asked.append(asked)
        return asked

    def withdraw(self, asked: Asked) -> bool:
        """Take a command back within the input that asked for it. False when that is over: it must then be cancelled."""
        if asked.posted:
            return False
        asked.withdrawn = True
        return True

    def settle(self, at: int) -> ev.UpdateAccepted | None:
        """The input has run to idle: compare what was asked for; what `at` still expects was not asked for at all.

        But for an update: one that was accepted at `at` is due now, and given out.
        """
        expected = self.expected
        self._ahead = None
        if self.asked:
            for asked in self.asked:
                if asked.withdrawn:
                    continue
                asked.posted = True
                if expected:
                    self._match(expected.popleft(), asked)
                elif self.new:
                    self.new.append(asked)
                else:
                    self.new = deque((asked,))
            self.asked.clear()
        if expected and expected[0].at <= at:
            first = expected[0]
            if type(first) is ev.UpdateAccepted and first.at == at:
                expected.popleft()
                return first
            if type(first) is ev.VersionMarked:
                raise OldBuild(first.change_id)
            raise Mismatch("the history holds a command the code did not ask for", expected=in_words(first))
        return None

    def due(self, at: int) -> ev.UpdateAccepted | None:
        """The update that was accepted at `at`, the input that was fed last; given out once.

        One that was accepted at an input before it would have run before it: whoever has fed that is `Stale`.
        """
        first = self.expected[0]
        if type(first) is not ev.UpdateAccepted or first.at > at:
            return None
        if first.at < at:
            raise Stale("an update was accepted before an input that was fed here")
        return self.expected.popleft()  # type: ignore[no-any-return]

    def holds_update(self, update_id: str) -> bool:
        """The acceptance of that update was asked for and is not recorded yet."""
        return any(type(asked.command) is cm.AcceptUpdate and asked.command.update_id == update_id for asked in self.new)

    def taken(self, accepted: ev.UpdateAccepted) -> Asked:
        """An update that was given out, as what its end refers to."""
        asked = Asked(accepted)
        asked.event_id = accepted.id
        asked.posted = True
        return asked

    def record(self, event: Any) -> None:
        """A recorded command arrives: the answer to one of ours, or one to expect."""
        if not self.new:
            if self.expected:
                self.expected.append(event)
            else:
                self.expected = deque((event,))
            return
        asked = self.new.popleft()
        if self.sent:
            self.sent -= 1
        try:
            self._match(event, asked)
        except (Mismatch, OldBuild) as other:
            raise Stale(str(other)) from None

    def _match(self, event: Any, asked: Asked) -> None:
        command = asked.command
        kind: Any = command.__class__
        if event.at != command.at or _KINDS[kind] is not type(event):
            self._differ(event, asked)
        named = _NAMES.get(kind)
        if named is not None and not named(command, event):
            self._differ(event, asked)
        target = asked.target
        if target is not None and event.command != target.event_id:
            self._differ(event, asked)
        if self.strict and not _same_payloads(command, event):
            raise Mismatch("arguments differ", expected=in_words(event), found=in_words(command))
        asked.event_id = event.id
        if asked.waiter is not None:
            self.waiters[event.id] = asked

    def _differ(self, event: Any, asked: Asked) -> None:
        if type(event) is ev.VersionMarked:
            raise OldBuild(event.change_id)
        raise Mismatch(
            "the code asks for another command than the history holds",
            expected=in_words(event),
            found=in_words(asked.command),
        )

    def take(self) -> tuple[Any, ...]:
        """Commands asked for and not yet sent, ready for a report, their targets resolved. They count as sent from here on."""
        if self.sent == len(self.new):
            return ()
        fresh = list(islice(self.new, self.sent, None))
        self.sent = len(self.new)
        for asked in fresh:
            if asked.target is not None:
                places = {id(placed): number for number, placed in enumerate(self.new, 1)}
                return tuple([_resolved(asked, places) if asked.target is not None else asked.command for asked in fresh])
        return tuple([asked.command for asked in fresh])

    # --------------------------------------------------------------------------------------------- looking ahead

    def marker(self, change_id: str, at: int) -> ev.VersionMarked | None:
        """The recorded version marker of a change at this input, if the history holds one."""
        return self._looked_ahead(at).markers.get(change_id) if self.expected else None

    def side_effect(self, at: int) -> ev.SideEffectRecorded | None:
        """The recorded value of the next side effect of this input, if the history holds one; given out once."""
        if not self.expected:
            return None
        effects = self._looked_ahead(at).effects
        return effects.popleft() if effects else None

    def _looked_ahead(self, at: int) -> "_Ahead":
        if self._ahead is None:
            self._ahead = _Ahead(self.expected, at)
        return self._ahead


class _Ahead:
    """Markers and side effects that the history holds of one input, up to the next update: looked through once, however many are asked for."""

    __slots__ = ("effects", "markers")

    def __init__(self, expected: deque[Any], at: int) -> None:
        self.effects: deque[ev.SideEffectRecorded] = deque()
        self.markers: dict[str, ev.VersionMarked] = {}
        for event in expected:
            if event.at != at or type(event) is ev.UpdateAccepted:
                return
            if type(event) is ev.VersionMarked:
                self.markers.setdefault(event.change_id, event)
            elif type(event) is ev.SideEffectRecorded:
                self.effects.append(event)


def _resolved(asked: Asked, places: dict[int, int]) -> Any:
    target = asked.target
    assert target is not None
    return replace(asked.command, target=target.event_id or -places[id(target)])


def _same_payloads(command: Any, event: Any) -> bool:
    for field in _COMPARED:
        if getattr(command, field, None) != getattr(event, field, None):
            return False
    if hasattr(command, "delay") and command.delay != event.delay:
        return False
    return getattr(command, "keywords", None) == getattr(event, "keywords", None)


_COMPARED: Final = ("input", "result", "attributes", "datetimes", "details")
"""What is compared only when strict, beside keywords and delays."""

_KINDS: dict[type, type] = {
    cm.ScheduleActivity: ev.ActivityScheduled,
    cm.CancelActivity: ev.ActivityCancelRequested,
    cm.StartTimer: ev.TimerStarted,
    cm.CancelTimer: ev.TimerCancelled,
    cm.MarkVersion: ev.VersionMarked,
    cm.RecordSideEffect: ev.SideEffectRecorded,
    cm.RequestChild: ev.ChildRequested,
    cm.CancelChild: ev.ChildCancelRequested,
    cm.SignalExternal: ev.ExternalSignalRequested,
    cm.CancelExternal: ev.ExternalCancelRequested,
    cm.SetAttributes: ev.AttributesSet,
    cm.SetDetails: ev.DetailsSet,
    cm.AcceptUpdate: ev.UpdateAccepted,
    cm.CompleteUpdate: ev.UpdateCompleted,
    cm.FailUpdate: ev.UpdateFailed,
    cm.CompleteWorkflow: ev.Completed,
    cm.FailWorkflow: ev.Failed,
    cm.CancelWorkflow: ev.Cancelled,
    cm.ContinueAsNew: ev.ContinuedAsNew,
}

_NAMES: dict[type, Callable[[Any, Any], bool]] = {
    cm.ScheduleActivity: lambda command, event: command.name == event.name,
    cm.MarkVersion: lambda command, event: command.change_id == event.change_id and command.version == event.version,
    cm.RequestChild: lambda command, event: (
        command.workflow_type == event.workflow_type and command.workflow_id in {"", event.workflow_id}
    ),
    cm.SignalExternal: lambda command, event: command.name == event.name and command.workflow_id == event.workflow_id,
    cm.CancelExternal: lambda command, event: command.workflow_id == event.workflow_id,
    cm.AcceptUpdate: lambda command, event: (
        (command.name, command.update_id, command.fed_at) == (event.name, event.update_id, event.fed_at)
    ),
    cm.CompleteUpdate: lambda command, event: command.update_id == event.update_id,
    cm.FailUpdate: lambda command, event: command.update_id == event.update_id,
}
