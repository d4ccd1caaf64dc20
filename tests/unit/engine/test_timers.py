"""The timer queue: what no longer matters does not pile up, what does is brought."""

from perdure.core.requests import TimerDue
from perdure.engine.timers import SMALL, TimerQueue
from perdure.testing.virtual_clock import VirtualClock


def test_dead_wakes_do_not_pile_up() -> None:
    """The heap stays in proportion to what is alive, each wake is looked at a bounded number of times, and none that lives is lost."""
    clock, looks = VirtualClock(0), 0
    brought: list[int] = []

    def is_live(target: TimerDue) -> bool:
        nonlocal looks
        looks += 1
        return target.command % 100 == 0

    queue = TimerQueue(clock, lambda target: brought.append(target.command), is_live)
    for number in range(50_000):
        queue.add(1_000_000 - number, TimerDue(workflow_id="w", run_id="r", command=number))
    assert len(queue) <= 2 * 500 + SMALL
    assert looks <= 2 * 50_000
    clock.jump(1_000_000)
    assert [number for number in brought if number % 100 == 0] == list(range(0, 50_000, 100))[::-1]
