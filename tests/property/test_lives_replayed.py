"""The same lives with workflow code as authors write it, run by the real replay: racing workers never make a history it cannot repeat."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from perdure import activity, workflow
from perdure.core import commands as cm
from perdure.core import events as ev
from perdure.replay.mismatch import Mismatch, OldBuild, Stale
from perdure.replay.runner import Runner
from perdure.sdk.workflow import workflow_of
from perdure.testing.machine.lives import LifeError, live
from perdure.testing.machine.toy import GENERATIONS_MAX, MismatchError, OldBuildError, Plan, StaleError

BLOCK = 100


@activity
async def step0() -> str: ...


@activity
async def step1() -> str: ...


class Log:
    """What one runner's code has seen; outside of the run, for the life to judge."""

    def __init__(self) -> None:
        self.handled: list[str] = []
        self.taken: list[str] = []
        self.cancels = 0
        self.paths: dict[str, bool] = {}


class Author:
    """One execution of the workflow: activities, a timer and signals race; see `perdure.testing.machine.toy` for the plan."""

    def __init__(self, build: int, plan: Plan, log: Log) -> None:
        self.build, self.plan, self.log = build, plan, log
        self.seen = self.scheduled = 0
        self.winner = ""
        self.steps: list[asyncio.Task[str]] = []
        self.timer: asyncio.Task[None] | None = None
        self.listening: dict[str, asyncio.Task[str]] = {}
        self.news = asyncio.Event()
        """An update has counted as an input."""

    def changed(self, change_id: str) -> bool:
        if self.build == 1:
            return False
        self.log.paths[change_id] = workflow.patched(change_id)
        return self.log.paths[change_id]

    def effect(self, what: str) -> None:
        assert workflow.side_effect(lambda: what) == what, "replay sees something else than was seen before"

    def listen(self, name: str) -> None:
        self.listening[name] = asyncio.create_task(workflow.receive(name, str))

    def schedule(self) -> None:
        call = step1() if self.scheduled % 2 else step0()
        self.steps.append(asyncio.create_task(call))
        self.scheduled += 1

    async def main(self, generation: int) -> str:
        if self.changed("start"):
            self.effect("extra")
        for _ in range(self.plan.fan):
            self.schedule()
        self.listen("sig")
        try:
            while self.seen < self.plan.limit:
                await self.one_input()
        except asyncio.CancelledError:
            self.log.cancels += 1
            self.effect("cleanup")
            for step in self.steps:
                step.cancel()
            raise
        finally:
            for task in self.listening.values():
                task.cancel()
            await asyncio.gather(*self.listening.values(), return_exceptions=True)
        if self.plan.continues and generation < GENERATIONS_MAX:
            workflow.continue_as_new(generation + 1)
        return f"{self.winner} at {workflow.time()}"

    async def one_input(self) -> None:
        told = asyncio.create_task(self.news.wait())
        waiting: list[Any] = [told, *self.steps, *self.listening.values(), *([self.timer] if self.timer else [])]
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        self.news.clear()
        for task in waiting[1:]:
            if task not in done:
                continue
            if task is self.listening.get("sig"):
                self.signalled(task.result())
            elif task is self.listening.get("raw"):
                self.log.handled.append(task.result())
                self.listen("raw")
            else:
                self.answered(task)

    def answered(self, task: Any) -> None:
        result = task in self.steps and not task.cancelled()
        if task in self.steps:
            self.steps.remove(task)
        else:
            self.timer = None
        if task.cancelled():
            return
        self.count("result" if result else "other")
        self.effect(f"stamp:{workflow.time()}")
        if result and self.scheduled < self.plan.activities:
            self.schedule()

    def signalled(self, signal_id: str) -> None:
        self.log.handled.append(signal_id)
        self.listen("sig")
        if self.changed("handler"):
            self.effect(f"new:{signal_id}")
        elif len(signal_id) % 2:
            self.effect(f"old:{signal_id}")
        self.count("signal")
        if self.timer is None:
            self.timer = asyncio.create_task(workflow.sleep(0.000_003))
        else:
            self.timer.cancel()
            self.timer = None
        if int(signal_id[1:]) % 3 == 0 and self.steps:
            self.steps[0].cancel()

    async def update(self, update_id: str) -> str:
        """Some wait for the timer or the first step, some fail, some count as an input of main."""
        assert self.log.handled, "an update was taken where its validator says no"
        self.log.taken.append(update_id)
        number = int(update_id[1:])
        if self.changed("update"):
            self.effect(f"new:{update_id}")
        self.effect(f"{update_id} at {workflow.time()}")
        if number % 4 == 0:
            self.seen += 1
            self.news.set()
        if number % 5 == 0:
            raise ValueError(update_id)
        if number % 3 == 1:
            await workflow.sleep(0.000_002)
            self.effect(f"{update_id} slept until {workflow.time()}")
        return f"{update_id}:{len(self.log.handled)}"

    def count(self, kind: str) -> None:
        self.seen += 1
        if not self.winner:
            self.winner = kind
            self.effect(f"won:{kind}")
            if kind == "signal" and self.plan.receives:
                self.listen("raw")


def toy(build: int, plan: Plan, log: Log) -> Any:
    """The workflow class of one runner."""

    @workflow(name="toy")
    class Toy:
        def __init__(self) -> None:
            self.author = Author(build, plan, log)

        @workflow.run
        async def run(self, generation: int = 1) -> str:
            return await self.author.main(generation)

        @workflow.update(name="toy")
        async def ask(self, update_id: str) -> str:
            return await self.author.update(update_id)

        @ask.validator
        def _may(self, update_id: str) -> None:
            if not log.handled:
                raise ValueError(f"nothing to do for {update_id}")

    return workflow_of(Toy)


class ReplayedRunner:
    """The real runner under the life's names."""

    def __init__(self, build: int, plan: Plan, started: ev.Started) -> None:
        self.log = Log()

        self.runner = Runner(toy(build, plan, self.log), "default", "w", started)

    length = property(lambda self: self.runner.length)
    decided = property(lambda self: self.runner.decided)
    time = property(lambda self: self.runner.context.time)
    ending = property(lambda self: self.runner.ending)
    handled = property(lambda self: self.log.handled)
    cancels = property(lambda self: self.log.cancels)
    paths = property(lambda self: self.log.paths)
    taken = property(lambda self: self.log.taken)

    def offer(self, update: ev.UpdateBody, now: int) -> Any:
        return self.runner.offer(update, now)

    def advance(self, events: Sequence[Any], covered: int) -> None:
        try:
            self.runner.advance(events, covered)
        except Mismatch as mismatch:
            raise MismatchError(f"{mismatch}: {mismatch.expected} / {mismatch.found}") from mismatch
        except OldBuild as old:
            raise OldBuildError(old.change_id) from old
        except Stale as stale:
            raise StaleError(str(stale)) from stale

    def feed_fact(self, event: ev.ActivityCompleted) -> None:
        self.runner.feed_fact(event)

    def take(self) -> tuple[cm.AnyCommand, ...]:
        return self.runner.take()

    def untaken(self) -> tuple[ev.SignalReceived, ...]:
        return self.runner.context.untaken()

    def close(self) -> None:
        self.runner.close()


@pytest.mark.rule("F2")
@pytest.mark.rule("F10")
@pytest.mark.scenario(18)
@pytest.mark.scenario(19)
@pytest.mark.parametrize("block", range(4))
def test_every_history_of_a_life_replays_through_real_code(block: int, record_property: Any) -> None:
    """Fused or not, cold and warm, over two builds: the real replay repeats every history, and no message is lost."""
    counts: Counter[str] = Counter()
    for seed in range(5_000 + block * BLOCK, 5_000 + (block + 1) * BLOCK):
        try:
            counts += live(seed, ReplayedRunner)
        except LifeError:
            record_property("seed", seed)
            raise
    assert counts["fused"] > 5
    assert counts["cut"] > 10
    assert counts["updates"] > 10
