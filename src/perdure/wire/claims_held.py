"""The book of the claims in a worker's hands, kept by watching what it asks and what it is told. From it the beats are sent.

An entry stands until the engine has heard how the claim ended, not until the worker has said so: a report on its way must not lose its claim.
"""

from threading import Lock
from typing import Any

from perdure.core.errors import ResourceExhausted, Unavailable
from perdure.core.replies import ActivityClaim, ActivityClaimed, Beaten, Reported, WorkflowClaimed
from perdure.core.requests import (
    ClaimActivity,
    ClaimWorkflow,
    Commands,
    CompleteLater,
    ReleaseActivity,
    ReleaseWorkflow,
    Report,
)
from perdure.wire.messages import HeldClaim


class ClaimsHeld:
    """Written on the loop's thread, read by the thread that beats."""

    def __init__(self) -> None:
        self._held: dict[str, HeldClaim] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._held)

    def all(self) -> tuple[HeldClaim, ...]:
        """Every claim in hand. On any thread."""
        with self._lock:
            return tuple(self._held.values())

    def drop(self, token: str) -> bool:
        """Forget a claim; false when it was not in hand."""
        with self._lock:
            return self._held.pop(token, None) is not None

    def asked(self, request: Any) -> None:
        """A worker says something: what it gives back is out of its hands at once."""
        if isinstance(request, (ReleaseWorkflow, ReleaseActivity)):
            self.drop(request.token)

    def answered(self, request: Any, reply: Any, error: BaseException | None) -> None:
        """A worker was told what came of a request."""
        kind: type[object] = request.__class__
        if kind is Report:
            self._reported(request, reply, error)
        elif kind is ClaimWorkflow:
            if type(reply) is WorkflowClaimed:
                self._decides(request, reply.token)
        elif kind is ClaimActivity:
            if type(reply) is ActivityClaimed:
                self._runs(request.worker, reply.claim)
        elif kind is CompleteLater and isinstance(reply, Beaten):
            self.drop(request.token)

    def _reported(self, report: Report, reply: Reported | None, error: BaseException | None) -> None:
        if reply is None:
            if report.token:
                self.drop(report.token)  # its worker throws the run away
            if isinstance(error, (ResourceExhausted, Unavailable)):
                return  # its facts are told again
        for step in report.steps:
            if type(step) is not Commands:
                self.drop(step.token)  # type: ignore[union-attr]
        if reply is None:
            return
        if report.token and report.token != reply.token:
            self.drop(report.token)
        if reply.token:
            self._decides(report, reply.token)
        for claim in reply.activities:
            self._runs(report.worker, claim)

    def _decides(self, of: ClaimWorkflow | Report, token: str) -> None:
        self._keep(
            HeldClaim(namespace=of.namespace, workflow_id=of.workflow_id, run_id=of.run_id, token=token, worker=of.worker)
        )

    def _runs(self, worker: str, claim: ActivityClaim) -> None:
        self._keep(
            HeldClaim(
                namespace=claim.namespace,
                workflow_id=claim.workflow_id,
                run_id=claim.run_id,
                token=claim.token,
                command=claim.scheduled.id,
                attempt=claim.attempt,
                worker=worker,
                claimed_at=claim.claimed_at,
            )
        )

    def _keep(self, claim: HeldClaim) -> None:
        with self._lock:
            self._held[claim.token] = claim
