"""Juggling: the library's own tools, with chance, time and ids of the run."""

import asyncio

from perdure.sdk.workflow import workflow
from perdure.testing.workloads.promise import promise
from perdure.testing.workloads.services import Services
from perdure.testing.workloads.stage import Stage, begin
from perdure.testing.workloads.workload import Workload


@workflow
async def juggler(width: int) -> list[str]:
    """Tasks that talk through a queue, with chance, time and ids of the run's own."""
    queue: asyncio.Queue[int] = asyncio.Queue()
    caught: list[str] = []
    lock = asyncio.Lock()

    async def throw(ball: int) -> None:
        await asyncio.sleep(workflow.random().random() * 0.3)
        await queue.put(ball)

    async def catch() -> None:
        ball = await queue.get()
        async with lock:
            await Services.part("juggler", ball)
            caught.append(f"{ball} {workflow.uuid4()} {workflow.now().isoformat()} {workflow.side_effect(lambda: ball)}")

    async with asyncio.TaskGroup() as group:
        for ball in range(width):
            group.create_task(catch())
            group.create_task(throw(ball))
    return caught


class Juggling(Workload):
    """The library's own tools; what they give back is the same at every replay, byte for byte."""

    name = "juggling"
    builds = ((juggler,),)

    async def play(self, stage: Stage, number: int) -> None:
        width = stage.chance.randint(1, 6)
        handle = await begin(stage, juggler(width), f"juggler-{number}")
        caught = await stage.again(handle.result)
        promise(sorted(int(ball.split()[0]) for ball in caught) == list(range(width)), f"juggler-{number} caught {caught}")
