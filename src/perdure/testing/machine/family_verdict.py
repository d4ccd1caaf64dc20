"""What is judged of a family: every message had its one effect, every child the fate its parent's chain owed it, and nobody owes anything."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from perdure.core import events as ev
from perdure.core.description import result_of
from perdure.core.state import is_closing
from perdure.testing.machine.sole_owner import SoleOwner

Owners = Mapping[str, SoleOwner]


def _runs(owners: Owners) -> Iterator[tuple[SoleOwner, str, Sequence[Any]]]:
    for owner in owners.values():
        for run_id, history in owner.histories.items():
            yield owner, run_id, history


def _chains(owners: Owners) -> dict[str, list[tuple[str, Sequence[Any]]]]:
    """By request id of the start: the runs of each child's chain, in order."""
    chains: dict[str, list[tuple[str, Sequence[Any]]]] = {}
    for _, run_id, history in _runs(owners):
        if history[0].parent is not None:
            chains.setdefault(history[0].request_id, []).append((run_id, history))
    return chains


def judge_at_rest(owners: Owners) -> None:
    """Nothing is on its way: whoever is open waits for nobody, and no chain has left a child behind that it should not have."""
    chains = _chains(owners)
    for owner in owners.values():
        state, run = owner.state, owner.state.run
        assert not state.outgoing, f"{state.workflow_id} still owes {state.outgoing}"
        if run is None or not run.is_open:
            continue
        assert not run.externals, f"{state.workflow_id} waits for {run.externals}"
        for child in (run.children or {}).values():
            assert child.run_id, f"{state.workflow_id} does not know whether {child.event.workflow_id} has started"
            assert not _is_closed(chains[child.request_id]), f"{state.workflow_id} has not heard of the end of {child.event}"
    _judge_orphans(owners, chains)


def _is_closed(chain: Sequence[tuple[str, Sequence[Any]]]) -> bool:
    """Its last run is; what follows that is of another start, if anything is."""
    last = chain[-1][1][-1]
    return is_closing(last) and getattr(last, "next_run_id", "") not in dict(chain)


def _judge_orphans(owners: Owners, chains: Mapping[str, Sequence[tuple[str, Sequence[Any]]]]) -> None:
    """A child of a chain that has closed is closed too, or was told to stop, unless it was to be abandoned."""
    held = {
        child.request_id
        for owner in owners.values()
        if owner.state.run is not None
        for child in (*(owner.run.children or {}).values(), *(owner.state.kin or {}).values())
    }
    stopped = {
        request_id
        for _, run_id, history in _runs(owners)
        for event, request_id in _messages(run_id, history)
        if any(isinstance(other, ev.ChildCancelRequested) and other.command == event.id for other in history)
    }
    for owner, run_id, history in _runs(owners):
        if not _has_ended(owner, run_id):
            continue
        for event, request_id in _messages(run_id, history):
            chain = chains.get(request_id)
            if not isinstance(event, ev.ChildRequested) or chain is None or _is_closed(chain) or request_id in held:
                continue
            if event.on_parent_close == "abandon" or any(_is_reset(events) for _, events in chain):
                continue  # somebody wanted it to go on
            told = any(isinstance(e, ev.CancelRequested) for _, events in chain for e in events)
            lawful = event.on_parent_close == "cancel" or request_id in stopped
            assert lawful, f"{event.workflow_id} outlives its parent {owner.state.workflow_id}"
            assert told, f"{event.workflow_id} was never asked to stop"


def _has_ended(owner: SoleOwner, run_id: str) -> bool:
    """The chain of this run has closed."""
    last = owner.histories[run_id][-1]
    while following := getattr(last, "next_run_id", ""):
        last = owner.histories[following][-1]
    return is_closing(last)


def judge(owners: Owners, refused: AbstractSet[str], counts: Counter[str]) -> None:
    """Everything has closed. `refused`: messages that were refused at least once."""
    chains = _chains(owners)
    for request_id, chain in chains.items():
        firsts = [run_id for run_id, history in chain if not history[0].continued_from and not _is_reset(history)]
        assert len(firsts) == 1, f"the start {request_id} began the runs {firsts}"
    received = _received(owners)
    asked_by: Counter[str] = Counter(
        request_id for _, run_id, history in _runs(owners) for _, request_id in _messages(run_id, history)
    )
    for _, run_id, history in _runs(owners):
        answers = {event.command: event for event in history if isinstance(event, ev.AnswerEvent) and not _is_start(event)}
        for event, request_id in _messages(run_id, history):
            answer, alone = answers.get(event.id), asked_by[request_id] == 1
            if isinstance(event, ev.ExternalSignalRequested):
                _judge_signal(answer, received[request_id], event, alone=alone)
                counts["signals"] += 1
            else:
                _judge_child(answer, chains.get(request_id), event, alone=alone)
                counts["children"] += 1
    _judge_order(owners, refused)
    for owner in owners.values():
        assert not owner.state.outgoing, f"{owner.state.workflow_id} still owes {owner.state.outgoing}"
    counts["runs"] += sum(1 for _ in _runs(owners))


def _is_reset(history: Sequence[Any]) -> bool:
    return any(isinstance(event, ev.Reset) for event in history)


def _own(run_id: str, history: Sequence[Any]) -> Sequence[Any]:
    """What a run has of its own: not what a reset copied."""
    for place, event in enumerate(history):
        if isinstance(event, ev.Reset) and event.run_id == run_id:
            return history[place:]
    return history


def _messages(run_id: str, history: Sequence[Any]) -> Iterator[tuple[Any, str]]:
    """Commands of a run that speak to others, with the request id of each: that of the run which asked first, when it was reset."""
    asked_by = history[0].origin_run_id or run_id
    for event in history:
        if isinstance(event, ev.Reset):
            asked_by = event.run_id
        elif isinstance(event, (ev.ChildRequested, ev.ExternalSignalRequested)):
            yield event, f"{asked_by}/{event.id}"


def _is_start(event: ev.AnswerEvent) -> bool:
    return isinstance(event, ev.ChildStarted)


def _signals(run_id: str, history: Sequence[Any]) -> Iterator[ev.SignalReceived]:
    for event in _own(run_id, history):
        if isinstance(event, ev.SignalReceived) and not event.carried_from:
            yield event


def _received(owners: Owners) -> Counter[str]:
    return Counter(event.signal_id for _, run_id, history in _runs(owners) for event in _signals(run_id, history))


def _judge_signal(answer: Any, times: int, event: Any, *, alone: bool) -> None:
    """`alone`: no other run, reset from this one or before it, has asked for the same."""
    assert times <= 1, f"{event} was delivered {times} times"
    if isinstance(answer, ev.ExternalSignalDelivered):
        assert times == 1, f"{event} counts as delivered and was not"
    elif isinstance(answer, ev.ExternalSignalFailed) and alone:
        assert times == 0, f"{event} counts as failed and was delivered"


def _judge_child(answer: Any, chain: Any, event: Any, *, alone: bool) -> None:
    if isinstance(answer, ev.ChildStartFailed) and alone:
        assert chain is None, f"{event} counts as not started, and runs"
    elif isinstance(answer, ev.ChildClosed):
        runs = dict(chain)
        assert answer.run_id in runs, f"{answer} is not about a run of the chain"
        last = runs[answer.run_id][-1]
        assert getattr(last, "next_run_id", "") not in runs, f"{answer} is about a run that another one followed"
        assert answer.status == result_of(answer.run_id, last).status, f"{answer} is not how {last} ended"


def _judge_order(owners: Owners, refused: AbstractSet[str]) -> None:
    """Signals of one run to one workflow id arrive in the order in which they were asked for, unless it was reset in their midst."""
    reset = {event.reset_from for _, _, history in _runs(owners) for event in history if isinstance(event, ev.Reset)}
    last: dict[tuple[str, str], int] = {}
    for owner, run_id, history in _runs(owners):
        for event in _signals(run_id, history):
            source, _, command = event.signal_id.rpartition("/")
            if not source or source in reset or event.signal_id in refused:
                continue
            key = (source, owner.state.workflow_id)
            assert last.get(key, 0) < int(command), f"{event} came after a later one"
            last[key] = int(command)
