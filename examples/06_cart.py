"""A run one talks to: a class whose updates answer, whose query looks, and whose parcels are child workflows."""

import asyncio
import tempfile

import perdure
from perdure import workflow


@workflow
async def parcel(item: str) -> str:  # a run of its own, with a history of its own
    return f"{item} delivered"


@workflow
class Cart:
    def __init__(self) -> None:
        self.prices: dict[str, int] = {}
        self.is_paid = False

    @workflow.run
    async def run(self) -> list[str]:
        await workflow.wait_until(lambda: self.is_paid)
        return await asyncio.gather(*(parcel(item) for item in self.prices))

    @workflow.update
    def add(self, item: str, cents: int) -> int:
        self.prices[item] = cents
        return len(self.prices)

    @add.validator
    def _may_add(self, item: str, cents: int) -> None:
        if cents <= 0:
            raise ValueError(f"{item} has no price")

    @workflow.query
    def total(self) -> int:
        return sum(self.prices.values())

    @workflow.update
    def checkout(self) -> str:
        self.is_paid = True
        return f"{self.total()} paid"


async def main() -> None:
    with tempfile.TemporaryDirectory() as data:
        async with perdure.embedded(data) as app:
            app.register(Cart, parcel)
            cart = await app.client.start(Cart.run(), id="cart-1")
            print(await cart.update(Cart.add("lamp", 4_900), update_id="add-1"))  # → 1
            print(await cart.update(Cart.add("chair", 9_900), update_id="add-2"))  # → 2
            print(await cart.query(Cart.total()))  # → 14800
            print(await cart.update(Cart.checkout(), update_id="pay"))  # → 14800 paid
            print(await cart.result())  # → ['lamp delivered', 'chair delivered']


if __name__ == "__main__":
    asyncio.run(main())
