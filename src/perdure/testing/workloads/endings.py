"""Endings: every way a run can end by itself."""

from perdure import errors
from perdure.sdk.handle import Handle
from perdure.sdk.workflow import workflow
from perdure.testing.workloads.promise import promise
from perdure.testing.workloads.services import Services
from perdure.testing.workloads.stage import Stage
from perdure.testing.workloads.workload import Workload


@workflow
async def ending(how: str) -> str:
    await Services.part("ending", 1)
    if how == "raise":
        raise LookupError("on purpose")
    if how == "wait":
        await workflow.receive("never", str)
    return how


class Endings(Workload):
    """Runs that fail, that pass their own time, that return: the client hears which, whenever it asks."""

    name = "endings"
    builds = ((ending,),)

    async def play(self, stage: Stage, number: int) -> None:
        id, how = f"end-{number}", stage.chance.choice(("raise", "wait", "return"))
        timeout = 2.0 if how == "wait" else None
        handle = await stage.again(lambda: stage.client.start(ending(how), id=id, request_id=f"{id}.start", timeout=timeout))
        for _ in range(2):
            promise(await self._heard(stage, handle) == how, f"{id}: something else was heard than {how}")

    async def _heard(self, stage: Stage, handle: Handle[str]) -> str:
        try:
            return await stage.again(handle.result)
        except errors.WorkflowTimedOut:
            return "wait"
        except errors.WorkflowFailed as error:
            promise(isinstance(error.__cause__, LookupError), f"{handle.id} failed with {error.__cause__!r}")
            return "raise"
