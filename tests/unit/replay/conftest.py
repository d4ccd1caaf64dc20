"""A bare loop with the least runner that can drive it: timers fire in due order, chance has a seed, time is what the last timer said."""

import random
from collections.abc import Coroutine, Iterator
from contextvars import Context
from typing import Any

import pytest

from perdure.replay import guards
from perdure.replay.handles import LoopTimer
from perdure.replay.loop import WorkflowLoop

STARTED_US = 1_700_000_000_000_000


class Stage:
    """Drives one workflow loop; also stands in for the run's context."""

    def __init__(self) -> None:
        self.now_us = STARTED_US
        self.chance = random.Random(7)
        self.timers: list[tuple[int, int, str, LoopTimer]] = []
        self.cancelled: list[LoopTimer] = []
        self.count = 0
        self.loop = WorkflowLoop(
            start_timer=self.start_timer, cancel_timer=self.cancel_timer, now=lambda: (self.now_us - STARTED_US) / 1e6
        )
        self.loop.workflow_context = self

    def now(self) -> int:
        return self.now_us

    def random(self) -> random.Random:
        return self.chance

    def start_timer(self, delay_us: int, summary: str, timer: LoopTimer) -> None:
        self.count += 1
        self.timers.append((self.now_us + delay_us, self.count, summary, timer))

    def cancel_timer(self, timer: LoopTimer) -> None:
        self.cancelled.append(timer)
        self.timers = [entry for entry in self.timers if entry[3] is not timer]

    def start(self, main: Coroutine[Any, Any, Any]) -> Any:
        """Make it a task and run until idle."""
        task = self.loop.create_task(main, context=Context())
        self.loop.run_until_idle()
        return task

    def fire(self) -> None:
        """Feed the timer that is due first."""
        entry = min(self.timers, key=lambda entry: entry[:2])
        self.timers.remove(entry)
        self.now_us = max(self.now_us, entry[0])
        entry[3].fire()
        self.loop.run_until_idle()

    def run(self, main: Coroutine[Any, Any, Any]) -> Any:
        """The result of `main`, firing whatever timers it needs."""
        task = self.start(main)
        while not task.done():
            assert self.timers, "it waits for something that will never come"
            self.fire()
        return task.result()


@pytest.fixture
def stage() -> Iterator[Stage]:
    guards.install()
    stage = Stage()
    yield stage
    stage.loop.close()


@pytest.fixture
def other() -> Iterator[Stage]:
    """A second run in the same process."""
    stage = Stage()
    yield stage
    stage.loop.close()
