"""Pause and resume: holding a run where it is, and letting it go on.

A pause holds decisions and nothing else. Signals, cancel requests, timers and results are recorded and wait; activities that were scheduled
go on, retries included, and time limits run. One decision may still come in after a pause: that of the worker which held the claim when it
came, for that worker may have begun things its code now counts on. What follows a fact in a report needs no claim, so it is not taken:
else a worker that goes on by itself from result to result would never notice.
"""

from perdure.core.machine.outcome import Decided, Draft, only
from perdure.core.machine.targets import open_run
from perdure.core.notes import Paused, Resumed
from perdure.core.replies import Rejection, Taken
from perdure.core.requests import PauseWorkflow, ResumeWorkflow
from perdure.core.state import WorkflowState


def pause(state: WorkflowState, request: PauseWorkflow, now: int) -> Decided:
    """Offer the run to nobody until it is resumed, nor what it continues as."""
    found = open_run(state, request.run_id)
    if isinstance(found, Rejection):
        return found
    if found.paused:
        return only(Taken(run_id=found.run_id, duplicate=True))
    draft = Draft(state, found, now)
    draft.note(Paused(id=draft.next_note, time=draft.time, after=draft.length, reason=request.reason))
    return draft.outcome(Taken(run_id=found.run_id))


def resume(state: WorkflowState, request: ResumeWorkflow, now: int) -> Decided:
    """End pause and quarantine, forget which builds failed or were too old, and offer the run again."""
    found = open_run(state, request.run_id)
    if isinstance(found, Rejection):
        return found
    if found.quarantine is None and not found.failed_builds and not found.refused_builds and not found.paused:
        return only(Taken(run_id=found.run_id, duplicate=True))
    draft = Draft(state, found, now)
    draft.note(Resumed(id=draft.next_note, time=draft.time, after=draft.length, reason=request.reason))
    return draft.outcome(Taken(run_id=found.run_id))
