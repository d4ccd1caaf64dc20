"""Runs part of whose history is lost: which they are, why, and what may still be told of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, takewhile
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from perdure.core.state import is_closing
from perdure.core.transition import Transition
from perdure.ports import Damage, DamagedRun, Record
from perdure.store.journal.fault import Fault, RunName

if TYPE_CHECKING:
    from perdure.core.events import AnyEvent
    from perdure.core.notes import AnyNote

_NONE: Final[Mapping[str, str]] = {}


class DamagedRuns:
    """By workflow id: run ids and reasons."""

    def __init__(self) -> None:
        self._reasons: dict[tuple[str, str], dict[str, str]] = {}

    def add(self, run: RunName, reason: str) -> None:
        """Note a damaged run; the first reason stands."""
        self._reasons.setdefault((run.namespace, run.workflow_id), {}).setdefault(run.run_id, reason)

    def of(self, namespace: str, workflow_id: str) -> Mapping[str, str]:
        """Run ids and reasons under one workflow id."""
        return self._reasons.get((namespace, workflow_id), _NONE)

    def all(self) -> Sequence[DamagedRun]:
        return [
            DamagedRun(namespace=namespace, workflow_id=workflow_id, run_id=run_id, reason=reason)
            for (namespace, workflow_id), runs in self._reasons.items()
            for run_id, reason in runs.items()
        ]


def reason_of(fault: Fault) -> str:
    """Why a run is kept from going on, in words."""
    if not fault.segment:
        return f"part of its history is lost: {fault.why}"
    if fault.named == "suspicion":
        return f"part of its history may be lost: nothing tells whose lines were damaged at {fault.place}"
    return f"part of its history is lost: the journal is damaged at {fault.place} ({fault.why})"


def words_of(fault: Fault) -> str:
    """One sentence for a log or a report."""
    lines = f"{fault.lines} line{'s' * (fault.lines != 1)} from number {fault.seq} on lost" if fault.lines else "no line lost"
    where = f"damaged at {fault.place}, {fault.length} bytes" if fault.segment else "damaged"
    kept = f"; the bytes are kept in {fault.kept}" if fault.kept else ""
    return f"{where}: {fault.why}; {lines}{kept}"


def as_far_as_whole(record: Record, reason: str) -> Record:
    """A damaged run's record: the entries before the first that is missing, and how far what is left behind them reaches."""
    last = record.events[-1] if record.events else None
    closing: AnyEvent | None = last if last is not None and is_closing(last) else None
    return replace(
        record,
        events=tuple(event for event, _ in takewhile(_is_next, zip(record.events, count(1), strict=False))),
        notes=tuple(note for note, _ in takewhile(_is_next, zip(record.notes, count(1), strict=False))),
        damage=Damage(
            reason=reason,
            last_event=max((event.id for event in record.events), default=0),
            last_note=max((note.id for note in record.notes), default=0),
            closing=closing,
        ),
    )


def _is_next(numbered: "tuple[AnyEvent | AnyNote, int]") -> bool:
    entry, number = numbered
    return entry.id == number


def without(transition: Transition, damaged: Mapping[str, str]) -> Transition | None:
    """A transition without what it changes in damaged runs; None when nothing is left of it."""
    runs = tuple(change for change in transition.runs if change.run_id not in damaged)
    if len(runs) == len(transition.runs):
        return transition
    return replace(transition, runs=runs) if runs else None


def only_begun(transitions: Iterable[Transition]) -> Iterator[Transition]:
    """Transitions without what is left of runs whose beginning was dropped after their keep time."""
    begun: set[str] = set()
    for transition in transitions:
        begun.update(change.run_id for change in transition.runs if change.events and change.events[0].id == 1)
        remnants = {change.run_id: "" for change in transition.runs if change.run_id not in begun}
        rest = without(transition, remnants) if remnants else transition
        if rest is not None:
            yield rest
