"""The unkind broker keeps what its port promises and nothing more."""

import random

from perdure.core.tasks import Task
from perdure.testing.seeded_loop import LoopClock, SeededLoop
from perdure.testing.unkind_broker import UnkindBroker, Unkindness


def deliveries(unkindness, *, kind=False):
    """How often each of 300 tasks arrives, and whether they came in order."""
    loop = SeededLoop.of(random.Random(1), 0)
    clock = LoopClock(loop)
    broker = UnkindBroker(random.Random(2), clock, unkindness)
    broker.is_kind = kind
    came = []

    async def body():
        broker.subscribe("q", "workflow", "w", lambda task: came.append(int(task.workflow_id)), 10_000)
        for number in range(300):
            broker.publish(Task(namespace="default", workflow_id=str(number), run_id="r", queue="q"))
        await clock.sleep(10_000_000)

    loop.run_until_complete(body())
    return [came.count(number) for number in range(300)], came == sorted(came)


def test_tasks_are_dropped_doubled_and_late_as_told():
    """Each unkindness shows, alone."""
    dropped, _ = deliveries(Unkindness(drop=0.3))
    assert set(dropped) == {0, 1}
    doubled, _ = deliveries(Unkindness(twice=0.3))
    assert set(doubled) == {1, 2}
    late, in_order = deliveries(Unkindness(late=0.3))
    assert set(late) == {1}
    assert not in_order


def test_a_kind_one_delivers_everything_once_and_in_order():
    """After the heal nothing of it is left."""
    assert deliveries(Unkindness(drop=0.5, twice=0.5, late=0.5), kind=True) == ([1] * 300, True)
