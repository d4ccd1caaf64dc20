"""What is judged when a life is over: every history replays, every message had one fate, every new path has its marker."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from perdure.core import commands as cm
from perdure.core import events as ev
from perdure.testing.machine.life_world import World
from perdure.testing.machine.toy import LifeRunner


def judge(life: World) -> None:
    """Replay every history with every build that may meet it, and count what became of every message."""
    fates: Counter[str] = Counter()
    cancels = 0
    for history in life.owner.histories.values():
        if isinstance(history[-1], ev.Terminated):
            _replay_open(life, history)
            continue
        runner = _replay(life, history, 2)
        assert runner.taken == [e.update_id for e in history if isinstance(e, ev.UpdateAccepted)], "updates in another order"
        runner.close()
        if life.newest:
            # A reset to the midst of a decision leaves inputs that are covered and have no marker.
            assert life.resets or all(runner.paths.values()), f"new code took an old path: {runner.paths}"
        elif not life.deploys:
            _replay(life, history, 1).close()
        fates.update(_fates(history, runner))
        cancels += runner.cancels
    _judge_updates(life)
    for signal_id in life.signals:
        assert fates[signal_id] == 1, f"signal {signal_id} was taken or counted {fates[signal_id]} times"
    life.counts["runs"] += len(life.owner.histories)
    if life.resets:
        assert cancels <= 1, f"a cancel was seen {cancels} times"  # one behind the point of a reset is not delivered again
    elif life.cancelled and not _late_cancel(life.owner.history):
        assert cancels == 1, f"a cancel was seen {cancels} times"


def _judge_updates(life: World) -> None:
    """One execution that ends, over all runs: accepted again only where a run ended before the handler did."""
    ended: set[str] = set()
    for history in life.owner.histories.values():
        for event in history:
            if isinstance(event, ev.UpdateAccepted):
                assert event.update_id not in ended, f"{event.update_id} was accepted again after it had ended"
                life.counts["updates"] += 1
            elif isinstance(event, (ev.UpdateCompleted, ev.UpdateFailed)):
                assert event.update_id not in ended, f"{event.update_id} has ended twice"
                ended.add(event.update_id)
    recorded = {e.update_id for history in life.owner.histories.values() for e in history if isinstance(e, ev.UpdateAccepted)}
    assert life.updates.accepted == recorded, "somebody was told of an acceptance that is not recorded"
    life.counts["updates refused"] += len(life.updates.refused)
    life.counts["updates cut off"] += len(recorded - ended)


def _late_cancel(history: Sequence[Any]) -> bool:
    """The cancel came when main had ended already."""
    return any(isinstance(event, ev.CancelRequested) and event.id > history[-1].at for event in history)


def _replay_open(life: World, history: Sequence[Any]) -> None:
    """What a run that was reset had come to replays; what became of its messages is the new run's to show."""
    assert history[-1].next_run_id in life.owner.histories, f"closed with {history[-1]}"
    runner = life.make_runner(2, life.plan, history[0])
    runner.advance(history[:-1], len(history))
    runner.close()


def _replay(life: World, history: Sequence[Any], build: int) -> LifeRunner:
    closing = history[-1]
    assert isinstance(closing, ev.ClosingEvent), closing
    runner = life.make_runner(build, life.plan, history[0])
    body = [e for e in history[:-1] if isinstance(e, ev.CommandEvent) or e.id <= closing.based_on]
    runner.advance(body, len(history))
    new = runner.take()
    assert not new, f"replay of a closed run asks for more: {new}"
    ending = runner.ending
    assert ending is not None, f"closed with {closing}, replay goes on"
    assert ending.at == closing.at, f"closed with {closing}, replayed {ending}"
    if isinstance(ending, cm.CompleteWorkflow) and isinstance(closing, ev.Completed):
        assert bytes(ending.result) == bytes(closing.result), "another result"
    marked = {e.change_id for e in history if isinstance(e, ev.VersionMarked)}
    taken = {change_id for change_id, new_path in runner.paths.items() if new_path}
    assert taken == marked, f"paths {taken} and markers {marked}"
    return runner


def _fates(history: Sequence[Any], runner: LifeRunner) -> list[str]:
    """Ids of the signals this run took or was closed with."""
    closing = history[-1]
    if isinstance(closing, ev.ContinuedAsNew):
        return list(runner.handled)
    unseen = [e.signal_id for e in history if isinstance(e, ev.SignalReceived) and e.id > closing.based_on]
    left = [signal.signal_id for signal in runner.untaken()]
    assert closing.unseen_signals == len(unseen) + len(left), f"{closing} counts wrongly: {unseen} {left}"
    return [*runner.handled, *unseen, *left]
