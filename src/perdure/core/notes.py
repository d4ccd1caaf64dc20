"""Notes: entries beside a history, for people and the engine.

Numbered apart from events, folded like them, never fed to workflow code and never counted in lengths or limits. Same promise of
permanence as events: tags and fields are never renamed or reused.
"""

from typing import TypeAlias

from msgspec import Struct

from perdure.core.failure import Failure, FailureKind
from perdure.core.payload import ABSENT, Payload


class Note(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type"):
    """`id` counts the run's notes, `time` is the owner's stamp, `after` the history length when it was written."""

    id: int
    time: int
    after: int = 0

    @property
    def type(self) -> str:
        return str(self.__struct_config__.tag)


class ActivityClaimed(Note, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="activity_claimed"):
    """A worker took an attempt. With empty `worker` and `token` it gave a written claim back: the attempt did not run.

    Written once more, with `outside`, when the attempt's function has left its completion to whoever holds the task token.
    """

    command: int
    attempt: int
    worker: str
    token: str
    incarnation: str = ""
    """The owner process in which the worker lived, when it lived in one: a claim of a dead owner's own worker is lost at once."""
    outside: bool = False
    """The attempt is completed from outside: no worker runs it, and its claim outlives worker and owner."""


class AttemptFailed(Note, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="attempt_failed"):
    command: int
    attempt: int
    kind: FailureKind = "error"
    failure: Failure | None = None
    retry_at: int = 0
    """When the next attempt may run; 0 when the activity ended with this attempt."""


class HeartbeatNoted(Note, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="heartbeat_noted"):
    command: int
    attempt: int
    details: Payload = ABSENT
    """JSON list of what was passed to `activity.heartbeat`."""


class Seen(Note, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="seen"):
    """A decision was accepted: everything up to `based_on` is covered. Written for one without commands, and when `awaits` has changed."""

    based_on: int
    awaits: tuple[str, ...] | None = None
    """What the code waits for that no event tells: "signal NAME", "condition WHERE" (of `wait_until`). None: as it was said before."""


class Quarantined(Note, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="quarantined"):
    reason: str
    build_id: str = ""
    expected: str = ""
    """The recorded command, in words; empty when the code asked for one too many or broke a guard."""
    found: str = ""
    """What the code asked for instead, in words."""


class BuildRefused(Note, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="build_refused"):
    """The build is older than the run (or lacks its code): it will not be offered the run again."""

    build_id: str
    change_id: str = ""


class Resumed(Note, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="resumed"):
    reason: str = ""
    by_build: str = ""
    """The build whose decision took the run out of quarantine; empty when someone asked for it (failed builds are then forgotten)."""


class Paused(Note, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="paused"):
    reason: str = ""


class SignalSetAside(Note, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="signal_set_aside"):
    command: int
    """Number of the `signal_received` event."""
    message: str


class DecidedBy(Note, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="decided_by"):
    """A decision came from another build than the one before: everything from here on was decided by `build_id`."""

    build_id: str


class Delivered(Note, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="delivered"):
    """What this workflow id owed to others and owes no more: messages of its closed runs, and children of its chain that have closed."""

    messages: tuple[str, ...] = ()
    """Request ids of entries of the outbox that were answered."""
    children: tuple[str, ...] = ()
    """Request ids of the starts of children an earlier run of the chain asked for."""


AnyNote: TypeAlias = (
    ActivityClaimed
    | AttemptFailed
    | HeartbeatNoted
    | Seen
    | Quarantined
    | BuildRefused
    | Resumed
    | Paused
    | SignalSetAside
    | DecidedBy
    | Delivered
)
