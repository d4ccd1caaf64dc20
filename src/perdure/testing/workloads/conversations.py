"""Conversations: runs with handlers that are told things, work on some of them, keep continuing as new, and are asked what they heard."""

import asyncio

from perdure.sdk.handle import Handle
from perdure.sdk.workflow import workflow
from perdure.testing.workloads.promise import promise
from perdure.testing.workloads.services import Services
from perdure.testing.workloads.stage import Stage, begin
from perdure.testing.workloads.workload import Workload


@workflow
class Listener:
    """Continues as new after every fourth thing it was told, its handlers' work done; gives all it heard."""

    def __init__(self) -> None:
        self.before: list[int] = []
        self.heard: list[int] = []

    @workflow.run
    async def run(self, goal: int, before: list[int]) -> list[int]:
        self.before = before
        await workflow.wait_until(lambda: len(self.all()) >= goal or len(self.heard) >= 4)
        await workflow.wait_until(workflow.all_handlers_finished)
        if len(self.all()) < goal:
            workflow.continue_as_new(goal, self.all())
        return self.all()

    @workflow.signal
    def tell(self, number: int) -> None:
        self.heard.append(number)

    @workflow.signal
    async def think(self, number: int) -> None:
        """Asks a service first; hears in the step that follows, so that it hears once however often this is cut off."""
        await Services.part(f"listener {workflow.info().workflow_id}", number)
        self.heard.append(number)

    @workflow.query
    def all(self) -> list[int]:
        return self.before + self.heard


class Conversations(Workload):
    """What was acknowledged is in the next answer, nothing is heard twice, no answer takes back what an earlier one said."""

    name = "conversations"
    builds = ((Listener,),)

    async def play(self, stage: Stage, number: int) -> None:
        id, goal = f"listener-{number}", stage.chance.randint(1, 9)
        handle = await begin(stage, Listener.run(goal, []), id)
        async with asyncio.TaskGroup() as group:
            for n in range(goal):
                group.create_task(self._tell(stage, handle, n))
            group.create_task(self._ask(stage, handle))
        heard = await stage.again(handle.result)
        promise(sorted(heard) == list(range(goal)), f"{id} heard {heard} of {goal}")
        after = await stage.again(lambda: handle.query(Listener.all()))
        promise(after == heard, f"{id} ended with {heard} and says {after}")

    async def _tell(self, stage: Stage, handle: Handle[list[int]], n: int) -> None:
        await stage.sleep(stage.chance.random() * 0.8)
        id, thinks = f"{handle.id}.{n}", stage.chance.random() < 0.4
        call = Listener.think(n) if thinks else Listener.tell(n)
        if stage.chance.random() < 0.2:
            await stage.again(lambda: handle.signal("tell", {"not": "a number"}, signal_id=f"{id}.misfit"))
            stage.acknowledged_signal(handle.id, f"{id}.misfit")
        for _ in range(stage.chance.choice([1, 1, 2])):
            await stage.again(lambda: handle.signal(call, signal_id=id))
        stage.acknowledged_signal(handle.id, id)
        if not thinks:
            heard = await stage.again(lambda: handle.query(Listener.all()))
            promise(n in heard, f"{id} was acknowledged and is not among {heard}")

    async def _ask(self, stage: Stage, handle: Handle[list[int]]) -> None:
        last: list[int] = []
        for _ in range(3):
            await stage.sleep(stage.chance.random() * 0.4)
            heard = await stage.again(lambda: handle.query(Listener.all()))
            promise(heard[: len(last)] == last, f"{handle.id} said {last} and then {heard}")
            last = heard
