"""The workflow on show: an order is charged, approved when it is large, shipped and handed to a driver, or its money goes back.

Everything a crash could interrupt is an activity; each sends its idempotency key along, so a repeated call is done once.
"""

import asyncio
import json
import os
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Literal
from urllib.parse import urlsplit

from perdure import Retry, activity, workflow

SERVICES = "PERDURE_DEMO_SERVICES"
"""The environment variable that says where the services are."""

LARGE_CENTS = 50_000
"""Orders of this much or more are approved by a person."""


@dataclass(frozen=True)
class Order:
    id: str
    cents: int

    @property
    def is_large(self) -> bool:
        return self.cents >= LARGE_CENTS


@dataclass(frozen=True)
class Receipt:
    order_id: str
    outcome: Literal["delivered", "refunded"]
    why: str = ""


class RefusedError(Exception):
    """A service will never do this; trying again is no use."""


class NotApprovedError(Exception):
    """Whoever had to approve the order said no, or nothing."""


patient = Retry(initial=0.05, max_interval=1.0, non_retryable=(RefusedError,))


@activity(retry=patient, start_to_close=30)
def charge(order: Order) -> str:
    return call("payments/charge", order_id=order.id, cents=order.cents)


@activity(retry=patient, start_to_close=30)
def refund(order: Order) -> str:
    return call("payments/refund", order_id=order.id, cents=order.cents)


@activity(retry=patient, start_to_close=30)
def ship(order: Order) -> str:
    return call("shipping/ship", order_id=order.id)


@activity(retry=patient, start_to_close=30)
def assign_driver(order: Order, shipment: str) -> str:
    return call("drivers/assign_driver", order_id=order.id, shipment=shipment)


@workflow
async def fulfil(order: Order) -> Receipt:
    try:
        async with workflow.saga() as saga:
            await charge(order)
            saga.add(refund(order))
            if order.is_large:
                await approval()
            shipment = await ship(order)
            await assign_driver(order, shipment)
    except (NotApprovedError, RefusedError) as error:
        return Receipt(order.id, "refunded", str(error))
    await asyncio.sleep(0.2)  # the drive: a durable timer
    return Receipt(order.id, "delivered")


async def approval() -> None:
    try:
        async with asyncio.timeout(3600):
            if not await workflow.receive("approve", bool):
                raise NotApprovedError("declined")
    except TimeoutError:
        raise NotApprovedError("nobody answered for an hour") from None


def call(path: str, **body: object) -> str:
    """Ask a service for one effect under this activity's key; gives the effect's id."""
    address = urlsplit(os.environ[SERVICES])
    connection = HTTPConnection(address.hostname or "127.0.0.1", address.port, timeout=5)
    try:
        headers = {"Content-Type": "application/json", "Idempotency-Key": activity.info().idempotency_key}
        connection.request("POST", f"/{path}", json.dumps(body), headers)
        response = connection.getresponse()
        answer = json.load(response)
    finally:
        connection.close()
    if response.status == 200:
        return str(answer["id"])
    if response.status < 500:
        raise RefusedError(answer["reason"])
    raise ConnectionError(f"{path} answered {response.status}: {answer['reason']}")
