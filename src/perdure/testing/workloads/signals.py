"""Signals: against timers, and against a workflow that keeps continuing as new."""

import asyncio

from perdure.sdk.handle import Handle
from perdure.sdk.workflow import workflow
from perdure.testing.workloads.promise import promise
from perdure.testing.workloads.services import Services
from perdure.testing.workloads.stage import Stage, begin, signal
from perdure.testing.workloads.workload import Workload


@workflow
async def gate(rounds: int) -> list[str]:
    """Waits for signals, each against a timer; what comes late is taken in a later round, or at the end."""
    taken: list[str] = []
    for _ in range(rounds):
        try:
            taken.append(await asyncio.wait_for(workflow.receive("go", str), 0.4))
        except TimeoutError:
            await Services.part("gate", len(taken))
    while len(taken) < rounds:
        taken.append(await workflow.receive("go", str))
    return taken


class RacingSignals(Workload):
    """Signals that race timers, some sent twice under one id. Each is taken once, none is lost."""

    name = "racing signals"
    builds = ((gate,),)

    async def play(self, stage: Stage, number: int) -> None:
        id, rounds = f"gate-{number}", stage.chance.randint(1, 4)
        handle = await begin(stage, gate(rounds), id)
        sent = [f"{id}.{n}" for n in range(rounds)]
        for value in sent:
            await stage.sleep(stage.chance.random() * 0.8)
            await signal(stage, handle, "go", value, value)
        taken = await stage.again(handle.result)
        promise(sorted(taken) == sorted(sent), f"{id} took {taken} of {sent}")


@workflow
async def tally(seen: int, goal: int) -> int:
    """Continues as new after every third signal; counts them all."""
    taken = 0
    while seen < goal:
        if taken == 3:
            workflow.continue_as_new(seen, goal)
        taken += 1
        await workflow.receive("tick", int)
        seen += 1
        if seen % 2:
            await Services.part(f"tally {workflow.info().workflow_id}", seen)
    return seen


class SteadySender(Workload):
    """A steady stream of signals against a workflow that keeps continuing as new: none is lost, none counted twice."""

    name = "steady sender"
    builds = ((tally,),)

    async def play(self, stage: Stage, number: int) -> None:
        id, goal = f"tally-{number}", stage.chance.randint(2, 10)
        call = tally(0, goal)

        async def first() -> Handle[int]:
            return await stage.client.signal_with_start(call, "tick", 0, id=id, signal_id=f"{id}.0", request_id=f"{id}.start")

        handle = await stage.again(first)
        stage.acknowledged_signal(id, f"{id}.0")
        for n in range(1, goal):
            await stage.sleep(stage.chance.random() * 0.05)
            await signal(stage, handle, "tick", n, f"{id}.{n}")
        counted = await stage.again(handle.result)
        promise(counted == goal, f"{id} counted {counted} of {goal} signals")
