"""Words for short stories about one workflow id: requests in, events out. Whoever reads a test should see the story, not the protocol."""

from itertools import count
from typing import Any

from perdure.core.commands import AnyCommand, ClosingCommand
from perdure.core.failure import Failure
from perdure.core.machine import Outcome
from perdure.core.payload import NULL, Payload
from perdure.core.replies import ActivityClaim, ActivityClaimed, Rejection, Reported, WorkflowClaimed
from perdure.core.requests import (
    ActivityErred,
    ActivitySucceeded,
    AnyRequest,
    ClaimActivity,
    ClaimWorkflow,
    Commands,
    HeartbeatActivity,
    HeartbeatWorkflow,
    Report,
    RequestCancel,
    ResetWorkflow,
    SignalBody,
    SignalWorkflow,
    StartWorkflow,
    Step,
    TerminateWorkflow,
    UpdateWorkflow,
)
from perdure.testing.machine.sole_owner import SoleOwner, text


class Story(SoleOwner):
    """A sole owner with verbs. Ids that do not matter to a story are made up: run ids `r1`, `r2` …, tokens `t1`, `t2` …"""

    def __init__(self, workflow_id: str = "w", *, checked: bool = True) -> None:
        super().__init__(workflow_id, checked=checked)
        self._numbers = count(1)

    def ask(self, request: AnyRequest) -> Any:
        """Bring a request; its reply, or the rejection."""
        decided = self.bring(request)
        return decided.reply if isinstance(decided, Outcome) else decided

    @property
    def events(self) -> list[str]:
        """Types of the current run's events."""
        return [event.type for event in self.history]

    @property
    def note_types(self) -> list[str]:
        return [note.type for note in self.notes[self.run.run_id]]

    # ---------------------------------------------------------------------------------------------------------- clients

    def start(self, request_id: str = "start", **fields: Any) -> Any:
        number = next(self._numbers)
        fields = {"workflow_type": "toy", "run_id": f"r{number}", "seed": number, **fields}
        return self.ask(StartWorkflow(workflow_id=self.state.workflow_id, request_id=request_id, **fields))

    def signal(self, name: str, signal_id: str = "", value: str = "x", run_id: str = "") -> Any:
        body = SignalBody(name=name, input=(text(value),), signal_id=signal_id or f"s{next(self._numbers)}")
        return self.ask(SignalWorkflow(workflow_id=self.state.workflow_id, signal=body, run_id=run_id))

    def update(self, name: str, update_id: str, value: str = "x", run_id: str = "") -> Any:
        """Send an update: `UpdateWaits` when it is new (its body is what `claim` is then told of), else how it stands."""
        return self.ask(
            UpdateWorkflow(
                workflow_id=self.state.workflow_id, update_id=update_id, name=name, input=(text(value),), run_id=run_id
            )
        )

    def cancel(self, request_id: str = "") -> Any:
        request_id = request_id or f"c{next(self._numbers)}"
        return self.ask(RequestCancel(workflow_id=self.state.workflow_id, request_id=request_id))

    def terminate(self, request_id: str = "") -> Any:
        request_id = request_id or f"k{next(self._numbers)}"
        return self.ask(TerminateWorkflow(workflow_id=self.state.workflow_id, request_id=request_id, reason="enough"))

    def reset(self, event_id: int, **fields: Any) -> Any:
        """Reset the current run, or `run_id`'s; the new run has a made up id and seed."""
        number = next(self._numbers)
        fields = {"new_run_id": f"r{number}", "seed": number, "request_id": f"z{number}", **fields}
        return self.ask(ResetWorkflow(workflow_id=self.state.workflow_id, event_id=event_id, **fields))

    # ---------------------------------------------------------------------------------------------------------- workers

    def claim(
        self, worker: str = "ann", *, build_id: str = "b1", held: int = 0, lives_for: int = 0, token: str = "", **more: Any
    ) -> Any:
        """Claim the workflow task: `WorkflowClaimed` or `NotWanted`."""
        return self.ask(
            ClaimWorkflow(
                workflow_id=self.state.workflow_id,
                run_id=self.run.run_id,
                worker=worker,
                token=token or f"t{next(self._numbers)}",
                build_id=build_id,
                held=held,
                lives_for=lives_for,
                **more,
            )
        )

    def report(self, claimed: WorkflowClaimed | Reported | None, *steps: Step, **fields: Any) -> Any:
        """Report on the strength of what a claim or the last report said; `claimed` None: facts alone."""
        seen = {} if claimed is None else {"token": claimed.token, "based_on": claimed.length, "decided": claimed.decided}
        fields = {
            "worker": "ann",
            "build_id": "b1",
            "run_id": self.run.run_id,
            "based_on": 0,
            "decided": 0,
            "nonce": f"n{next(self._numbers)}",
            **seen,
            **fields,
        }
        return self.ask(Report(workflow_id=self.state.workflow_id, steps=steps, **fields))

    def decide(self, *commands: AnyCommand, closing: ClosingCommand | None = None, **fields: Any) -> Any:
        """Claim the workflow task, see everything, ask for `commands`."""
        worker, build_id = fields.get("worker", "ann"), fields.get("build_id", "b1")
        claimed = self.claim(worker, build_id=build_id, waiting=fields.pop("waiting", ()))
        assert isinstance(claimed, WorkflowClaimed), claimed
        return self.report(claimed, Commands(commands=commands), closing=closing, **fields)

    def take(self, command: int, attempt: int = 1, worker: str = "ann", **fields: Any) -> ActivityClaim:
        """Claim an activity's attempt, which must be granted."""
        reply = self.try_take(command, attempt, worker, **fields)
        assert isinstance(reply, ActivityClaimed), reply
        return reply.claim

    def try_take(self, command: int, attempt: int = 1, worker: str = "ann", **fields: Any) -> Any:
        fields = {"token": f"a{next(self._numbers)}", **fields}
        return self.ask(
            ClaimActivity(
                workflow_id=self.state.workflow_id,
                run_id=self.run.run_id,
                command=command,
                attempt=attempt,
                worker=worker,
                **fields,
            )
        )

    def succeed(self, claim: ActivityClaim, result: Payload = NULL, **fields: Any) -> Any:
        """Report a result alone."""
        return self.report(None, done(claim, result), run_id=claim.run_id, **fields)

    def fail(self, claim: ActivityClaim, failure: Failure | str = "boom", **fields: Any) -> Any:
        """Report that an attempt failed."""
        what = Failure(type="Boom", message=failure) if isinstance(failure, str) else failure
        step = ActivityErred(command=claim.scheduled.id, attempt=claim.attempt, token=claim.token, failure=what, **fields)
        return self.report(None, step, run_id=claim.run_id)

    def present(self, claim: ActivityClaim, worker: str = "ann", **fields: Any) -> Any:
        """A sign of life as workers in other processes give it: an owner that does not know the claim can take it over."""
        return self.beat(claim, worker=worker, claimed_at=claim.claimed_at, lives_for=10, **fields)

    def beat_workflow(self, claimed: WorkflowClaimed, run_id: str = "") -> Any:
        """A sign of life of whoever has the workflow claim."""
        return self.ask(
            HeartbeatWorkflow(workflow_id=self.state.workflow_id, run_id=run_id or self.run.run_id, token=claimed.token)
        )

    def beat(self, claim: ActivityClaim, **fields: Any) -> Any:
        return self.ask(
            HeartbeatActivity(
                workflow_id=self.state.workflow_id,
                run_id=claim.run_id,
                command=claim.scheduled.id,
                attempt=claim.attempt,
                token=claim.token,
                **fields,
            )
        )


def done(claim: ActivityClaim, result: Payload = NULL, fed_at: int = 0) -> ActivitySucceeded:
    """The fact that an attempt has succeeded; with `fed_at`, a fused one."""
    return ActivitySucceeded(command=claim.scheduled.id, attempt=claim.attempt, token=claim.token, result=result, fed_at=fed_at)


__all__ = ["Rejection", "Story", "done", "text"]
