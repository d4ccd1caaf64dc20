"""The activities all workloads share: requests to the outside world, reached over a bad line."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

from perdure import errors
from perdure.sdk.activity import activity
from perdure.sdk.options import Retry
from perdure.testing.workloads.ledger import Ledger

PATIENT: Final = Retry(initial=0.05, max_interval=2.0)
"""Retries until it works; soon enough that no simulation waits long."""


class Services:
    """Activities of all workloads: the outside world, reached over a bad line."""

    def __init__(self, ledger: Ledger, chance: random.Random, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._ledger = ledger
        self._chance = chance
        self._sleep = sleep

    @activity(retry=PATIENT)
    async def charge(self, order: str) -> str:
        await self._sleep(self._chance.random() * 0.05)
        return self._ledger.do("charge", order)

    @activity(retry=PATIENT)
    async def ship(self, order: str, refuse: bool) -> str:
        await self._sleep(self._chance.random() * 0.05)
        if refuse:
            raise errors.ApplicationError("no stock", type="NoStock", non_retryable=True)
        return self._ledger.do("ship", order)

    @activity(retry=PATIENT)
    async def refund(self, order: str) -> str:
        return self._ledger.do("refund", order)

    @activity(retry=PATIENT)
    async def part(self, subject: str, number: int) -> int:
        if self._chance.random() < 0.5:
            await self._sleep(self._chance.random() * 0.2)
        self._ledger.do("part", f"{subject}/{number}")
        return number * number

    @activity(retry=Retry(initial=0.1, max_interval=1.0, max_attempts=3))
    async def doomed(self, subject: str) -> None:
        self._ledger.do("doomed", subject)
        raise ValueError("always")

    @activity(retry=PATIENT, start_to_close=2.0)
    async def slow_at_first(self, subject: str) -> int:
        attempt = activity.info().attempt
        await self._sleep(60.0 if attempt == 1 else 0.1)
        self._ledger.do("slow", subject)
        return attempt

    @activity(retry=Retry(initial=0.1, max_attempts=2), start_to_close=1.0)
    async def never_in_time(self) -> None:
        await self._sleep(60.0)

    @activity(retry=Retry(initial=0.2, factor=1.0, jitter=0.0), schedule_to_close=1.5)
    async def out_of_time(self) -> None:
        raise ValueError("always")

    @activity(queue="nobody", schedule_to_start=0.5)
    async def nobody_takes(self) -> None:
        raise AssertionError("somebody took it")

    @activity(retry=PATIENT)
    async def cancellable(self, subject: str) -> None:
        try:
            await self._sleep(30.0)
        except asyncio.CancelledError:
            self._ledger.do("cleaned", subject)
            raise

    @activity(retry=PATIENT, heartbeat=3.0)
    async def beating(self, subject: str, steps: int) -> int:
        """Works in steps it remembers; falls silent once, on its first attempt."""
        info = activity.info()
        done = int(info.heartbeat_details[0]) if info.heartbeat_details else 0
        for step in range(done, steps):
            await self._sleep(0.7)
            activity.heartbeat(step + 1)
            if info.attempt == 1 and step == steps // 2:
                await self._sleep(100.0)
        self._ledger.do("beat", subject)
        return steps
