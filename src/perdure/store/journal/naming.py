"""Whose history a gap in the journal took: what the lines before and behind it tell.

Asked in this order: the next line, which repeats the run id of the line before it; the index; event numbers of a run that do not go on.
When these account for fewer lines than are missing, every open run without a later line may be the one: never silence.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from perdure.core.state import is_closing
from perdure.core.transition import RunChange, Transition
from perdure.store.journal.fault import Fault, RunName

WhoWrote = Callable[[int, int], RunName | None]
"""The run whose line begins at this byte of this segment, or None when it is not known. What an index beside the journal can tell."""

_FOR_EVER: Final = 1 << 62

RunKey = tuple[str, str, str]
"""Namespace, workflow id, run id."""


class Gap(Struct, kw_only=True):
    """A fault, and between which good lines it lies: behind number `before` and before number `behind`."""

    fault: Fault
    before: int
    behind: int = _FOR_EVER
    run_ids: tuple[str, ...] = ()
    """What the chain says: these runs had lines here."""
    names: tuple[RunName, ...] = ()
    """What the index says."""
    guesses: tuple[RunName, ...] = ()
    """What the damaged bytes themselves say of a run that the chain names; believed only where nothing whole is left of it."""
    controls: int = 0
    """So many of the missing lines were headers or footers."""


class _Tail(Struct, kw_only=True, gc=False):
    """How far a run has come: its last event, note and line."""

    event: int = 0
    note: int = 0
    seq: int = 0
    closed: int = 0
    """When it closed."""


class _Jump(Struct, frozen=True, kw_only=True):
    """A run whose numbers do not go on from one of its lines to the next."""

    key: RunKey
    before: int
    behind: int


class Continuity:
    """Follows every run's numbers over the lines of a journal, and in the end names whose lines are missing."""

    def __init__(self) -> None:
        self._tails: dict[RunKey, _Tail] = {}
        self._jumps: list[_Jump] = []

    def take(self, transition: Transition, seq: int) -> None:
        """The next good line."""
        for change in transition.runs:
            key = (transition.namespace, transition.workflow_id, change.run_id)
            tail = self._tails.get(key)
            if tail is None:
                tail = self._tails[key] = _Tail()
            if not _goes_on(tail, change):
                self._jumps.append(_Jump(key=key, before=tail.seq, behind=seq))
            if change.events:
                tail.event = change.events[-1].id
                tail.closed = tail.closed or (change.events[-1].time if is_closing(change.events[-1]) else 0)
            if change.notes:
                tail.note = change.notes[-1].id
            tail.seq = seq

    def resolve(self, gaps: Sequence[Gap], known: Collection[RunName] = (), expired: int = 0) -> list[Fault]:
        """The fault of each gap with the runs it concerns, and one for each run that jumps where no gap is and that is not `known`.

        What is left of runs that had closed by `expired` is no fault.
        """
        self._jumps = [jump for jump in self._jumps if not self._is_remnant(jump, expired)]
        by_run_id: dict[str, list[RunKey]] = {}
        for key in self._tails:
            by_run_id.setdefault(key[2], []).append(key)
        faults = [self._named(gap, by_run_id) for gap in gaps]
        faults += [
            Fault(
                segment=0,
                offset=0,
                seq=jump.before + 1,
                why="its numbers do not go on",
                runs=(_name(jump.key),),
                named="continuity",
            )
            for jump in self._jumps
            if _name(jump.key) not in known and not any(_covers(jump, gap) for gap in gaps)
        ]
        return faults

    def _is_remnant(self, jump: _Jump, expired: int) -> bool:
        """True for a run whose first lines are gone because it was past its keep time; of some only later notes are left."""
        tail = self._tails[jump.key]
        return not jump.before and (0 < tail.closed <= expired or (not tail.event and expired > 0))

    def _named(self, gap: Gap, by_run_id: dict[str, list[RunKey]]) -> Fault:
        chain = {name for run_id in gap.run_ids if run_id for name in _known(run_id, by_run_id, gap)}
        jumped = {_name(jump.key) for jump in self._jumps if _covers(jump, gap)}
        runs = chain | set(gap.names) | jumped
        named = "chain" if chain else "index" if gap.names else "continuity" if jumped else ""
        explained = len({(run.namespace, run.workflow_id) if run.workflow_id else (run.run_id,) for run in runs}) + gap.controls
        if explained < gap.fault.lines and (suspects := (self._suspects(gap) | set(gap.guesses)) - runs):
            runs |= suspects
            named = named or "suspicion"
        return replace(gap.fault, runs=tuple(sorted(runs)), named=named)

    def _suspects(self, gap: Gap) -> set[RunName]:
        """Every open run that has a line before the gap and none behind it."""
        return {_name(key) for key, tail in self._tails.items() if not tail.closed and tail.seq <= gap.before}


def _known(run_id: str, by_run_id: dict[str, list[RunKey]], gap: Gap) -> list[RunName]:
    found = [_name(key) for key in by_run_id.get(run_id, ())] or [
        name for name in (*gap.names, *gap.guesses) if name.run_id == run_id
    ]
    return found or [RunName(run_id=run_id)]


def _goes_on(tail: _Tail, change: RunChange) -> bool:
    if change.events and change.events[0].id != tail.event + 1:
        return False
    return not change.notes or change.notes[0].id == tail.note + 1


def _covers(jump: _Jump, gap: Gap) -> bool:
    return jump.before <= gap.before and gap.behind <= jump.behind


def _name(key: RunKey) -> RunName:
    return RunName(namespace=key[0], workflow_id=key[1], run_id=key[2])
