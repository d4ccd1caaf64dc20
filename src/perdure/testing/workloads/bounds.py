"""Bounds: activities that run out of tries, of time, or of workers."""

from typing import ClassVar

from perdure import errors
from perdure.core.failure import FailureKind
from perdure.sdk.workflow import workflow
from perdure.testing.workloads.promise import promise
from perdure.testing.workloads.services import Services
from perdure.testing.workloads.stage import Stage, begin
from perdure.testing.workloads.workload import Workload


@workflow
async def trying(id: str) -> list[str]:
    said: list[str] = []
    try:
        await Services.doomed(id)
    except (ValueError, ConnectionError, errors.ActivityError) as error:  # the last one when its last worker was lost
        said.append(type(error).__name__)
    try:
        await Services.never_in_time()
    except errors.ActivityError as error:
        said.append(error.kind)
    said.append(str(await Services.slow_at_first(id) > 1))
    return said


class Timeouts(Workload):
    """Retries that run out, attempts that pass their time: the workflow hears which."""

    name = "timeouts"
    ends: ClassVar[tuple[FailureKind, ...]] = ("start_to_close", "lost")
    builds = ((trying,),)

    async def play(self, stage: Stage, number: int) -> None:
        id = f"try-{number}"
        handle = await begin(stage, trying(id), id)
        doomed, late, slow = await stage.again(handle.result)
        promise(doomed in {"ValueError", "ConnectionError", "ActivityError"}, f"{id}: what was doomed ended {doomed}")
        promise(late in self.ends, f"{id}: what was never in time ended {late}")
        promise(slow == "True", f"{id}: the slow one succeeded at once")
        promise(stage.ledger.count("slow", id) == 1, f"{id}: the slow one happened {stage.ledger.count('slow', id)} times")


@workflow
async def bounded() -> list[str]:
    said: list[str] = []
    for call in (Services.out_of_time(), Services.nobody_takes()):
        try:
            await call
        except errors.ActivityError as error:
            said.append(error.kind)
        except ValueError as error:
            said.append(str(error))
    return said


class Bounds(Workload):
    """Bounds on the whole of an activity, and on its wait for a worker."""

    name = "bounds"
    builds = ((bounded,),)

    async def play(self, stage: Stage, number: int) -> None:
        handle = await begin(stage, bounded(), f"bound-{number}")
        whole, waiting = await stage.again(handle.result)
        promise(whole in {"always", "schedule_to_close", "lost"}, f"bound-{number}: the whole ended {whole}")
        promise(waiting == "schedule_to_start", f"bound-{number}: what nobody takes ended {waiting}")
