"""Tasks: pointers to work, as the broker carries them. Losing one costs latency, never work: the state says what is due."""

from typing import Final, Literal, TypeAlias

from msgspec import Struct

Kind: TypeAlias = Literal["workflow", "activity"]

PRIORITY_MAX: Final = 1_000
"""Priorities lie between minus this and this; higher ones go first, 0 is the ordinary one."""


class Task(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A workflow task (`command` 0) or an activity task (`command` = number of the `activity_scheduled` event).

    With `query`, a query of that id to be answered; it is carried as a workflow task is.
    """

    namespace: str
    workflow_id: str
    run_id: str
    queue: str
    command: int = 0
    attempt: int = 0
    sticky: str = ""
    """Worker that holds the run warm; delivered there when it has room."""
    priority: int = 0
    query: str = ""
    avoid: tuple[str, ...] = ()
    """Workers that cannot take it, as far as is known."""

    @property
    def kind(self) -> Kind:
        return "activity" if self.command else "workflow"


class CancelNotice(Struct, frozen=True, kw_only=True, gc=False):
    """Tells a worker that the attempt it runs under `token` is asked to stop, or not wanted any more."""

    token: str
