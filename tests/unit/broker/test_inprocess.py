"""The broker's credits: one count a worker and kind, drawn on by all its queues in turn."""

from collections import Counter

import pytest

from perdure.broker.inprocess import LINES_KEPT, InProcessBroker
from perdure.core.tasks import Task


def task(queue: str, number: int) -> Task:
    return Task(namespace="default", workflow_id=f"{queue}{number}", run_id="r", queue=queue, command=2, attempt=1)


def offer(broker: InProcessBroker, *queues: str, count: int = 3) -> None:
    for queue in queues:
        for number in range(count):
            broker.publish(task(queue, number))


def test_credits_are_one_count_for_all_queues_of_a_worker():
    """Three queues and two credits: two deliveries, one more for each credit that comes through any of the subscriptions."""
    broker, got = InProcessBroker(), []
    offer(broker, "a", "b", "c")
    lines = [broker.subscribe(queue, "activity", "w", got.append, 2 if queue == "a" else 0) for queue in ("a", "b", "c")]
    assert len(got) == 2
    lines[0].grant(1)
    assert len(got) == 3
    lines[2].grant(6)
    assert len(got) == 9
    assert broker.depth("a", "activity") == broker.depth("b", "activity") == broker.depth("c", "activity") == 0


@pytest.mark.scenario(90)
def test_queues_take_turns():
    """A long line does not starve a short one."""
    broker, got = InProcessBroker(), []
    lines = [broker.subscribe(queue, "activity", "w", got.append, 0) for queue in ("a", "b")]
    offer(broker, "a", count=50)
    offer(broker, "b", count=5)
    for _ in range(10):
        lines[0].grant(1)
    assert Counter(item.queue for item in got) == {"a": 5, "b": 5}


def test_credits_can_be_taken_back():
    """Below zero nothing is delivered until as much has been granted again."""
    broker, got = InProcessBroker(), []
    line = broker.subscribe("a", "activity", "w", got.append, 1)
    line.grant(-2)
    offer(broker, "a")
    line.grant(1)
    assert got == []
    line.grant(1)
    assert len(got) == 1


def test_kinds_and_workers_have_counts_of_their_own():
    """Credits for workflow tasks, or of another worker, pay for no activity task of this one."""
    broker, mine, others = InProcessBroker(), [], []
    broker.subscribe("a", "workflow", "w", mine.append, 100)
    broker.subscribe("a", "activity", "w", mine.append, 0)
    broker.subscribe("a", "activity", "v", others.append, 2)
    offer(broker, "a")
    assert (len(mine), len(others)) == (0, 2)


def test_whoever_is_handed_a_task_may_grant():
    """Each task comes once, in order, though every delivery pays for the next."""
    broker, got = InProcessBroker(), []

    def deliver(item):
        got.append(item.workflow_id)
        line.grant(1)

    line = broker.subscribe("a", "activity", "w", deliver, 0)
    offer(broker, "a", count=20)
    line.grant(1)
    assert got == [f"a{n}" for n in range(20)]
    assert line.credits == 1


def test_a_cancelled_subscription_gets_nothing_more():
    """What is left of the worker's credits is for its other queues."""
    broker, got = InProcessBroker(), []
    first = broker.subscribe("a", "activity", "w", got.append, 2)
    broker.subscribe("b", "activity", "w", got.append, 0)
    first.cancel()
    offer(broker, "a", "b")
    assert [item.queue for item in got] == ["b", "b"]


def urgent(number: int, priority: int) -> Task:
    return Task(
        namespace="default", workflow_id=f"p{priority}-{number}", run_id="r", queue="a", command=2, attempt=1, priority=priority
    )


def test_higher_priority_goes_first_and_within_one_whoever_came_first():
    """Strictly: nothing of a lower one is handed over while a higher one waits."""
    broker, got = InProcessBroker(), []
    line = broker.subscribe("a", "activity", "w", got.append, 0)
    for number in range(2):
        for priority in (0, 5, -1000, 1000, 5):
            broker.publish(urgent(number, priority))
    for _ in range(10):
        line.grant(1)
    assert [item.priority for item in got] == [1000, 1000, 5, 5, 5, 5, 0, 0, -1000, -1000]
    assert [item.workflow_id for item in got[2:6]] == ["p5-0", "p5-0", "p5-1", "p5-1"]
    assert broker.depth("a", "activity") == 0


def test_a_full_line_makes_room_for_what_is_more_urgent():
    """The newest of the lowest priority goes, and is counted; as urgent as that is not urgent enough."""
    broker, got = InProcessBroker(backlog_max=3), []
    for number, priority in enumerate((1, 0, 0, 0, 2, -1)):
        broker.publish(urgent(number, priority))
    assert (broker.depth("a", "activity"), broker.dropped) == (3, 3)
    broker.subscribe("a", "activity", "w", got.append, 9)
    assert [item.workflow_id for item in got] == ["p2-4", "p1-0", "p0-1"]


def test_a_task_that_nobody_could_take_keeps_its_place():
    """Offered in vain, it is still the first of its priority."""
    broker, got = InProcessBroker(), []
    line = broker.subscribe("a", "activity", "w", got.append, 0)
    for number in range(3):
        broker.publish(urgent(number, 1))
    assert not line.line.offer_first()
    line.grant(3)
    assert [item.workflow_id for item in got] == ["p1-0", "p1-1", "p1-2"]


def test_lines_nobody_needs_are_forgotten():
    """Any caller may name a queue: past a bound, those in which nothing waits and that nobody serves go. The others stay as they are."""
    broker = InProcessBroker()
    for number in range(LINES_KEPT + 50):
        broker.subscribe(f"q{number}", "workflow", "w", lambda _: None, 0).cancel()
    offer(broker, "full", count=2)
    broker.subscribe("served", "workflow", "w", lambda _: None, 0)
    assert {(line.queue, line.waiting, line.subscribers) for line in broker.lines()} == {("full", 2, 0), ("served", 0, 1)}
    assert broker.depth("full", "activity") + broker.depth("full", "workflow") == 2
