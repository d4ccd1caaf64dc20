"""What a workload is run on: a client, a ledger of the outside world, chance and time; and how it talks to the engine from there.

Never says how the engine does its work, nor which faults there are.
"""

import random
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from perdure.sdk.client import Client
from perdure.sdk.handle import Handle
from perdure.testing.workloads.ledger import Ledger

T = TypeVar("T")


class Stage(Protocol):
    """What a workload is run on."""

    client: Client
    ledger: Ledger
    chance: random.Random

    async def sleep(self, seconds: float) -> None: ...

    async def again(self, act: Callable[[], Awaitable[T]]) -> T:
        """Do something until it is acknowledged: once more after `Unavailable` and `ResourceExhausted`."""
        ...

    def acknowledged_signal(self, workflow_id: str, signal_id: str) -> None:
        """This signal must be in the history of that workflow id."""
        ...


async def begin(stage: Stage, call: Any, id: str) -> Handle[Any]:
    """Start `call` under `id`, as often as it takes, as one request."""

    async def start() -> Handle[Any]:
        return await stage.client.start(call, id=id, request_id=f"{id}.start")

    return await stage.again(start)


async def signal(stage: Stage, handle: Handle[Any], name: str, value: Any, signal_id: str) -> None:
    """Send a signal until it is acknowledged, perhaps once more after that; it counts once."""
    await stage.again(lambda: handle.signal(name, value, signal_id=signal_id))
    stage.acknowledged_signal(handle.id, signal_id)
    if stage.chance.random() < 0.2:
        await stage.again(lambda: handle.signal(name, value, signal_id=signal_id))
