"""Duplicates: several starts of one workflow id at once."""

import asyncio

from perdure import errors
from perdure.sdk.handle import Handle
from perdure.sdk.workflow import workflow
from perdure.testing.workloads.promise import promise
from perdure.testing.workloads.services import Services
from perdure.testing.workloads.stage import Stage
from perdure.testing.workloads.workload import Workload


@workflow
async def short(id: str, stamp: int) -> int:
    await Services.part(id, stamp)
    return stamp


class Duplicates(Workload):
    """Several starts of one id at once, each with its own request id: one run, and those who may attach get it."""

    name = "duplicates"
    builds = ((short,),)

    async def play(self, stage: Stage, number: int) -> None:
        id = f"twin-{number}"
        results = await asyncio.gather(*(self._one(stage, id, stamp) for stamp in range(3)))
        heard = {result for result in results if result is not None}
        promise(len(heard) == 1, f"{id}: starts at once ended in {heard}")
        done = sum(stage.ledger.count("part", f"{id}/{stamp}") for stamp in range(3))
        promise(done == 1, f"{id}: {done} runs happened")

    async def _one(self, stage: Stage, id: str, stamp: int) -> int | None:
        async def start() -> Handle[int]:
            return await stage.client.start(
                short(id, stamp),
                id=id,
                on_conflict="attach" if stamp else "fail",
                reuse="never",
                request_id=f"{id}.{stamp}",
            )

        try:
            handle = await stage.again(start)
        except errors.WorkflowAlreadyStarted:
            return None
        return await stage.again(handle.result)
