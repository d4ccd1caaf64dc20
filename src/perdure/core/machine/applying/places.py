"""Where an entry stands in its run: numbers and times that every event moves."""

from perdure.core import events as ev
from perdure.core.state import RunState, WorkflowState


def run_of(state: WorkflowState) -> RunState:
    """The current run."""
    assert state.run is not None, "an entry before the run's start"
    return state.run


def appended(state: WorkflowState, event: ev.Event) -> RunState:
    """The run, one event longer."""
    run = state.run
    assert run is not None, "an entry before the run's start"
    assert event.id == run.length + 1, f"event {event.id} after {run.length}"
    run.length = event.id
    if event.time > run.last_time:
        run.last_time = event.time
    return run


def input_appended(state: WorkflowState, event: ev.Event) -> RunState:
    """The run, with one more to feed."""
    run = appended(state, event)
    run.last_input = event.id
    return run


def command_appended(state: WorkflowState, event: ev.CommandEvent) -> RunState:
    """The run, decided for as far as the command's worker had seen."""
    run = appended(state, event)
    if event.based_on > run.decided:
        run.decided = event.based_on
        cover(run, event.based_on)
    return run


def cover(run: RunState, based_on: int) -> None:
    """An accepted decision has seen everything up to there."""
    if based_on <= run.covered:
        return
    run.covered = based_on
    if run.unseen_signals:
        run.unseen_signals = [signal for signal in run.unseen_signals if signal.id > based_on]
    if run.unseen_cancels:
        run.unseen_cancels = [cancel for cancel in run.unseen_cancels if cancel.id > based_on]
