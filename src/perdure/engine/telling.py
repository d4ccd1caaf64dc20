"""What of a committed transition is told to those who watch, by kind of entry. What is not in `TOLD` is nobody's news.

    run.started        queue, origin; parent, when a run asked for it
    run.closed         status; next_run_id, when another run follows
    run.quarantined    reason, build_id
    run.paused         reason
    run.resumed        reason, or the build whose decision took it out of quarantine
    activity.failed    an attempt: activity, command, attempt, reason (as `kind` of a note), final, retry_at
    signal.received    signal
    build.refused      build_id, change_id

Payloads and messages of failures never are: they are the author's, and may be encoded.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from perdure.core import events as ev
from perdure.core import notes as nt
from perdure.core.replies import Status
from perdure.engine.news import moment

CLOSED: Final[dict[type, Status]] = {
    ev.Completed: "completed",
    ev.Failed: "failed",
    ev.Cancelled: "cancelled",
    ev.ContinuedAsNew: "continued",
    ev.Terminated: "terminated",
    ev.TimedOut: "timed_out",
}
"""How a run ended, by its last event."""


def _given(**details: Any) -> dict[str, Any] | None:
    return {name: value for name, value in details.items() if value not in ("", None)} or None


@lru_cache(maxsize=100)
def _asked_for(queue: str, origin: str) -> dict[str, Any]:
    """Shared by runs of the same queue and origin: thousands of starts are kept."""
    return {"queue": queue, "origin": origin}


def _started(event: ev.Started, _name: str) -> dict[str, Any] | None:
    plainly = _asked_for(event.queue, event.origin)
    return plainly if event.parent is None else {**plainly, "parent": event.parent.workflow_id}


_PLAINLY: Final = {kind: {"status": status} for kind, status in CLOSED.items()}
"""Of runs that nothing follows: made once, because most runs end so."""


def _closed(event: Any, _name: str) -> dict[str, Any] | None:
    following = getattr(event, "next_run_id", "")
    plainly = _PLAINLY[type(event)]
    return {**plainly, "next_run_id": following} if following else plainly


def _attempt_failed(note: nt.AttemptFailed, name: str) -> dict[str, Any] | None:
    return _given(
        activity=name,
        command=note.command,
        attempt=note.attempt,
        reason=note.kind,
        final=not note.retry_at,
        retry_at=moment(note.retry_at) if note.retry_at else "",
    )


Saying = Callable[[Any, str], dict[str, Any] | None]

TOLD: Final[dict[type, tuple[str, Saying]]] = {
    ev.Started: ("run.started", _started),
    **dict.fromkeys(CLOSED, ("run.closed", _closed)),
    ev.SignalReceived: ("signal.received", lambda event, _: {"signal": event.name}),
    nt.AttemptFailed: ("activity.failed", _attempt_failed),
    nt.Quarantined: ("run.quarantined", lambda note, _: _given(reason=note.reason, build_id=note.build_id)),
    nt.Paused: ("run.paused", lambda note, _: _given(reason=note.reason)),
    nt.Resumed: ("run.resumed", lambda note, _: _given(reason=note.reason, by_build=note.by_build)),
    nt.BuildRefused: ("build.refused", lambda note, _: _given(build_id=note.build_id, change_id=note.change_id)),
}
