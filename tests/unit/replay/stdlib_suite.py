"""Runs parts of CPython's own asyncio tests on workflow loops: `python stdlib_suite.py MODULE…` prints one JSON object.

The tests want a loop they may run until something completes, so `SuiteLoop` adds just that: timers fire in due order, no real time is
waited for. Run by `test_loop_stdlib.py`, in a process of its own.
"""

import asyncio
import heapq
import importlib
import io
import json
import sys
import unittest
from itertools import count
from typing import Any

from perdure.replay import guards
from perdure.replay.loop import WorkflowLoop


class SuiteLoop(WorkflowLoop):
    """A workflow loop that is its own runner."""

    made = 0

    def __init__(self) -> None:
        SuiteLoop.made += 1
        self.seconds = 0.0
        self.timers: list[Any] = []
        self.numbers = count()
        self.handler: Any = None
        self.factory: Any = None
        super().__init__(start_timer=self.hold, cancel_timer=lambda timer: None, now=lambda: self.seconds)

    def hold(self, delay_us: int, summary: str, timer: Any) -> None:
        heapq.heappush(self.timers, (self.seconds + delay_us / 1e6, next(self.numbers), timer))

    def run_until_complete(self, future: Any) -> Any:
        fresh = not asyncio.isfuture(future)
        future = self.create_task(future) if fresh else future
        self.run_until_idle()
        while not future.done():
            if not self.timers:
                raise RuntimeError("Event loop stopped before Future completed.")
            due, _number, timer = heapq.heappop(self.timers)
            self.seconds = max(self.seconds, due)
            timer.fire()
            self.run_until_idle()
        return future.result()

    def run_forever(self) -> None:
        self.run_until_idle()

    def stop(self) -> None:
        """It stops when it is idle."""

    def set_task_factory(self, factory: Any) -> None:
        self.factory = factory

    def get_task_factory(self) -> Any:
        return self.factory

    def create_task(self, coro: Any, *, name: Any = None, **keywords: Any) -> Any:
        if self.factory is None:
            return super().create_task(coro, name=name, **keywords)
        task = self.factory(self, coro, **keywords)
        task.set_name(name)
        return task

    def advance_time(self, seconds: float) -> None:
        self.seconds += seconds

    def set_exception_handler(self, handler: Any) -> None:
        self.handler = handler

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        super().call_exception_handler(context)
        if self.handler is not None:
            self.handler(self, context)

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is none."""


class SuitePolicy(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return SuiteLoop()


def new_test_loop(case: Any, gen: Any = None) -> SuiteLoop:
    """In place of the tests' own loop of mocked time; `gen` would check each step of that clock."""
    loop = SuiteLoop()
    case.set_event_loop(loop)
    return loop


def run(name: str) -> dict[str, Any]:
    suite = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(f"test.test_asyncio.{name}"))
    asyncio.set_event_loop_policy(SuitePolicy())  # each module's tearDown resets it
    made = SuiteLoop.made
    result = unittest.TextTestRunner(stream=io.StringIO(), verbosity=0).run(suite)
    wrong = {case.id(): text.strip().splitlines()[-1] for case, text in result.errors + result.failures}
    return {"run": result.testsRun, "loops": SuiteLoop.made - made, "wrong": wrong}


def main(modules: list[str]) -> None:
    guards.install()
    utils: Any = importlib.import_module("test.test_asyncio.utils")
    utils.TestCase.new_test_loop = new_test_loop
    utils.TestCase.close_loop = staticmethod(SuiteLoop.close)
    print(json.dumps({name: run(name) for name in modules}))


if __name__ == "__main__":
    main(sys.argv[1:])
