"""What must be true when a simulated world has come to rest, whatever was done to it: histories, acknowledgements, state, replay.

Reads the store and the node's memory; changes nothing. The first thing found wrong is raised as `BrokenWorldError`, with the history at fault.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from perdure.core import events as ev
from perdure.core.machine import apply_transition
from perdure.core.state import WorkflowState, is_closing
from perdure.core.transition import Transition
from perdure.node import Node
from perdure.ports import RunFilter
from perdure.replay.history import replay_history
from perdure.testing.machine.laws import BrokenLawError, check_event, durable


class BrokenWorldError(AssertionError):
    """Something that must be true is not. `history` is that of the run at fault, one line an entry."""

    def __init__(self, message: str, history: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.history = tuple(history)


Acknowledged: TypeAlias = list[tuple[str, str]]
"""Signals clients were promised: (workflow id, signal id). Starts and cancels are checked by the workloads that made them."""


async def workflow_ids(node: Node) -> list[str]:
    """Every workflow id the store knows, sorted."""
    found: set[str] = set()
    cursor = ""
    while True:
        page = await node.store.runs(RunFilter(), 1_000, cursor)
        found.update(item.workflow_id for item in page.items)
        cursor = page.cursor
        if not cursor:
            return sorted(found)


async def check_world(node: Node, acknowledged: Acknowledged) -> int:
    """Check every workflow id there is, and that what was promised is there; the number of runs checked."""
    runs = 0
    ids = await workflow_ids(node)
    for workflow_id in ids:
        transitions = await node.store.load("default", workflow_id)
        wanted = {signal for id, signal in acknowledged if id == workflow_id}
        runs += _check_id(node, workflow_id, transitions, wanted)
    if lost := {id for id, _ in acknowledged} - set(ids):
        raise BrokenWorldError(f"law kept: signals to {sorted(lost)} were acknowledged, the store does not know them")
    return runs


def _check_id(node: Node, workflow_id: str, transitions: Sequence[Transition], wanted: set[str]) -> int:
    histories: dict[str, list[Any]] = {}
    state = WorkflowState(namespace="default", workflow_id=workflow_id)
    for transition in transitions:
        apply_transition(state, transition)
        for change in transition.runs:
            histories.setdefault(change.run_id, []).extend(change.events)
    for run_id, history in histories.items():
        _check_history(workflow_id, run_id, history, transitions)
        _check_replay(node, workflow_id, history, transitions)
    _check_signals(workflow_id, list(histories.values()), wanted, transitions)
    _check_memory(node, workflow_id, state, transitions)
    return len(histories)


def _check(transitions: Iterable[Transition], workflow_id: str, holds: bool, what: str) -> None:
    if not holds:
        raise BrokenWorldError(f"{workflow_id}: {what}", told(transitions))


def told(transitions: Iterable[Transition]) -> list[str]:
    """A workflow id's story, one line an event or note, transitions set apart."""
    lines: list[str] = []
    for number, transition in enumerate(transitions, 1):
        for change in transition.runs:
            lines.append(f"transition {number}, run {change.run_id}")
            lines += [f"  {msgspec.json.encode(entry).decode()}"[:400] for entry in (*change.events, *change.notes)]
    return lines


def _check_history(workflow_id: str, run_id: str, history: list[Any], transitions: Sequence[Transition]) -> None:
    known: list[Any] = []
    try:
        for event in history:
            check_event(known, event)
            known.append(event)
    except BrokenLawError as broken:
        raise BrokenWorldError(f"{workflow_id}, run {run_id}: {broken}", told(transitions)) from broken
    ends = sum(is_closing(event) for event in history)
    _check(transitions, workflow_id, ends == 1, f"run {run_id} has {ends} closing events")


def _check_replay(node: Node, workflow_id: str, history: list[Any], transitions: Sequence[Transition]) -> None:
    """The very build that decided last must reproduce every run, cold at once and one input at a time."""
    definition: Any = node.registry.workflow(history[0].workflow_type)
    assert definition is not None
    for one_at_a_time in (False, True):
        try:
            runner = replay_history(definition, history, workflow_id=workflow_id, strict=True, one_at_a_time=one_at_a_time)
        except Exception as error:
            how = "one at a time" if one_at_a_time else "at once"
            words = " ".join(str(getattr(error, name, "")) for name in ("reason", "expected", "found"))
            raise BrokenWorldError(f"{workflow_id}: does not replay {how}: {error!r} {words}", told(transitions)) from error
        runner.close()


def _check_signals(workflow_id: str, histories: list[list[Any]], wanted: set[str], transitions: Sequence[Transition]) -> None:
    received = Counter(
        event.signal_id
        for history in histories
        for event in history[_copied(history) :]
        if isinstance(event, ev.SignalReceived) and not event.carried_from
    )
    for signal, times in received.items():
        _check(transitions, workflow_id, times == 1, f"signal {signal} was delivered {times} times")
    missing = wanted - set(received)
    _check(transitions, workflow_id, not missing, f"acknowledged signals {sorted(missing)} are not in its history")


def _copied(history: list[Any]) -> int:
    """How many of its events a run that was reset has from the run before."""
    return max((event.event_id for event in history if isinstance(event, ev.Reset)), default=0)


def _check_memory(node: Node, workflow_id: str, state: WorkflowState, transitions: Sequence[Transition]) -> None:
    """Law `fold`: what the owner holds in memory is the fold of what is written."""
    live = node.frontend.find("default", workflow_id)
    if live is not None and live.state.run is not None:
        _check(transitions, workflow_id, durable(live.state) == durable(state), "memory differs from what is written")
