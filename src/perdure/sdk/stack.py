"""Where a run stands, for people: what it waits for and why nobody moves it, one line each. Made of a description, so of the history alone."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from perdure.sdk.views import PendingItem, WorkflowDescription


@dataclass(frozen=True, slots=True)
class WorkflowStack:
    """`waits_for` is what must come before its code goes on; `standstill` says why nothing of it is under way, and is empty when it is.

    Both are as of event `covered`: what came after it, up to `history_length`, the code has not seen yet. `str()` of it is its lines.
    """

    workflow_id: str
    run_id: str
    type: str
    status: str
    queue: str
    history_length: int
    covered: int
    last_event_at: datetime | None
    closed_at: datetime | None
    build_id: str
    waits_for: tuple[PendingItem, ...]
    standstill: tuple[str, ...]

    def lines(self) -> list[str]:
        """In words, a line for each thing."""
        return list(_lines(self))

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def stack_of(view: WorkflowDescription) -> WorkflowStack:
    """What a description says of where the run stands."""
    return WorkflowStack(
        workflow_id=view.workflow_id,
        run_id=view.run_id,
        type=view.type,
        status=view.status,
        queue=view.queue,
        history_length=view.history_length,
        covered=view.covered,
        last_event_at=view.last_event_at,
        closed_at=view.closed_at,
        build_id=view.build_id,
        waits_for=view.pending,
        standstill=view.standstill,
    )


def _lines(stack: WorkflowStack) -> Iterator[str]:
    at = f", the last at {moment(stack.last_event_at)}" if stack.last_event_at is not None else ""
    build = f", decided by build {stack.build_id}" if stack.build_id else ""
    yield f"{stack.workflow_id} ({stack.type}) {stack.status}: {counted(stack.history_length)}{at}{build}"
    if stack.closed_at is not None and not stack.waits_for:
        yield f"  it waits for nothing: it is {stack.status} since {moment(stack.closed_at)}"
        return
    unseen = stack.history_length - stack.covered
    for item in stack.waits_for:
        yield f"  waits for {in_words(item)}"
    for reason in stack.standstill:
        yield f"  stands still: {reason}"
    if unseen > 0 and stack.closed_at is None and any(item.kind == "decision" for item in stack.waits_for):
        yield f"  its code has not seen the last {'event' if unseen == 1 else f'{unseen} events'} yet"


def counted(events: int) -> str:
    """A number of events, in words."""
    return "1 event" if events == 1 else f"{events:,} events"


def plain(stack: WorkflowStack) -> dict[str, Any]:
    """As JSON data, without what is empty."""
    told = {name: value for name, value in asdict(stack).items() if value not in (None, "", ())}
    if "waits_for" in told:
        told["waits_for"] = [_told(item) for item in told["waits_for"]]
    return told


def _told(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if value not in (None, "", 0)}


def in_words(item: PendingItem) -> str:
    """One thing a run waits for, on one line."""
    return " · ".join(part.replace("\n", " ") for part in _parts(item) if part)


def _parts(item: PendingItem) -> Iterator[str]:
    yield f"{_kind(item)} {_named(item)}".rstrip()
    yield item.workflow_id and f"workflow {item.workflow_id!r}"
    if item.attempt:
        yield f"attempt {item.attempt} of {item.attempts_max}" if item.attempts_max else f"attempt {item.attempt}"
    yield item.state
    yield item.worker and f"held by worker {item.worker}"
    yield item.build_id and f"build {item.build_id}"
    yield f"since {moment(item.since)}" if item.since is not None else ""
    yield f"until {moment(item.until)}" if item.until is not None else ""
    yield f"out of time at {moment(item.deadline)}" if item.deadline is not None else ""
    yield item.failure and f"failed last with {item.failure}"
    yield item.summary


_KINDS = {
    "condition": "a condition",
    "decision": "a decision of its code",
    "build": "a newer build",
    "start": "its start",
}


def _kind(item: PendingItem) -> str:
    if item.kind == "resume":
        return "a resume, or another build" if item.build_id else "a resume"
    return _KINDS.get(item.kind, item.kind.replace("_", " "))


def _named(item: PendingItem) -> str:
    if item.kind == "condition":
        return f"(wait_until in {item.name})"
    if item.kind in {"resume", "build"}:
        return ""
    event = f" (event {item.event_id})" if item.event_id else ""
    return f"{item.name!r}{event}" if item.name else event.strip()


def moment(instant: datetime) -> str:
    """A time for people, to the second, in UTC."""
    return f"{instant:%Y-%m-%d %H:%M:%S}Z"
