"""Volatile entries: applied to state like events and notes, but never written. A crash forgets them and nothing true is lost.

They hold who is working on a run right now, and what will be noted with the run's next transition.
"""

from typing import TypeAlias

from msgspec import Struct

from perdure.core.notes import ActivityClaimed
from perdure.core.payload import ABSENT, Payload
from perdure.core.state import WorkflowClaim


class WorkflowClaimHeld(Struct, frozen=True, gc=False):
    claim: WorkflowClaim


class WorkflowClaimEnded(Struct, frozen=True, gc=False):
    pass


class CloseRefused(Struct, frozen=True, gc=False):
    pass


class SeenTo(Struct, frozen=True, gc=False):
    """A decision without commands was accepted."""

    based_on: int
    awaits: tuple[str, ...] | None = None
    """As in the note `Seen`."""


class ClaimUnnoted(Struct, frozen=True, gc=False):
    """An activity was claimed; the note follows with the run's next transition."""

    note: ActivityClaimed
    lives_for: int = 0


class ClaimLife(Struct, frozen=True, gc=False):
    """How long a claim that is noted lives without a sign of life."""

    command: int
    lives_for: int


class ClaimReleased(Struct, frozen=True, gc=False):
    """A claim that was never noted was given back: its attempt did not run."""

    command: int


class Beat(Struct, frozen=True, gc=False):
    """The function itself gave a sign of life."""

    command: int
    at: int
    details: Payload = ABSENT


class Alive(Struct, frozen=True, gc=False):
    """The worker that has the claim gave a sign of life, its function did not."""

    command: int
    at: int


class TakenOver(Struct, frozen=True, gc=False):
    """The owner has just taken the run over. Workers in other processes have `lives_for` microseconds to present what they hold."""

    at: int
    lives_for: int


class DelayOver(Struct, frozen=True, gc=False):
    """The time has come at which a run that was to begin later begins. Forgotten in a crash, it is found out again at once."""


class HeldWarm(Struct, frozen=True, gc=False):
    """The worker that holds the run warm; empty = none."""

    worker: str


Volatile: TypeAlias = (
    WorkflowClaimHeld
    | WorkflowClaimEnded
    | CloseRefused
    | SeenTo
    | ClaimUnnoted
    | ClaimLife
    | ClaimReleased
    | Beat
    | Alive
    | TakenOver
    | HeldWarm
    | DelayOver
)
