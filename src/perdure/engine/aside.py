"""What follows when a worker's report cannot be written down: its facts are told again alone, its run is quarantined, its start kept.

Without this the run would be decided again by the same code, with the same end, for ever.
"""

import asyncio
import logging
from typing import Final, Protocol

from msgspec.structs import replace

from perdure.core.failure import Failure
from perdure.core.requests import (
    ActivityErred,
    ActivitySucceeded,
    AnyRequest,
    ClaimActivity,
    Commands,
    Fact,
    QuarantineRun,
    ReleaseWorkflow,
    Report,
)
from perdure.engine.live import LiveWorkflow
from perdure.engine.pending import PendingWrite, Unwritable
from perdure.ports import Answer

log: Final = logging.getLogger(__name__)


class Owner(Protocol):
    """The owner of the run's shard."""

    async def load(self, key: tuple[str, str]) -> LiveWorkflow: ...

    def submit(self, live: LiveWorkflow, request: AnyRequest, answer: Answer | None) -> None: ...

    def release(self, live: LiveWorkflow) -> None: ...


async def set_aside(owner: Owner, pending: PendingWrite, why: Unwritable) -> None:
    """Bring the run to where it would be had the worker told its facts only, and quarantine it; then tell the worker."""
    request = pending.request
    assert isinstance(request, (Report, ReleaseWorkflow))
    try:
        await _quarantine(owner, pending, request, why)
        if isinstance(request, Report):
            for step in request.steps:
                if not isinstance(step, Commands):
                    await _tell(owner, request, step)
    except Exception:
        log.exception("setting workflow %r aside failed", request.workflow_id, extra=_ids(request))
    finally:
        if pending.answer is not None:
            pending.answer(None, why)


async def _quarantine(owner: Owner, pending: PendingWrite, request: Report | ReleaseWorkflow, why: Unwritable) -> None:
    reason = f"what its code asked for cannot be written down: {why.message}".encode(errors="backslashreplace").decode()
    log.error("workflow %r (run %s) is quarantined: %s", request.workflow_id, request.run_id, reason, extra=_ids(request))
    live = await owner.load((request.namespace, request.workflow_id))
    if pending.first is not None:
        # In one go with the quarantine: whoever was offered the run meanwhile must not decide it once more.
        owner.submit(live, pending.first.request, pending.first.answer)
        owner.release(live)
    await _submitted(
        owner,
        live,
        QuarantineRun(
            namespace=request.namespace,
            workflow_id=request.workflow_id,
            run_id=request.run_id,
            reason=reason,
            build_id=request.build_id,
        ),
    )


async def _tell(owner: Owner, report: Report, fact: Fact) -> None:
    try:
        await _tell_alone(owner, report, replace(fact, fed_at=0) if isinstance(fact, ActivitySucceeded) else fact)
    except Unwritable as why:
        failure = Failure(type=type(why).__name__, message=str(why).encode(errors="backslashreplace").decode())
        erred = ActivityErred(command=fact.command, attempt=fact.attempt, token=fact.token, failure=failure)
        await _tell_alone(owner, report, erred)


async def _tell_alone(owner: Owner, report: Report, fact: Fact) -> None:
    live = await owner.load((report.namespace, report.workflow_id))
    run = live.state.run
    activity = run.activities.get(fact.command) if run is not None else None
    if activity is not None and activity.claim is None and activity.attempt == fact.attempt:
        # The claim was only remembered, and was forgotten with the write that failed.
        claim = ClaimActivity(
            namespace=report.namespace,
            workflow_id=report.workflow_id,
            run_id=report.run_id,
            command=fact.command,
            attempt=fact.attempt,
            worker=report.worker,
            token=fact.token,
            incarnation=report.incarnation,
            lives_for=report.lives_for,
        )
        owner.submit(live, claim, None)
    alone = Report(
        namespace=report.namespace,
        workflow_id=report.workflow_id,
        run_id=report.run_id,
        worker=report.worker,
        build_id=report.build_id,
        based_on=0,
        decided=0,
        nonce=report.nonce,
        steps=(fact,),
    )
    await _submitted(owner, live, alone)


async def _submitted(owner: Owner, live: LiveWorkflow, request: AnyRequest) -> None:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answer(_reply: object, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    owner.submit(live, request, answer)
    await done


def _ids(request: Report | ReleaseWorkflow) -> dict[str, str]:
    """Bound to log lines."""
    return {"workflow_id": request.workflow_id, "run_id": request.run_id}
