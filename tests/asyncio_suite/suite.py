"""Runs CPython's own asyncio tests on workflow loops: `python suite.py MODULE…` prints one JSON object, module → results.

The tests want a loop they may run until something completes, so `SuiteLoop` is a `WorkflowLoop` with the least driver: when it is idle,
the timer that is due first fires; no real time passes. What it adds is what a runner has in its place, and what a loop's *user* outside
workflows expects of it (`stop`, handlers, factories). It changes nothing of how callbacks, tasks and timers run.
"""

import asyncio
import gc
import heapq
import importlib
import io
import json
import random
import sys
import unittest
from itertools import count
from typing import Any

from perdure.replay import guards
from perdure.replay.loop import WorkflowLoop


class Ready(list):  # type: ignore[type-arg]
    """The ready queue; it looks empty to a loop that was told to stop after this round."""

    def __init__(self, loop: "SuiteLoop", handles: list[Any]) -> None:
        super().__init__(handles)
        self.loop = loop

    def __bool__(self) -> bool:
        return len(self) > 0 and not self.loop.stopping


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
        self.stopping = False
        self.chance = random.Random(7)
        super().__init__(start_timer=self.hold, cancel_timer=lambda timer: None, now=lambda: self.seconds)
        self.workflow_context = self

    # ----------------------------------------------------------------------------------------- what a run's context gives

    def now(self) -> int:
        return round(self.seconds * 1e6)

    def random(self) -> random.Random:
        return self.chance

    # -------------------------------------------------------------------------------------------------------- the driver

    @property
    def _ready(self) -> Ready:  # type: ignore[override]
        return self.queue

    @_ready.setter
    def _ready(self, handles: list[Any]) -> None:
        self.queue = Ready(self, handles)

    def hold(self, delay_us: int, summary: str, timer: Any) -> None:
        heapq.heappush(self.timers, (self.seconds + delay_us / 1e6, next(self.numbers), timer))

    def run_until_complete(self, future: Any) -> Any:
        fresh = not asyncio.isfuture(future)
        future = asyncio.ensure_future(future, loop=self)
        future.add_done_callback(self.stop)
        try:
            self.run_forever()
        except BaseException:
            if fresh and future.done() and not future.cancelled():
                future.exception()
            raise
        finally:
            future.remove_done_callback(self.stop)
        if not future.done():
            raise RuntimeError("Event loop stopped before Future completed.")
        return future.result()

    def run_forever(self) -> None:
        """Until somebody calls `stop`, or nothing is left that could wake anything."""
        try:
            self.run_until_idle()
            while not self.stopping and self.fire():
                self.run_until_idle()
        finally:
            self.stopping = False

    def fire(self) -> bool:
        if not self.timers:
            return False
        due, _number, timer = heapq.heappop(self.timers)
        self.seconds = max(self.seconds, due)
        timer.fire()
        return True

    def run_until_idle(self) -> None:
        """A loop that was told to stop before it began runs one round, as asyncio's own does."""
        if self.stopping and len(self.queue):
            self.stopping = False
            self.call_soon(self.stop)
        super().run_until_idle()

    def stop(self, _done: Any = None) -> None:
        self.stopping = True

    def advance_time(self, seconds: float) -> None:
        self.seconds += seconds

    # -------------------------------------------------------------------------- what only the loop's outer user may set

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

    def set_exception_handler(self, handler: Any) -> None:
        self.handler = handler

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        super().call_exception_handler(context)
        try:
            if self.handler is not None:
                self.handler(self, context)
            else:
                asyncio.BaseEventLoop.default_exception_handler(self, context)  # type: ignore[arg-type]
        except Exception as error:  # noqa: BLE001 – as asyncio has it, an error of a handler is not raised
            super().call_exception_handler({"message": "error in an exception handler", "exception": error})

    _current_handle = None

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


def own_loop(case: Any) -> None:
    """In place of the `setUp` of tests that make a stock loop and take the I/O out of it."""
    super(case.stock_class, case).setUp()
    case.loop = new_test_loop(case)


def cases(name: str) -> unittest.TestSuite:
    module: Any = importlib.import_module(f"test.test_asyncio.{name}")
    if name == "test_pep492":
        module.BaseTest.stock_class = module.BaseTest
        module.BaseTest.setUp = own_loop
    return unittest.defaultTestLoader.loadTestsFromModule(module)


class CleanResult(unittest.TextTestResult):
    """What a failed test leaves behind is collected before the next one begins, which may count or log such things."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.collected = 0
        self.passed: list[str] = []

    def startTest(self, test: Any) -> None:
        wrong = len(self.errors) + len(self.failures)
        if wrong != self.collected:
            gc.collect()
        self.collected = wrong
        super().startTest(test)

    def addSuccess(self, test: Any) -> None:
        super().addSuccess(test)
        self.passed.append(short(test))


def run(name: str) -> dict[str, Any]:
    suite = cases(name)
    asyncio.set_event_loop_policy(SuitePolicy())  # each module's tearDown resets it
    made = SuiteLoop.made
    result: Any = unittest.TextTestRunner(stream=io.StringIO(), verbosity=0, resultclass=CleanResult).run(suite)
    wrong = {short(case): text.strip().splitlines()[-1] for case, text in result.errors + result.failures}
    return {
        "run": result.testsRun,
        "loops": SuiteLoop.made - made,
        "passed": result.passed,
        "skipped": [short(case) for case, _why in result.skipped],
        "wrong": wrong,
    }


def short(case: Any) -> str:
    """`module.Class.test`"""
    name: str = case.id()
    return name.removeprefix("test.test_asyncio.")


def main(modules: list[str]) -> None:
    guards.install()
    utils: Any = importlib.import_module("test.test_asyncio.utils")
    utils.TestCase.new_test_loop = new_test_loop
    utils.TestCase.close_loop = staticmethod(SuiteLoop.close)
    print(json.dumps({name: run(name) for name in modules}))


if __name__ == "__main__":
    main(sys.argv[1:])
