"""Households: parents with children of every kind, and messages to a run that is nobody's child."""

import asyncio

from perdure import errors
from perdure.sdk.workflow import workflow
from perdure.testing.workloads.promise import promise
from perdure.testing.workloads.services import Services
from perdure.testing.workloads.stage import Stage, begin
from perdure.testing.workloads.workload import Workload


@workflow
async def errand(subject: str, number: int, leg: int) -> int:
    """A child; every other one goes on in a second run."""
    if number % 3 == 1:
        await asyncio.sleep(0.2)
    await Services.part(subject, leg)
    if number % 2 and leg == 0:
        workflow.continue_as_new(subject, number, 1)
    return number * number


@workflow
async def keeper(household: str) -> None:
    """A child that ends with its parent's chain, and tidies up when it may."""
    try:
        await workflow.receive("never")
    except asyncio.CancelledError:
        await Services.part(f"{household}/kept", 1)
        raise


@workflow
async def household(id: str, width: int, policy: str, inbox: str, move: bool) -> list[int]:
    """Starts a keeper, perhaps moves on, sends children on errands, and tells the inbox of each; the last word is said on its way out."""
    if not move:
        await workflow.start_child(
            keeper(id), id=f"keeper-{id}", on_parent_close="cancel" if policy == "cancel" else "terminate"
        )
        if policy == "move":
            workflow.continue_as_new(id, width, policy, inbox, True)
    board = workflow.external(inbox)

    async def one(number: int) -> int:
        result = await errand(f"{id}/{number}", number, 0)
        await board.signal("told", number)
        return result

    results = await asyncio.gather(*(one(number) for number in range(width)))
    last = asyncio.create_task(board.signal("told", width))
    await asyncio.sleep(0)
    promise(not last.done(), "a signal was delivered before it was sent")
    return results


@workflow
async def inbox(wanted: int) -> list[int]:
    return [await workflow.receive("told", int) for _ in range(wanted)]


class Households(Workload):
    """Children run once each and are heard of, messages arrive once, also the last one of a run; whoever is left behind ends as was said."""

    name = "households"
    builds = ((household, errand, keeper, inbox),)

    async def play(self, stage: Stage, number: int) -> None:
        id, board = f"house-{number}", f"inbox-{number}"
        width, policy = stage.chance.randint(1, 5), stage.chance.choice(("terminate", "cancel", "move"))
        told = await begin(stage, inbox(width + 1), board)
        handle = await begin(stage, household(id, width, policy, board, False), id)
        stopped = stage.chance.random() < 0.35
        if stopped:
            await stage.sleep(stage.chance.random() * 1.5)
            try:
                await stage.again(lambda: handle.cancel("enough", request_id=f"{id}.c"))
            except errors.WorkflowClosed:
                stopped = False
        try:
            results = await stage.again(handle.result)
        except errors.WorkflowCancelled:
            promise(stopped, f"{id} was cancelled by nobody")
            await stage.again(lambda: told.terminate("nobody writes any more", request_id=f"{board}.t"))
            return
        promise(results == [n * n for n in range(width)], f"{id} came back with {results}")
        read = await stage.again(told.result)
        promise(sorted(read) == list(range(width + 1)), f"{board} was told {read}")
        for n in range(width):
            legs = [stage.ledger.count("part", f"{id}/{n}/{leg}") for leg in (0, 1)]
            promise(legs == [1, n % 2], f"errand {n} of {id} had the effects {legs}")
        await self._end_of_keeper(stage, id, policy)

    async def _end_of_keeper(self, stage: Stage, id: str, policy: str) -> None:
        try:
            await stage.again(stage.client.handle(f"keeper-{id}").result)
            promise(False, f"the keeper of {id} went home by itself")
        except errors.WorkflowCancelled:
            promise(policy == "cancel", f"the keeper of {id} was cancelled")
            promise(stage.ledger.count("part", f"{id}/kept/1") == 1, f"the keeper of {id} did not tidy up")
        except errors.WorkflowTerminated:
            promise(policy != "cancel", f"the keeper of {id} was terminated")
