"""Heartbeats: activities that say where they are, and fall silent."""

from perdure.sdk.workflow import workflow
from perdure.testing.workloads.promise import promise
from perdure.testing.workloads.services import Services
from perdure.testing.workloads.stage import Stage, begin
from perdure.testing.workloads.workload import Workload


@workflow
async def heart(id: str, steps: int) -> int:
    return await Services.beating(id, steps)


class Heartbeats(Workload):
    """An activity that falls silent is tried again, from where it last said it was."""

    name = "heartbeats"
    builds = ((heart,),)

    async def play(self, stage: Stage, number: int) -> None:
        id, steps = f"heart-{number}", stage.chance.randint(2, 6)
        handle = await begin(stage, heart(id, steps), id)
        promise(await stage.again(handle.result) == steps, f"{id} did not finish its steps")
        promise(stage.ledger.count("beat", id) == 1, f"{id} happened {stage.ledger.count('beat', id)} times")
