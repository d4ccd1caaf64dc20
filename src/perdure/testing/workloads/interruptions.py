"""Interruptions: activities that their own workflow cancels."""

import asyncio
from typing import Final, Literal, TypeAlias

from perdure.sdk.workflow import workflow
from perdure.testing.workloads.promise import promise
from perdure.testing.workloads.services import Services
from perdure.testing.workloads.stage import Stage, begin
from perdure.testing.workloads.workload import Workload

OnCancel: TypeAlias = Literal["try", "wait", "abandon"]


HOW: Final[tuple[OnCancel, ...]] = ("try", "wait", "abandon")


@workflow
async def interrupted(id: str, how: OnCancel) -> str:
    try:
        async with asyncio.timeout(0.3):
            await Services.cancellable.options(on_cancel=how)(id)
    except TimeoutError:
        await Services.part(id, 1)
        return "interrupted"
    return "done"


class Interruptions(Workload):
    """An activity is cancelled by its workflow, which waits for its end, or not, or lets it run on."""

    name = "interruptions"
    builds = ((interrupted,),)

    async def play(self, stage: Stage, number: int) -> None:
        id, how = f"cut-{number}", stage.chance.choice(HOW)
        handle = await begin(stage, interrupted(id, how), id)
        result = await stage.again(handle.result)
        promise(result == "interrupted", f"{id} ({how}) ended {result}")
        promise(stage.ledger.count("cleaned", id) <= 1, f"{id} was cleaned up more than once")
