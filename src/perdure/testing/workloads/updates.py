"""Updates: accounts that are paid into, refuse some, ask a service for others, and keep continuing as new."""

import asyncio
from typing import Any

from perdure.sdk.handle import Handle
from perdure.sdk.workflow import workflow
from perdure.testing.workloads.promise import promise
from perdure.testing.workloads.services import Services
from perdure.testing.workloads.stage import Stage, begin
from perdure.testing.workloads.workload import Workload


@workflow
class Account:
    """Continues as new after every third update; gives what was paid in."""

    def __init__(self) -> None:
        self.balance = 0
        self.updates = 0
        self.closed = False

    @workflow.run
    async def run(self, id: str, balance: int) -> int:
        self.balance += balance
        await workflow.wait_until(lambda: self.closed or self.updates >= 3)
        if not self.closed:
            workflow.continue_as_new(id, self.balance)
        return self.balance

    @workflow.update
    def pay(self, amount: int) -> int:
        self.balance += amount
        self.updates += 1
        return amount

    @pay.validator
    def _may_pay(self, amount: int) -> None:
        if amount <= 0:
            raise ValueError(f"{amount} is no payment")

    @workflow.update
    async def transfer(self, id: str, number: int) -> int:
        """Asks a service first; what counts is in one step with its answer, so that it counts once however often this is cut off."""
        await Services.part(id, number)
        await workflow.sleep(0.05)
        self.balance += number
        self.updates += 1
        return number

    @workflow.signal
    def close(self) -> None:
        self.closed = True


class Updates(Workload):
    """Updates that race signals, ends and each other, some sent twice at once. Each is carried out once, with one answer."""

    name = "updates"
    builds = ((Account,),)

    async def play(self, stage: Stage, number: int) -> None:
        id, count = f"account-{number}", stage.chance.randint(1, 6)
        handle = await begin(stage, Account.run(id, 0), id)
        async with asyncio.TaskGroup() as group:
            for n in range(1, count + 1):
                group.create_task(self._send(stage, handle, id, n))
        await stage.again(lambda: handle.signal(Account.close(), signal_id=f"{id}.close"))
        stage.acknowledged_signal(id, f"{id}.close")
        balance = await stage.again(handle.result)
        promise(balance == sum(range(1, count + 1)), f"{id} holds {balance} after {count} updates")

    async def _send(self, stage: Stage, handle: Handle[Any], id: str, n: int) -> None:
        await stage.sleep(stage.chance.random() * 0.8)
        update = Account.pay(n) if stage.chance.random() < 0.5 else Account.transfer(id, n)
        for _ in range(stage.chance.choice([1, 1, 2])):
            answer = await stage.again(lambda: handle.update(update, update_id=f"{id}.{n}"))
            promise(answer == n, f"{id}: update {n} was answered with {answer}")
        if stage.chance.random() < 0.3:
            try:
                await stage.again(lambda: handle.update(Account.pay(-n)))
            except ValueError:
                return
            promise(False, f"{id}: a payment of {-n} was taken")
