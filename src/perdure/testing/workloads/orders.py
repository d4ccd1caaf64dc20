"""Orders: steps that are undone when a later one fails."""

from perdure import errors
from perdure.sdk.workflow import workflow
from perdure.testing.workloads.promise import promise
from perdure.testing.workloads.services import Services
from perdure.testing.workloads.stage import Stage, begin
from perdure.testing.workloads.workload import Workload


@workflow
async def order_saga(order: str, refuse: bool) -> str:
    try:
        async with workflow.saga() as saga:
            receipt = await Services.charge(order)
            saga.add(Services.refund(order))
            await Services.ship(order, refuse)
    except errors.ApplicationError as error:
        return f"refunded: {error.type}"
    return receipt


class Orders(Workload):
    """Charge and ship; a shipment that is refused is paid back. Every effect happens once, for every order."""

    name = "orders"
    builds = ((order_saga,),)

    async def play(self, stage: Stage, number: int) -> None:
        order, refuse = f"order-{number}", stage.chance.random() < 0.3
        handle = await begin(stage, order_saga(order, refuse), order)
        if stage.chance.random() < 0.4:  # the client was not sure and asks again, under the same request id
            await begin(stage, order_saga(order, refuse), order)
        result = await stage.again(handle.result)
        promise(result == ("refunded: NoStock" if refuse else f"charge:{order}"), f"{order} ended with {result!r}")
        counts = tuple(stage.ledger.count(operation, order) for operation in ("charge", "ship", "refund"))
        promise(counts == ((1, 0, 1) if refuse else (1, 1, 0)), f"{order}: charged, shipped, refunded {counts} times")
