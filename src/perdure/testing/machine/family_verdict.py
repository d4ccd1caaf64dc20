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
    last = chain[-1][1][-1]
    return is_closing(last) and not getattr(last, "next_run_id", "")


def _judge_orphans(owners: Owners, chains: Mapping[str, Sequence[tuple[str, Sequence[Any]]]]) -> None:
    """A child of a chain that has closed is closed too, or was told to stop, unless it was to be abandoned."""
    for owner, run_id, history in _runs(owners):
        if not _has_ended(owner, run_id):
            continue
        asked_to_stop = {event.command for event in history if isinstance(event, ev.ChildCancelRequested)}
        for event in history:
            chain = chains.get(f"{run_id}/{event.id}")
            if not isinstance(event, ev.ChildRequested) or chain is None or _is_closed(chain):
                continue
            if event.on_parent_close == "cancel" or event.id in asked_to_stop:
                told = [e for _, events in chain for e in events if isinstance(e, ev.CancelRequested)]
                assert told, f"{event.workflow_id} was never asked to stop"
            else:
                assert event.on_parent_close == "abandon", f"{event.workflow_id} outlives its parent {owner.state.workflow_id}"


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
        firsts = [run_id for run_id, history in chain if not history[0].continued_from]
        assert len(firsts) == 1, f"the start {request_id} began the runs {firsts}"
    received = _received(owners)
    for _, run_id, history in _runs(owners):
        answers = {event.command: event for event in history if isinstance(event, ev.AnswerEvent) and not _is_start(event)}
        for event in history:
            if isinstance(event, ev.ExternalSignalRequested):
                _judge_signal(answers.get(event.id), received[f"{run_id}/{event.id}"], event)
                counts["signals"] += 1
            elif isinstance(event, ev.ChildRequested):
                _judge_child(answers.get(event.id), chains.get(f"{run_id}/{event.id}"), event)
                counts["children"] += 1
    _judge_order(owners, refused)
    for owner in owners.values():
        assert not owner.state.outgoing, f"{owner.state.workflow_id} still owes {owner.state.outgoing}"
    counts["runs"] += sum(1 for _ in _runs(owners))


def _is_start(event: ev.AnswerEvent) -> bool:
    return isinstance(event, ev.ChildStarted)


def _received(owners: Owners) -> Counter[str]:
    return Counter(
        event.signal_id
        for _, _, history in _runs(owners)
        for event in history
        if isinstance(event, ev.SignalReceived) and not event.carried_from
    )


def _judge_signal(answer: Any, times: int, event: Any) -> None:
    assert times <= 1, f"{event} was delivered {times} times"
    if isinstance(answer, ev.ExternalSignalDelivered):
        assert times == 1, f"{event} counts as delivered and was not"
    elif isinstance(answer, ev.ExternalSignalFailed):
        assert times == 0, f"{event} counts as failed and was delivered"


def _judge_child(answer: Any, chain: Any, event: Any) -> None:
    if isinstance(answer, ev.ChildStartFailed):
        assert chain is None, f"{event} counts as not started, and runs"
    elif isinstance(answer, ev.ChildClosed):
        run_id, history = chain[-1]
        assert answer.run_id == run_id, f"{answer} is not about the last run of the chain, {run_id}"
        assert answer.status == result_of(run_id, history[-1]).status, f"{answer} is not how {history[-1]} ended"


def _judge_order(owners: Owners, refused: AbstractSet[str]) -> None:
    """Signals of one run to one workflow id arrive in the order in which they were asked for."""
    last: dict[tuple[str, str], int] = {}
    for owner, _, history in _runs(owners):
        for event in history:
            if (
                isinstance(event, ev.SignalReceived)
                and not event.carried_from
                and "/" in event.signal_id
                and event.signal_id not in refused
            ):
                source, _, command = event.signal_id.rpartition("/")
                key = (source, owner.state.workflow_id)
                assert last.get(key, 0) < int(command), f"{event} came after a later one"
                last[key] = int(command)
