"""Fan-out: many activities at once."""

import asyncio

from perdure.sdk.workflow import workflow
from perdure.testing.workloads.promise import promise
from perdure.testing.workloads.services import Services
from perdure.testing.workloads.stage import Stage, begin
from perdure.testing.workloads.workload import Workload


@workflow
async def fan_out(id: str, width: int) -> int:
    parts = await asyncio.gather(*(Services.part(id, n) for n in range(width)))
    await asyncio.sleep(0.1)
    first = await asyncio.gather(Services.part(f"{id} again", 1), asyncio.sleep(0.05))
    return sum(parts) + first[0]


class FanOut(Workload):
    """Many activities at once; each part is done once and its result arrives in its place."""

    name = "fan-out"
    builds = ((fan_out,),)

    async def play(self, stage: Stage, number: int) -> None:
        id, width = f"fan-{number}", stage.chance.randint(1, 12)
        handle = await begin(stage, fan_out(id, width), id)
        result = await stage.again(handle.result)
        promise(result == sum(n * n for n in range(width)) + 1, f"{id} ended with {result}")
        for n in range(width):
            promise(stage.ledger.count("part", f"{id}/{n}") == 1, f"part {n} of {id} was not done once")
