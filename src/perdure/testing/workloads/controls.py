"""Controls: runs that begin late, stumble, and are paused, resumed and reset by people while they work."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from perdure import errors
from perdure.sdk.handle import Handle
from perdure.sdk.options import Retry
from perdure.sdk.workflow import workflow
from perdure.testing.workloads.promise import promise
from perdure.testing.workloads.services import Services
from perdure.testing.workloads.stage import Stage, signal
from perdure.testing.workloads.workload import Workload

PARTS: Final = 3
WORDS: Final = ("one", "two", "three")


@workflow(retry=Retry(initial=0.2, max_attempts=2))
async def steered(id: str, stumbles: bool) -> list[Any]:
    if stumbles and workflow.info().attempt == 1:
        await Services.part(id, PARTS)
        raise ValueError("stumbled")
    done: list[int] = []
    for number in range(PARTS):
        done.append(await Services.part(id, number))
        await workflow.sleep(0.05)
        workflow.set_attributes({"done": number})
    return [done, sorted([await workflow.receive("word", str) for _ in WORDS])]


class Controls(Workload):
    """Whatever is done to it, the run comes to the same end: each part is done once, each signal is taken once."""

    name = "controls"
    builds = ((steered,),)

    async def play(self, stage: Stage, number: int) -> None:
        id, chance = f"steered-{number}", stage.chance
        call, delay = (id, chance.random() < 0.5), chance.choice((None, 0.3))
        handle = await stage.again(
            lambda: stage.client.start(steered(*call), id=id, request_id=f"{id}.start", start_delay=delay)
        )
        for place, word in enumerate(WORDS):
            await self._meddle(stage, handle, f"{id}.{place}")
            await signal(stage, stage.client.handle(id), "word", word, f"{id}.{word}")
        await self._meddle(stage, handle, f"{id}.last")
        await self._unless_over(stage, stage.client.handle(id).resume)
        result = await stage.again(stage.client.handle(id).result)  # of whatever run it was reset to, also after its end
        promise(result == [[0, 1, 4], sorted(WORDS)], f"{id} ended {result}")
        for part in range(PARTS):
            times = stage.ledger.count("part", f"{id}/{part}")
            promise(times == 1, f"{id}: part {part} was done {times} times")

    async def _meddle(self, stage: Stage, handle: Handle[Any], request_id: str) -> None:
        """Pause it, resume it or reset it to any event; it may be over."""
        chance, current = stage.chance, stage.client.handle(handle.id)
        await stage.sleep(chance.random() * 0.3)
        match chance.choice(("pause", "resume", "reset", "nothing")):
            case "pause":
                await self._unless_over(stage, current.pause)
            case "resume":
                await self._unless_over(stage, current.resume)
            case "reset":
                length = len(await stage.again(current.history))
                point = chance.randint(1, length)
                await self._unless_over(stage, lambda: current.reset(point, request_id=request_id))
            case _:
                pass

    async def _unless_over(self, stage: Stage, act: Callable[[], Awaitable[object]]) -> None:
        with suppress(
            errors.WorkflowClosed, errors.InvalidArgument
        ):  # it has ended, or another attempt with a shorter history has begun
            await stage.again(act)
