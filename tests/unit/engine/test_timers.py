"""The timer queue: what no longer matters does not pile up, what does is brought."""

from perdure.core.requests import ActivityDue, TimerDue
from perdure.engine.timers import LATE, SMALL, TimerQueue
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


def test_silence_is_not_judged_by_who_was_asleep() -> None:
    """A clock that calls late brings timers at once, and what takes a claim from a silent worker a period later; it does so once a while."""
    clock, spare = VirtualClock(0), 1_000_000
    brought: list[int] = []
    queue = TimerQueue(clock, lambda target: brought.append(target.command), lambda _: True, spare)

    def lost(command: int) -> ActivityDue:
        return ActivityDue(workflow_id="w", run_id="r", command=command, attempt=1, kind="lost", token="t")

    queue.add(100, lost(1))
    clock.jump(100 + LATE)
    assert brought == [1]  # not late enough to have been asleep
    queue.add(clock.now() + 100, lost(2))
    queue.add(clock.now() + 200, TimerDue(workflow_id="w", run_id="r", command=3))
    clock.jump(woken := clock.now() + 2 * spare)
    assert brought == [1, 3]
    queue.bring_overdue(TimerDue(workflow_id="w", run_id="r", command=7))
    queue.bring_overdue(lost(2))  # somebody else has seen it too
    assert brought == [1, 3, 7]
    queue.add(woken + 1, lost(4))
    clock.jump(woken + spare - 1)
    assert brought == [1, 3, 7]
    clock.jump(woken + spare)
    assert brought == [1, 3, 7, 2, 2, 4]
    queue.add(clock.now() + 100, lost(5))
    clock.jump(clock.now() + spare // 2)
    assert brought == [1, 3, 7, 2, 2, 4, 5]  # it has been asleep again, soon after: the dead must be found all the same
    queue.add(clock.now() + spare, lost(6))
    clock.jump(clock.now() + 2 * spare)
    assert brought == [1, 3, 7, 2, 2, 4, 5]
