"""What a decision on a request yields, and the draft in which it is put together."""

from typing import TypeAlias

from msgspec import Struct

from perdure.core.deliveries import Delivery
from perdure.core.events import AnswerEvent, AnyEvent, Started
from perdure.core.notes import ActivityClaimed, AnyNote, AttemptFailed, Resumed, Seen
from perdure.core.replies import AnyReply, Rejection
from perdure.core.requests import AnyRequest
from perdure.core.state import RunState, WorkflowState
from perdure.core.tasks import CancelNotice, Task
from perdure.core.transition import Message, RunChange, Transition
from perdure.core.volatile import Volatile

Waker: TypeAlias = tuple[int, AnyRequest | Task]
"""At this instant, bring this request (or publish this task)."""


class Outcome(Struct, gc=False):
    """What one request means. `transition` None: nothing to write, no commit.

    `tasks`, `wakes`, `cancels` and `deliveries` leave only after the commit; `volatile` is applied right behind the transition.
    """

    reply: AnyReply
    transition: Transition | None = None
    volatile: list[Volatile] = []
    tasks: list[Task] = []
    wakes: list[Waker] = []
    cancels: list[tuple[str, CancelNotice]] = []
    """Worker and what to tell it."""
    deliveries: list[Delivery] | None = None
    """Messages to other runs; most requests have none."""


class Draft:
    """Collects what a request appends to the current run, numbering and stamping as it goes. Changes no state."""

    __slots__ = (
        "cancels",
        "changes",
        "deliveries",
        "events",
        "length",
        "next_note",
        "notes",
        "now",
        "outbox",
        "run",
        "state",
        "tasks",
        "time",
        "volatile",
        "wakes",
    )

    def __init__(self, state: WorkflowState, run: RunState, now: int) -> None:
        self.state = state
        self.run = run
        self.now = now
        self.time = now if now > run.last_time else run.last_time
        self.length = run.length
        self.next_note = run.notes + 1
        self.events: list[AnyEvent] = []
        self.notes: list[AnyNote] = []
        self.changes: list[RunChange] = []
        self.volatile: list[Volatile] = []
        self.tasks: list[Task] = []
        self.wakes: list[Waker] = []
        self.cancels: list[tuple[str, CancelNotice]] = []
        self.deliveries: list[Delivery] | None = None
        self.outbox: list[Message] | None = None

    @property
    def next_id(self) -> int:
        return self.length + 1

    def add(self, event: AnyEvent) -> None:
        """Append an event built with `next_id` and `time`."""
        self.events.append(event)
        self.length = event.id

    def note(self, note: AnyNote) -> None:
        """Append a note built with `next_note`."""
        self.notes.append(note)
        self.next_note = note.id + 1

    def wake(self, instant: int, request: AnyRequest | Task) -> None:
        self.wakes.append((instant, request))

    def deliver(self, delivery: Delivery) -> None:
        """Send a message to another run, once this is written."""
        if self.deliveries is None:
            self.deliveries = []
        self.deliveries.append(delivery)

    def leave(self, message: Message) -> None:
        """Write a message down, because the run that owes it closes."""
        if self.outbox is None:
            self.outbox = []
        self.outbox.append(message)

    def succeed(self, started: Started) -> None:
        """Open a successor run, in the same transition; nothing may be added to the old one after."""
        if self.events or self.notes:
            self._seal()
        self.next_note = 1
        self.events = [started]
        self.length = started.id

    def _seal(self) -> None:
        first = self.events[0] if self.events else None
        run = self.run
        if type(first) is Started:
            run_id = first.run_id
        else:
            if run.unnoted or run.seen > run.covered:
                self._note_what_waits()
            run_id = run.started.run_id
        self.changes.append(RunChange(run_id=run_id, events=tuple(self.events), notes=tuple(self.notes)))
        self.events, self.notes, self.next_note = [], [], 1

    def write_what_waits(self) -> None:
        """Let this draft write what was only remembered so far, if there is any, though nothing else is appended."""
        if self.run.unnoted or self.run.seen > self.run.covered:
            self._seal()

    def _note_what_waits(self) -> None:
        """Write what was only remembered so far: claims that still live, and what decisions without commands have seen."""
        run = self.run
        if run.seen > run.covered and not any(isinstance(note, Seen) for note in self.notes):
            awaits = run.awaits_unnoted
            self.note(Seen(id=self.next_note, time=self.time, after=run.length, based_on=run.seen, awaits=awaits))
        for command in run.unnoted:
            claim = run.activities[command].claim
            if claim is not None and not self._ends(command):
                self.note(
                    ActivityClaimed(
                        id=self.next_note,
                        time=claim.time,
                        after=run.length,
                        command=command,
                        attempt=claim.attempt,
                        worker=claim.worker,
                        token=claim.token,
                        incarnation=claim.incarnation,
                    )
                )

    def _ends(self, command: int) -> bool:
        """True when this draft says itself what becomes of the claim."""
        return self.answers(command) or any(
            isinstance(note, (AttemptFailed, ActivityClaimed)) and note.command == command for note in self.notes
        )

    def answers(self, command: int) -> bool:
        """True when this draft holds the answer to that command."""
        return any(isinstance(event, AnswerEvent) and event.command == command for event in self.events)

    def resume(self, by_build: str) -> None:
        """Take the run out of quarantine, because a build could go on with it."""
        self.note(Resumed(id=self.next_note, time=self.time, after=self.length, by_build=by_build))

    def outcome(self, reply: AnyReply) -> Outcome:
        """Everything collected, as one outcome."""
        if self.events or self.notes:
            self._seal()
        transition = None
        if self.changes:
            transition = Transition(
                workflow_id=self.state.workflow_id,
                namespace=self.state.namespace,
                runs=tuple(self.changes),
                outbox=() if self.outbox is None else tuple(self.outbox),
            )
        return Outcome(reply, transition, self.volatile, self.tasks, self.wakes, self.cancels, self.deliveries)


Decided: TypeAlias = Outcome | Rejection


def only(reply: AnyReply) -> Outcome:
    """An outcome that changes nothing."""
    return Outcome(reply)
