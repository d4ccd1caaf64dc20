"""What is to be sent is written together with what was decided: a death in between loses no task, and no task precedes its commit."""

import asyncio
import random
from typing import Any

import pytest

from perdure import activity, workflow
from perdure.broker.inprocess import InProcessBroker
from perdure.core.tasks import Task
from perdure.errors import Unavailable
from perdure.node import Node
from perdure.runtime.chance import RealChance
from perdure.runtime.clock import RealClock
from perdure.store.journal import JournalStore
from perdure.testing.chance import SeededChance
from perdure.testing.disk import SimulatedFiles
from perdure.testing.virtual_environment import Environment, environment

RAN: list[int] = []


@activity
async def step(n: int) -> int:
    RAN.append(n)
    return n + 1


@workflow
async def two_steps(n: int) -> int:
    return await step(await step(n))


class Watched(InProcessBroker):
    """Knows what it was told to carry. One that is `mute` carries nothing, as if its process had died right before."""

    def __init__(self, *, mute: bool = False) -> None:
        super().__init__()
        self.mute = mute
        self.told: list[Task] = []
        self.heard = asyncio.Event()

    def publish(self, task: Task) -> bool:
        self.told.append(task)
        self.heard.set()
        return False if self.mute else super().publish(task)


class Forgetful:
    """Makes an environment's broker lose each task the first time it is told of it."""

    def __init__(self, env: Environment) -> None:
        self.lost = 0
        self._seen: set[tuple[object, ...]] = set()
        broker: Any = env._node.broker
        self._publish = broker.publish
        broker.publish = self.publish

    def publish(self, task: Task) -> bool:
        key = (task.kind, task.workflow_id, task.run_id, task.command, task.attempt)
        if key in self._seen:
            return bool(self._publish(task))
        self._seen.add(key)
        self.lost += 1
        return False


def node_on(files: SimulatedFiles, broker: InProcessBroker) -> Node:
    clock = RealClock()
    node = Node(JournalStore(files, clock, SeededChance(7)), broker, clock, RealChance())
    node.register(two_steps, step)
    return node


@pytest.mark.rule("O18")
async def test_a_death_between_commit_and_sending_loses_no_task() -> None:
    """The start is acknowledged, its task was given to nobody, the power goes: the next life sends it and the run ends as it must."""
    disk, mute = SimulatedFiles(random.Random(3)), Watched(mute=True)
    async with node_on(disk, mute) as app:
        await app.client.start(two_steps(1), id="a", queue="default")
        async with asyncio.timeout(20):
            await mute.heard.wait()
        disk.crash()
        with pytest.raises(Exception):  # noqa: B017  the disk of a dead process
            await app.client.start(two_steps(1), id="b")
    broker = Watched()
    async with node_on(disk, broker) as app:
        assert await app.client.handle("a").result(timeout=20) == 3
    assert broker.told


@pytest.mark.rule("O18")
async def test_what_was_not_committed_is_sent_to_nobody(caplog) -> None:
    """The write of a start and its first step fails: its caller hears so, and no activity of it is offered or runs.

    Workflow code may run ahead of its commit, for it touches nothing; what it asks for may not.
    """
    disk, broker = SimulatedFiles(random.Random(3)), Watched()
    caplog.set_level(100)
    async with node_on(disk, broker) as app:
        assert await app.client.execute(two_steps(1), id="a") == 3
        assert RAN[-2:] == [1, 2]
        disk.arm("sync")
        with pytest.raises(Unavailable):
            await app.client.start(two_steps(10), id="b")
    assert not [task for task in broker.told if task.workflow_id == "b" and task.kind == "activity"]
    assert 10 not in RAN


@pytest.mark.rule("O4")
@pytest.mark.rule("O19")
async def test_queues_that_are_emptied_cost_time_and_no_run() -> None:
    """Every task is lost the first time it is sent: the sweeper sends it again, the runs end as they must, and each step has run once."""
    async with environment() as env:
        broker = Forgetful(env)
        env.register(two_steps, step)
        RAN.clear()
        runs = [await env.client.start(two_steps(100 * n), id=f"r{n}") for n in range(20)]
        for _ in range(20):  # sweeps are no part of what an environment waits for
            await env.advance(5)
        assert [await run.result() for run in runs] == [100 * n + 2 for n in range(20)]
        assert broker.lost >= 20
        assert sorted(RAN) == sorted(100 * n + m for n in range(20) for m in (0, 1))
