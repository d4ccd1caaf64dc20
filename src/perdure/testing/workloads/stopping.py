"""Stopping: runs that are cancelled or terminated at any instant."""

import asyncio

from perdure import errors
from perdure.sdk.handle import Handle
from perdure.sdk.workflow import workflow
from perdure.testing.workloads.promise import promise
from perdure.testing.workloads.services import Services
from perdure.testing.workloads.stage import Stage, begin
from perdure.testing.workloads.workload import Workload


@workflow
async def stoppable(id: str) -> str:
    try:
        async with workflow.saga() as saga:
            await Services.charge(id)
            saga.add(Services.refund(id))
            for n in range(3):
                await asyncio.sleep(0.3)
                await Services.part(id, n)
    except asyncio.CancelledError:
        await Services.part(id, 99)
        raise
    return "done"


class Stopping(Workload):
    """Cancel or terminate at any instant. A cancelled run cleans up; whatever ended, ended once."""

    name = "stopping"
    builds = ((stoppable,),)

    async def play(self, stage: Stage, number: int) -> None:
        id = f"stop-{number}"
        handle = await begin(stage, stoppable(id), id)
        await stage.sleep(stage.chance.random() * 1.6)
        how = stage.chance.choice(("cancel", "terminate"))
        try:
            if how == "cancel":
                await stage.again(lambda: handle.cancel("enough", request_id=f"{id}.c"))
            else:
                await stage.again(lambda: handle.terminate("enough", request_id=f"{id}.t"))
        except errors.WorkflowClosed:
            how = ""
        ended = await self._end(stage, handle)
        allowed = {"cancel": {"cancelled", "done"}, "terminate": {"terminated"}, "": {"done"}}[how]
        promise(ended in allowed, f"{id}: {how or 'nothing'} was acknowledged, it ended {ended}")
        charged, refunded = stage.ledger.count("charge", id), stage.ledger.count("refund", id)
        if ended == "done":
            promise((charged, refunded) == (1, 0), f"{id} is done, charged {charged}, refunded {refunded}")
        elif ended == "cancelled":
            promise(refunded <= charged <= 1, f"{id} was cancelled, charged {charged}, refunded {refunded}")
            promise(stage.ledger.count("part", f"{id}/99") == 1, f"{id} was cancelled and did not clean up")

    async def _end(self, stage: Stage, handle: Handle[str]) -> str:
        try:
            return await stage.again(handle.result)
        except errors.WorkflowCancelled:
            return "cancelled"
        except errors.WorkflowTerminated:
            return "terminated"
