"""Deploys: code that changes under open runs."""

import asyncio
from typing import Any

from perdure.sdk.workflow import workflow
from perdure.testing.workloads.promise import promise
from perdure.testing.workloads.services import Services
from perdure.testing.workloads.stage import Stage, begin
from perdure.testing.workloads.workload import Workload


@workflow(name="deployed")
async def deployed_1(id: str) -> str:
    await Services.part(id, 1)
    await asyncio.sleep(1.0)
    await Services.part(id, 2)
    await asyncio.sleep(1.0)
    return await Services.charge(id)


@workflow(name="deployed")
async def deployed_2(id: str) -> str:
    await Services.part(id, 1)
    if workflow.patched("count before sleeping"):
        await Services.part(id, 3)
    await asyncio.sleep(1.0)
    await Services.part(id, 2)
    if workflow.patched("pause less"):
        await asyncio.sleep(0.5)
    else:
        await asyncio.sleep(1.0)
    return await Services.charge(id)


class Deploys(Workload):
    """Code changes under open runs, with version markers: every run ends as if nothing had happened."""

    name = "deploys"
    builds = ((deployed_1,), (deployed_2,))

    async def play(self, stage: Stage, number: int) -> None:
        id = f"deploy-{number}"
        handle = await begin(stage, stage_call(id), id)
        promise(await stage.again(handle.result) == f"charge:{id}", f"{id} ended otherwise")
        promise(stage.ledger.count("charge", id) == 1, f"{id} was charged {stage.ledger.count('charge', id)} times")


def stage_call(id: str) -> Any:
    """Either build's call is the same request."""
    return deployed_1(id)
